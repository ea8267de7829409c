// Folds events into the model of a run. It changes nothing that it was given: steps that no event touches stay the same
// objects, so that the page draws again only what changed.
import type { CallResult, CellEvent, ReplyPart, RunEvent, StepView } from '../api/types';
import type { StreamEvent } from '../api/stream';
import {
  type Call,
  type LiveCell,
  type RunModel,
  type Span,
  type Step,
  afterDisplay,
  afterOutput,
  emptyLive,
  emptyRun,
} from './model';
import { PLAN_TOOL, readPlan } from './plan';
import { PYTHON, readReply } from './reply';

/** The most displays that are held of a cell while it runs; the outcome has the rest. */
const LIVE_DISPLAYS = 50;

type Dated = RunEvent & { at?: number };

/** All of these events after what is known. Events that are known already are left out. */
export function fold(model: RunModel, events: StreamEvent[]): RunModel {
  const folder = new Folder(model);
  for (const event of events) {
    let data: unknown;
    try {
      data = JSON.parse(event.data);
    } catch {
      continue;
    }
    if (event.id !== null) {
      if (event.id <= folder.run.last) continue;
      folder.run.last = event.id;
      folder.event(data as Dated);
    } else if (event.event === 'reply') {
      folder.replyPart(data as ReplyPart);
    } else if (event.event === 'cell') {
      folder.cellPart(data as CellEvent);
    }
  }
  return folder.run;
}

/** What the service says of steps: how they were understood, and the outcomes of their cells. */
export function withSteps(model: RunModel, views: StepView[]): RunModel {
  const folder = new Folder(model);
  for (const view of views) folder.understood(view);
  return folder.run;
}

/** The same without the outcomes of these steps; the service has them. */
export function withoutOutcomes(model: RunModel, numbers: number[]): RunModel {
  const gone = new Set(numbers);
  const steps = model.steps.map((step) =>
    gone.has(step.number) ? { ...step, calls: step.calls.map((call) => ({ ...call, outcome: null })) } : step,
  );
  return { ...model, steps };
}

/** Steps as the service says them, without the events of their run. */
export function toldSteps(views: StepView[]): Step[] {
  const folder = new Folder(emptyRun());
  for (const view of views) folder.told(view);
  return folder.run.steps;
}

class Folder {
  readonly run: RunModel;
  /** Steps that are copies already. */
  readonly #touched = new Set<Step>();

  constructor(model: RunModel) {
    this.run = { ...model, steps: model.steps.slice(), spent: { ...model.spent }, spans: model.spans.slice() };
  }

