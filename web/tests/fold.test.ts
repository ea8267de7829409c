import { describe, expect, test } from 'vitest';
import type { StreamEvent } from '../src/api/stream';
import { fold, withoutOutcomes, withSteps } from '../src/run/fold';
import { emptyRun, type RunModel } from '../src/run/model';
import { eventsOf, stepsOf } from './fixtures';

const whole = (name: string): RunModel => withSteps(fold(emptyRun(), eventsOf(name)), stepsOf(name).steps);

let number = 0;
const told = (event: object): StreamEvent => ({ id: ++number, event: 'x', data: JSON.stringify(event) });
const part = (event: string, data: object): StreamEvent => ({ id: null, event, data: JSON.stringify(data) });
const usage = {
  input_tokens: 10,
  output_tokens: 5,
  cached_tokens: 0,
  cache_write_tokens: 0,
  thinking_tokens: 0,
  estimated: false,
};
const start = {
  kind: 'started',
  task: 't',
  model: 'm',
  dialect: 'native_tools',
  budget: { steps: 9, calls: 9 },
  context_window: 1,
  max_tokens: 1,
};
const replied = (step: number, ...calls: { name: string; arguments: string }[]) => ({
  kind: 'replied',
  step,
  took_ms: 5,
  reply: { text: 'I think.', finish: 'stop', usage, tool_calls: calls.map((call, at) => ({ id: `c${at}`, ...call })) },
});
const python = (code: string) => ({ name: 'python', arguments: JSON.stringify({ code }) });
function folded(...events: StreamEvent[]): RunModel {
  return fold(emptyRun(), events);
}
function fresh(): void {
  number = 0;
}

describe('a real run', () => {
  test('with table, plot and files, from task to answer', () => {
    const run = whole('region');
    expect(run.start?.task).toContain('region');
    expect(run.ending?.reason.kind).toBe('answered');
    expect(run.ending?.artifacts?.map((one) => one.path)).toContain('sales-by-region.png');
    expect(run.steps.map((step) => step.number)).toEqual([1, 2, 3, 4]);
    const [first, second, third] = run.steps;
    expect(first?.thought).toBe('First I look at the file.');
    expect(first?.calls[0]?.arguments['code']).toContain('read_csv');
    expect(first?.calls[0]?.outcome?.stdout.text).toBe('48 rows\n');
    expect(second?.calls[0]?.outcome?.stderr.text).toBe('checked\n');
    expect(third?.calls[0]?.outcome?.displays?.[0]?.parts.map((one) => one.mime)).toContain('image/png');
    expect(run.manifest.map((name) => name.name)).toContain('totals');
    expect(run.spent).toMatchObject({ steps: 4, calls: 3 });
    expect(run.spans.filter((span) => span.kind === 'model')).toHaveLength(4);
    expect(run.spans.filter((span) => span.kind === 'code')).toHaveLength(3);
    expect(run.waitsFor).toEqual([]);
    expect(run.phase).toBeNull();
  });

  test('is the same in one piece, event by event, and after a repeat', () => {
    const events = eventsOf('region');
    const once = fold(emptyRun(), events);
    expect(events.reduce((run, event) => fold(run, [event]), emptyRun())).toEqual(once);
    expect(fold(once, events)).toEqual(once);
    expect(fold(fold(emptyRun(), events.slice(0, 9)), events)).toEqual(once);
  });

  test('whose cell crashed has its cause and the fate of the variables', () => {
    const outcome = whole('crash').steps[1]?.calls[0]?.outcome;
    expect(outcome?.status).toBe('crashed');
    expect(outcome?.cause).toMatchObject({ kind: 'signal', name: 'SIGSEGV' });
    expect(outcome?.state).toEqual({ fate: 'restored', cell: 1 });
  });

  test('with code that was not run says why', () => {
    const call = whole('crash').steps[3]?.calls[0];
    expect(call?.state).toBe('planned');
    expect(call?.told).toContain('missing_name');
  });

  test('whose code a person changed has both', () => {
    const run = whole('edited');
    const call = run.steps[0]?.calls[0];
    expect(call?.proposed).toBe('print(6 * 7)');
    expect(call?.arguments['code']).toBe('print(6 * 7, "checked")');
    expect(call?.approvals[0]?.decision).toMatchObject({ kind: 'edit' });
    expect(call?.outcome?.stdout.text).toBe('42 checked\n');
    expect(run.spans.some((span) => span.kind === 'waiting')).toBe(true);
  });
});

describe('what was given is not changed', () => {
  test('and steps that no event touches stay the same objects', () => {
    const events = eventsOf('region');
    const before = fold(emptyRun(), events.slice(0, -4));
    const copy = structuredClone(before);
    const after = fold(before, events.slice(-4));
    expect(before).toEqual(copy);
    expect(after.steps[0]).toBe(before.steps[0]);
    expect(after.steps.at(-1)).not.toBe(before.steps.at(-1));
  });
});

test('outcomes are given up and told again', () => {
  const all = whole('region');
  const less = withoutOutcomes(all, [1, 3]);
  expect(less.steps.map((step) => step.calls.some((call) => call.outcome))).toEqual([false, true, false, false]);
  expect(less.steps[1]).toBe(all.steps[1]);
  expect(less.steps[0]?.calls[0]?.result).toBe(all.steps[0]?.calls[0]?.result);
  expect(withSteps(less, stepsOf('region').steps)).toEqual(all);
});

describe('what is told between events', () => {
  test('is shown while it comes, and gone when the event is there', () => {
    fresh();
    let run = folded(told(start), told({ kind: 'asked', step: 1, body: {} }));
    run = fold(run, [part('reply', { type: 'text', delta: 'I th' }), part('reply', { type: 'text', delta: 'ink.' })]);
    run = fold(run, [
      part('reply', { type: 'tool_call', index: 0, name: 'python' }),
      part('reply', { type: 'tool_arguments', index: 0, delta: '{"code": "pri' }),
    ]);
    expect(run.steps[0]?.draft).toMatchObject({
      text: 'I think.',
      calls: [{ name: 'python', arguments: '{"code": "pri' }],
    });
    run = fold(run, [part('reply', { type: 'retrying', after_ms: 1, why: 'busy' })]);
    expect(run.steps[0]?.draft).toMatchObject({ text: '', calls: [], retrying: 'busy' });
    run = fold(run, [told(replied(1, python('print(1)')))]);
    expect(run.steps[0]?.draft).toBeNull();
    expect(run.steps[0]?.calls[0]?.arguments['code']).toBe('print(1)');
  });

  test('output keeps its streams and its order, and has a bound', () => {
    fresh();
    let run = folded(
      told(start),
      told({ kind: 'asked', step: 1, body: {} }),
      told(replied(1, python('x'))),
      told({ kind: 'call_started', step: 1, call: 0 }),
    );
    const out = (stream: string, text: string) => part('cell', { type: 'output', stream, text });
    run = fold(run, [out('stdout', 'a'), out('stdout', 'b'), out('stderr', 'c'), out('stdout', 'd')]);
    const live = () => run.steps[0]?.calls[0]?.live;
    expect(live()?.parts).toEqual([
      { stream: 'stdout', text: 'ab' },
      { stream: 'stderr', text: 'c' },
      { stream: 'stdout', text: 'd' },
    ]);
    run = fold(
      run,
      Array.from({ length: 60 }, () => part('cell', { type: 'display', parts: [] })),
    );
    expect(live()?.displays).toHaveLength(50);
    const shown = (text: string, more = {}) =>
      part('cell', { type: 'display', parts: [{ mime: 'text/plain', text }], ...more });
    run = fold(run, [part('cell', { type: 'cleared', wait: true })]);
    expect(live()?.displays).toHaveLength(50);
    run = fold(run, [shown('1', { id: 'a' }), shown('2'), shown('3', { id: 'a', update: true })]);
    expect(live()?.displays.map((one) => one.parts[0]?.text)).toEqual(['3', '2']);
    expect(live()?.parts).toEqual([]);
    run = fold(run, [out('stdout', 'gone'), part('cell', { type: 'cleared' }), out('stdout', 'kept')]);
    expect(live()?.parts).toEqual([{ stream: 'stdout', text: 'kept' }]);
    expect(live()?.displays).toEqual([]);
    run = fold(run, [out('stdout', 'x'.repeat(300_000)), out('stdout', 'more')]);
    expect(live()?.truncated).toBe(true);
    // Not twice: the result has what the cell printed.
    run = fold(run, [told({ kind: 'call_ended', step: 1, call: 0, result: { text: 'more', took_ms: 1 } })]);
    expect(live()).toBeNull();
  });
});