  event(event: Dated): void {
    const run = this.run;
    const at = event.at ?? null;
    switch (event.kind) {
      case 'started':
        run.start = event;
        run.startedAt = at;
        run.budget = event.budget;
        run.policy = event.approvals?.policy ?? 'never';
        break;
      case 'asked':
        this.#phase('model', event.step, at);
        if (this.#last()?.number !== event.step) this.#begin(event.step);
        break;
      case 'replied':
        this.#replied(event);
        this.#phase(null, event.step, at, event.took_ms);
        break;
      case 'model_failed': {
        const step = this.#step(event.step);
        if (step) Object.assign(step, { state: 'failed', error: event.error, draft: null });
        this.#phase(null, event.step, at);
        break;
      }
      case 'call_started': {
        const call = this.#call(event.step, event.call);
        if (call) Object.assign(call, { state: 'running', live: emptyLive() });
        this.#phase('code', event.step, at);
        break;
      }
      case 'call_ended': {
        const call = this.#call(event.step, event.call);
        this.#phase(null, event.step, at, event.result.took_ms);
        run.spent.calls += 1;
        if (!call) break;
        // What it printed is in the result.
        Object.assign(call, { state: 'ended', result: lean(event.result), live: null });
        if (event.result.cell?.manifest) run.manifest = event.result.cell.manifest;
        this.#plan(call);
        break;
      }
      case 'call_lost': {
        const call = this.#call(event.step, event.call);
        if (call) Object.assign(call, { state: 'lost', live: null });
        this.#phase(null, event.step, at);
        break;
      }
      case 'approval_asked': {
        const { kind: _, ...approval } = event;
        const call = this.#call(event.step, event.call);
        if (call) {
          call.approvals = [...call.approvals, { asked: approval, decision: null }];
          if (approval.subject.kind === 'cell') call.arguments = { ...call.arguments, code: approval.subject.code };
          if (call.state === 'planned') call.state = 'waits';
        }
        run.waitsFor = [...run.waitsFor, approval];
        this.#phase('waiting', event.step, at);
        break;
      }
      case 'approval_decided':
        this.#decided(event, at);
        break;
      case 'tool_called': {
        const { number, tool, arguments: given } = event;
        const call = this.#call(event.step, event.call);
        const known = call?.inner.some((inner) => inner.number === number);
        if (call && !known) {
          call.inner = [...call.inner, { number, tool, arguments: given, answer: null, branches: [] }];
        }
        break;
      }
      case 'tool_answered':
      case 'branched': {
        const call = this.#call(event.step, event.call);
        if (!call) break;
        const told = event.kind === 'branched' ? { branches: event.branches } : { answer: event.answer };
        call.inner = call.inner.map((inner) => (inner.number === event.number ? { ...inner, ...told } : inner));
        break;
      }
      case 'session_started':
        run.manifest = event.manifest;
        run.sessions += 1;
        if (run.sessions > 1) {
          const last = this.#touch(run.steps.length - 1);
          if (last) last.session = { note: event.note ?? null };
        }
        break;
      case 'rolled_back':
        for (const [index, step] of run.steps.entries()) {
          if (step.number < event.step || step.takenBack) continue;
          const taken = this.#touch(index);
          if (taken) taken.takenBack = true;
        }
        if (event.manifest.length > 0) run.manifest = event.manifest;
        break;
      case 'stopped':
        run.stopped = true;
        break;
      case 'ended': {
        const { kind: _, ...ending } = event;
        run.ending = ending;
        run.endedAt = at;
        run.waitsFor = [];
        this.#phase(null, 0, at);
        const last = this.#touch(run.steps.length - 1);
        if (last) last.draft = null;
        break;
      }
      case 'budget_raised': {
        const raised = Object.entries(event.raise).filter(([, value]) => value !== null);
        if (this.run.budget) this.run.budget = { ...this.run.budget, ...Object.fromEntries(raised) };
        break;
      }
      case 'policy_set':
        this.run.policy = event.policy;
        break;
      // Events of a newer service that are not known are no reason to fail.
    }
  }

  replyPart(part: ReplyPart): void {
    const step = this.#touch(this.run.steps.length - 1);
    if (!step || step.state !== 'asking') return;
    const draft = { ...(step.draft ?? { text: '', thinking: '', calls: [], retrying: null }) };
    if (part.type !== 'retrying') draft.retrying = null;
    switch (part.type) {
      case 'text':
        draft.text += part.delta;
        break;
      case 'thinking':
        draft.thinking += part.delta;
        break;
      case 'tool_call':
        draft.calls = draft.calls.slice();
        draft.calls[part.index] = { name: part.name, arguments: '' };
        break;
      case 'tool_arguments': {
        draft.calls = draft.calls.slice();
        const call = draft.calls[part.index];
        if (call) draft.calls[part.index] = { ...call, arguments: call.arguments + part.delta };
        break;
      }
      case 'retrying':
        Object.assign(draft, { text: '', thinking: '', calls: [], retrying: part.why });
    }
    step.draft = draft;
  }

  cellPart(part: CellEvent): void {
    const index = this.run.steps.length - 1;
    const running = this.run.steps[index]?.calls.findIndex((call) => call.state === 'running') ?? -1;
    const call = running < 0 ? null : this.#call(this.run.steps[index]?.number ?? 0, running);
    if (!call) return;
    let live: LiveCell = { ...(call.live ?? emptyLive()) };
    if (part.type === 'output') {
      live = afterOutput(live, part);
    } else if (part.type === 'display' || part.type === 'cleared') {
      live = afterDisplay(live, part, LIVE_DISPLAYS);
    } else if (part.type === 'truncated') {
      live.truncated = true;
    } else if (part.type === 'denied') {
      live.denied = [...live.denied, `${part.host}:${part.port}`].slice(-20);
    }
    call.live = live;
  }

  understood(view: StepView): void {
    const step = this.#step(view.number);
    if (!step) return;
    step.understood = true;
    step.thought = view.thought ?? '';
    step.note = view.note ?? null;
    step.isUnclear = !view.understood;
    // What the service took for an answer; a call is none, whatever its text looked like.
    step.answer = view.answer ?? (view.calls.length === 0 ? step.answer : null);
    step.calls = view.calls.map((told, index) => {
      const known = step.calls[index] ?? newCall(index, told.tool, {});
      const outcome = told.outcome ?? known.outcome;
      const given = (told.arguments ?? {}) as Record<string, unknown>;
      return {
        ...known,
        tool: told.tool,
        arguments: given,
        told: told.told ?? null,
        outcome,
        live: outcome ? null : known.live,
      };
    });
    for (const call of step.calls) this.#plan(call);
  }

  told(view: StepView): void {
    const step = this.#begin(view.number);
    this.understood(view);
    Object.assign(step, { state: 'replied', tokens: view.tokens, cost: view.cost ?? null } satisfies Partial<Step>);
    for (const call of step.calls) {
      if (call.outcome) call.state = 'ended';
      else if (call.tool !== PYTHON && call.told !== null) {
        Object.assign(call, {
          state: 'ended',
          result: { text: call.told, failed: false, took_ms: 0 },
        } satisfies Partial<Call>);
      }
    }
  }

  #replied(event: Extract<RunEvent, { kind: 'replied' }>): void {
    const { reply, step: number } = event;
    const step = this.#step(number) ?? this.#begin(number);
    const read = readReply(this.run.start?.dialect, reply.text, reply.tool_calls ?? []);
    const tokens = reply.usage.input_tokens + reply.usage.output_tokens;
    Object.assign(step, {
      state: 'replied',
      thought: read.thought,
      thinking: reply.thinking ?? '',
      calls: read.calls.map((call, index) => newCall(index, call.tool, call.arguments)),
      answer: read.answer,
      draft: null,
      text: reply.text,
      tookMs: event.took_ms,
      tokens,
      cost: event.cost ?? null,
    } satisfies Partial<Step>);
    const { spent } = this.run;
    spent.steps += 1;
    spent.tokens += tokens;
    spent.money += event.cost ?? 0;
  }