describe('what a person is asked', () => {
  const subject = { kind: 'cell', code: 'print(1)', risk: { findings: [], imports: [] } };
  const asked = { kind: 'approval_asked', id: '1.0', step: 1, call: 0, subject, hash: 'h' };

  test('waits, is timed, and is decided once', () => {
    fresh();
    let run = folded(
      told({ ...start, at: 0 }),
      told({ kind: 'asked', step: 1, body: {}, at: 10 }),
      told({ ...replied(1, python('print(1)')), at: 20 }),
      told({ ...asked, at: 30 }),
    );
    expect(run.waitsFor).toHaveLength(1);
    expect(run.steps[0]?.calls[0]?.state).toBe('waits');
    run = fold(run, [
      told({ kind: 'approval_decided', approval: '1.0', hash: 'h', decision: { kind: 'reject' }, at: 5030 }),
    ]);
    expect(run.waitsFor).toEqual([]);
    expect(run.spent.waitingMs).toBe(5000);
    expect(run.steps[0]?.calls[0]?.state).toBe('planned');
  });

  test('inside a cell, after which the code goes on', () => {
    fresh();
    const call = { ...asked, id: '1.0.1', subject: { kind: 'call', number: 1, tool: 'mail', arguments: { to: 'x' } } };
    const run = folded(
      told({ ...start, at: 0 }),
      told({ kind: 'asked', step: 1, body: {}, at: 0 }),
      told({ ...replied(1, python('tools.mail()')), at: 5 }),
      told({ kind: 'call_started', step: 1, call: 0, at: 10 }),
      told({ ...call, at: 20 }),
      told({ kind: 'approval_decided', approval: '1.0.1', hash: 'h', decision: { kind: 'accept' }, at: 120 }),
      told({ kind: 'tool_called', step: 1, call: 0, number: 1, tool: 'mail', arguments: { to: 'x' }, at: 121 }),
      told({ kind: 'tool_answered', step: 1, call: 0, number: 1, answer: { kind: 'value', value: 1 }, at: 125 }),
      told({ kind: 'call_ended', step: 1, call: 0, result: { text: '', took_ms: 1 }, at: 140 }),
    );
    expect(run.spans.map((span) => [span.kind, span.ms])).toEqual([
      ['model', 5],
      ['code', 10],
      ['waiting', 100],
      ['code', 20],
    ]);
    expect(run.steps[0]?.calls[0]?.inner).toMatchObject([{ tool: 'mail', answer: { kind: 'value' } }]);
  });
});

describe('what goes wrong', () => {
  test('steps that were taken back say so', () => {
    fresh();
    const step = (at: number) => [told({ kind: 'asked', step: at, body: {} }), told(replied(at, python('x')))];
    const run = folded(
      told(start),
      ...step(1),
      ...step(2),
      told({ kind: 'rolled_back', step: 2, restored: true, manifest: [] }),
      ...step(3),
    );
    expect(run.steps.map((one) => one.takenBack)).toEqual([false, true, false]);
  });

  test('a call of which nobody knows whether it took effect is lost', () => {
    fresh();
    const run = folded(
      told(start),
      told({ kind: 'asked', step: 1, body: {} }),
      told(replied(1, python('x'))),
      told({ kind: 'call_started', step: 1, call: 0 }),
      told({ kind: 'call_lost', step: 1, call: 0 }),
    );
    expect(run.steps[0]?.calls[0]?.state).toBe('lost');
  });

  test('events that are not known, and what is no JSON, harm nothing', () => {
    fresh();
    const run = folded(told(start), told({ kind: 'of_tomorrow', step: 7 }), { id: ++number, event: 'x', data: '{' });
    expect(run.steps).toEqual([]);
  });
});

test('budget and policy are those that were set last', () => {
  fresh();
  const run = folded(
    told(start),
    told({ kind: 'budget_raised', raise: { steps: 99 } }),
    told({ kind: 'policy_set', policy: 'always' }),
  );
  expect(run.budget).toMatchObject({ steps: 99, calls: 9 });
  expect(run.policy).toBe('always');
});

test('the plan is that of the last call of its tool', () => {
  fresh();
  const plan = (status: string) => ({
    name: 'recursive_plan_tree_todo',
    arguments: JSON.stringify({
      core_goal: 'g',
      tree_nodes: [{ task_name: 'a', status, children: [{ task_name: 'b' }] }],
    }),
  });
  const done = (step: number) => told({ kind: 'call_ended', step, call: 0, result: { text: '' } });
  const run = folded(
    told(start),
    told({ kind: 'asked', step: 1, body: {} }),
    told(replied(1, plan('processing'))),
    done(1),
    told({ kind: 'asked', step: 2, body: {} }),
    told(replied(2, plan('completed'))),
    done(2),
  );
  expect(run.plan).toMatchObject({
    goal: 'g',
    tasks: [{ name: 'a', status: 'completed', children: [{ name: 'b', status: 'pending' }] }],
  });
});

test('two thousand steps are folded in well under a second', () => {
  fresh();
  const events = [told(start)];
  for (let step = 1; step <= 2000; step += 1) {
    events.push(told({ kind: 'asked', step, body: {} }), told(replied(step, python(`print(${step})`))));
    events.push(
      told({ kind: 'call_started', step, call: 0 }),
      told({ kind: 'call_ended', step, call: 0, result: { text: 'x' } }),
    );
  }
  const began = performance.now();
  let run = emptyRun();
  for (let at = 0; at < events.length; at += 400) run = fold(run, events.slice(at, at + 400));
  expect(run.steps).toHaveLength(2000);
  expect(performance.now() - began).toBeLessThan(800);
});