  #decided(event: Extract<RunEvent, { kind: 'approval_decided' }>, at: number | null): void {
    const { run } = this;
    const asked = run.waitsFor.find((approval) => approval.id === event.approval);
    run.waitsFor = run.waitsFor.filter((approval) => approval !== asked);
    const call = asked ? this.#call(asked.step, asked.call) : null;
    if (call && asked) {
      call.approvals = call.approvals.map((one) =>
        one.asked.id === event.approval ? { ...one, decision: event.decision } : one,
      );
      if (call.state === 'waits') call.state = 'planned';
      if (event.decision.kind === 'edit') {
        call.proposed = asked.subject.kind === 'cell' ? asked.subject.code : null;
        call.arguments = { ...call.arguments, code: event.decision.code };
      }
    }
    if (run.waitsFor.length === 0) this.#phase(call?.state === 'running' ? 'code' : null, asked?.step ?? 0, at);
  }

  #plan(call: Call): void {
    if (call.tool !== PLAN_TOOL || !call.result || call.result.failed) return;
    this.run.plan = readPlan(call.arguments) ?? this.run.plan;
  }

  /** What happens from now; what happened until now becomes a part of the time line. */
  #phase(kind: Span['kind'] | null, step: number, at: number | null, took?: number): void {
    const { run } = this;
    const before = run.phase;
    if (before && !(kind === 'model' && before.kind === 'model')) {
      const measured = at !== null && before.since !== null ? Math.max(0, at - before.since) : (took ?? 0);
      // Where somebody died in between, the time of the clock is not that of the call.
      const ms = took !== undefined && before.kind === 'model' ? took : measured;
      run.spans.push({ kind: before.kind, step: before.step, ms });
      if (before.kind === 'model') run.spent.modelMs += ms;
      else if (before.kind === 'code') run.spent.codeMs += ms;
      else run.spent.waitingMs += ms;
    }
    run.phase = kind ? { kind, step, since: at } : null;
  }

  #begin(number: number): Step {
    const step: Step = {
      number,
      state: 'asking',
      thought: '',
      thinking: '',
      calls: [],
      answer: null,
      draft: null,
      error: null,
      tookMs: 0,
      tokens: 0,
      cost: null,
      takenBack: false,
      session: null,
      text: '',
      note: null,
      isUnclear: false,
      understood: false,
    };
    this.#touched.add(step);
    this.run.steps.push(step);
    return step;
  }

  #last(): Step | undefined {
    return this.run.steps.at(-1);
  }

  /** The step at a place, as a copy that may be changed. */
  #touch(index: number): Step | null {
    const step = this.run.steps[index];
    if (!step) return null;
    if (this.#touched.has(step)) return step;
    const copy = { ...step, calls: step.calls.slice() };
    this.#touched.add(copy);
    this.run.steps[index] = copy;
    return copy;
  }

  #step(number: number): Step | null {
    return this.#touch(this.run.steps.findLastIndex((step) => step.number === number));
  }

  #call(stepNumber: number, index: number): Call | null {
    const step = this.#step(stepNumber);
    if (!step) return null;
    // A reply that was not read as the service did may seem to have fewer calls.
    const call = { ...(step.calls[index] ?? newCall(index, PYTHON, {})) };
    step.calls[index] = call;
    for (let at = 0; at < index; at += 1) step.calls[at] ??= newCall(at, '', {});
    return call;
  }
}

/** A result without what the page holds elsewhere: the names, and the output that its text begins with. */
function lean(result: CallResult): CallResult {
  const { text, cell } = result;
  if (!cell) return result;
  // A part of a text needs no memory of its own.
  const output = text.startsWith(cell.output) ? text.slice(0, cell.output.length) : cell.output;
  return { ...result, cell: { ...cell, output, manifest: [] } };
}

function newCall(index: number, tool: string, given: Record<string, unknown>): Call {
  return {
    index,
    tool,
    arguments: given,
    state: 'planned',
    approvals: [],
    proposed: null,
    result: null,
    told: null,
    outcome: null,
    live: null,
    inner: [],
  };
}
