// Runs as lanes: what they share, where they part, and which numbers of their answers hold.
import { cleanup, render } from '@testing-library/svelte';
import { afterEach, describe, expect, test } from 'vitest';
import type { NameInfo } from '../src/api/types';
import CellView from '../src/components/CellView.svelte';
import ComparedNumbers from '../src/components/ComparedNumbers.svelte';
import EvidenceLink from '../src/components/EvidenceLink.svelte';
import { toldSteps } from '../src/run/fold';
import { align, compareNames, comparedStep, segmentsOf, stepsOfLane, useOf, type LaneStep } from '../src/run/lanes';
import type { Step } from '../src/run/model';
import { compareNumbers } from '../src/run/numbers';
import { stepsOf } from './fixtures';

afterEach(cleanup);

const [told] = toldSteps(stepsOf('region').steps);
if (!told) throw new Error('no step');
const cell = (number: number, code: string, text: string, more: Partial<Step> = {}): Step => {
  const [call] = told.calls;
  if (!call) throw new Error('no call');
  const result = { text, failed: false, took_ms: 30 };
  return {
    ...told,
    number,
    thought: '',
    text: '',
    calls: [{ ...call, arguments: { code }, result, state: 'ended' }],
    ...more,
  };
};
const lane = (run: string, ...steps: Step[]): LaneStep[] => steps.map((step) => ({ run, step }));

describe('what a lane consists of', () => {
  test('a branch begins with the steps of its parent, up to where it parts', () => {
    const segments = segmentsOf([
      { id: 'p', parents: [] },
      { id: 'b', parents: [{ id: 'p', step: 2 }] },
    ]);
    expect(segments).toEqual([
      [{ run: 'p', upTo: null }],
      [
        { run: 'p', upTo: 2 },
        { run: 'b', upTo: null },
      ],
    ]);
    const steps: Record<string, Step[]> = { p: [1, 2, 3].map((at) => cell(at, 'x', 'x')), b: [cell(1, 'y', 'y')] };
    const [, branch] = segments.map((one) => stepsOfLane(one, (run) => steps[run] ?? []));
    expect(branch?.map(({ run, step }) => run + step.number)).toEqual(['p1', 'p2', 'b1']);
  });
  test('siblings begin with their nearest parent, whatever that continues', () => {
    const parents = (step: number) => [
      { id: 'p', step },
      { id: 'q', step: 9 },
    ];
    expect(
      segmentsOf([
        { id: 'a', parents: parents(1) },
        { id: 'b', parents: parents(2) },
      ]).map((lane) => lane.map(({ run, upTo }) => `${run}${upTo ?? ''}`)),
    ).toEqual([
      ['p1', 'a'],
      ['p2', 'b'],
    ]);
  });
  test('a run of nothing of the others is a lane of its own, and the others still share', () => {
    expect(
      segmentsOf([
        { id: 'p', parents: [] },
        { id: 'b', parents: [{ id: 'p', step: 1 }] },
        { id: 'x', parents: [{ id: 'y', step: 3 }] },
      ]).map((lane) => lane.map(({ run }) => run)),
    ).toEqual([['p'], ['p', 'b'], ['x']]);
  });
});

describe('rows', () => {
  test('steps of one origin are shared, then the lanes stand side by side', () => {
    const shared = lane('p', cell(1, 'a', '1'), cell(2, 'b', '2'));
    const { shared: same, rows } = align([
      [...shared, ...lane('p', cell(3, 'c', '3'))],
      [...shared, ...lane('b', cell(1, 'd', '4'), cell(2, 'e', '5'))],
    ]);
    expect(same).toEqual(shared);
    expect(rows.map(({ number, steps }) => [number, ...steps.map((one) => one && one.run + one.step.number)])).toEqual([
      [3, 'p3', 'b1'],
      [4, null, 'b2'],
    ]);
  });
  test('steps of other runs are shared if all of them is the same', () => {
    const of = (run: string, text: string) => lane(run, cell(1, 'print(1)', '1'), cell(2, 'print(x)', text));
    expect(align([of('a', '7'), of('b', '7')]).rows).toEqual([]);
    expect(align([of('a', '7'), of('b', '8')]).shared).toHaveLength(1);
    // One that still runs may become anything.
    const running = lane('b', cell(1, 'print(1)', '1', { state: 'asking' }));
    expect(align([of('a', '7'), running]).shared).toEqual([]);
    expect(align([[], []])).toEqual({ shared: [], rows: [] });
  });
  test('a step is compared with that of the first lane', () => {
    expect(comparedStep(cell(1, 'a', '1'), cell(5, 'a', '2'))).toEqual({ sameCode: true, sameOutput: false });
    expect(comparedStep(cell(1, 'a', '1'), cell(1, 'b', '1'))).toEqual({ sameCode: false, sameOutput: true });
    expect(comparedStep(cell(1, 'a', '1'), { ...cell(1, 'a', '1'), calls: [] })).toBeNull();
  });
  test('use is that of the steps', () => {
    const steps = lane(
      'a',
      cell(1, 'a', '1', { tokens: 10, tookMs: 100, cost: 0.5 }),
      cell(2, 'b', '1', { tokens: 5, tookMs: 1, cost: null }),
    );
    expect(useOf(steps)).toEqual({ steps: 2, tokens: 15, money: 0.5, modelMs: 101, codeMs: 60 });
    expect(useOf([]).money).toBeNull();
  });
});

test('variables are the same if type, shape and the beginning of the value are', () => {
  const info = (name: string, preview: string, cell = 1) => ({ name, type: 'int', preview, cell }) as NameInfo;
  const compared = compareNames([
    [info('x', '1'), info('y', '2')],
    [info('y', '2', 7), info('x', '3'), info('z', '4')],
  ]);
  expect(compared.map(({ name, isSame }) => [name, isSame])).toEqual([
    ['x', false],
    ['y', true],
    ['z', false],
  ]);
  expect(compared[2]?.infos[0]).toBeNull();
});

describe('numbers of answers', () => {
  const rows = (...answers: string[]) =>
    compareNumbers(answers).map(({ values, verdict }) => `${values.map((value) => value ?? '-').join('|')} ${verdict}`);
  test('that all have hold, however they are written', () => {
    expect(rows('In all **98,214** rows.', 'The sum is 98214.0')).toEqual(['98,214|98214.0 same']);
    expect(rows('It grew by 4.25 %.', 'It grew by 4.3%.')).toEqual(['4.25 %|4.3% rounded']);
    expect(rows('共 98214 元', '合计98214元')).toEqual(['98214|98214 same']);
  });
  test('of the same line are compared with each other', () => {
    expect(rows('- North: 41873\n- South: 2', '- North: 41900\n- South: 2')).toEqual([
      '41873|41900 differs',
      '2|2 same',
    ]);
    // Each is somewhere in both answers, and yet they differ.
    expect(rows('a is 1.\nb is 2.', 'a is 2.\nb is 1.')).toEqual(['1|2 differs', '2|1 differs']);
  });
  test('that one answer alone has are shown', () => {
    expect(rows('It is 42.', 'It is 42, as 6 rows say.')).toEqual(['42|42 same', '-|6 missing']);
    expect(rows('It is 42.', 'It is 42.', 'Perhaps 41.')).toEqual(['42|42|- missing', '-|-|41 missing']);
    expect(rows('It is 42.', 'It is 42.', 'So it must be 42')).toEqual(['42|42|42 same']);
  });
  test('are neither marks of lists, nor names of files, nor units of others', () => {
    expect(rows('1. First\n2. Second, see `plot-2026.png` of v1.2', 'None.')).toEqual([]);
    expect(rows('5 kg and 5%', '5% and 7')).toEqual(['5|- missing', '5%|5% same', '-|7 missing']);
    expect(rows('On 2026-01-05', 'It was 2026-01-05')).toEqual(['2026-01-05|2026-01-05 same']);
    expect(rows('4', 'Or 4.3')).toEqual(['4|- missing', '-|4.3 missing']);
    expect(rows('from -5 to 10-20', 'x')).toEqual(['-5|- missing', '10|- missing', '20|- missing']);
  });
  test('of hostile answers are read in time', () => {
    const began = performance.now();
    compareNumbers(['1,234 '.repeat(5000), `${'9'.repeat(50_000)} ${'1-'.repeat(20_000)}`]);
    expect(performance.now() - began).toBeLessThan(3000);
  });
  test('stand in a table that says how many hold', () => {
    const answers = [
      { lane: 0, text: '- all: 10\n- <b>North</b>: 1' },
      { lane: 2, text: '- all: 10\n- <b>North</b>: 2' },
    ];
    const { container } = render(ComparedNumbers, { answers, lanes: 3 });
    expect(container.textContent).toContain('1 of 2 numbers hold in all answers.');
    expect(container.textContent).toContain('1 run has no answer.');
    expect([...container.querySelectorAll('thead th')].map((one) => one.textContent)).toContain('C');
    expect(container.querySelector('b')).toBeNull();
    expect(container.querySelector('tr.differs')?.textContent).toMatch(/North.*1.*2.*Differs/);
  });
});

test('the code of a lane is shown as its difference from the first, until somebody wants it whole', async () => {
  const [call] = cell(1, 'x = 1\nprint(y)', '7').calls;
  if (!call) throw new Error('no call');
  const { container, getByText } = render(CellView, { call, against: 'x = 1\nprint(x)' });
  expect(container.querySelector('.removed')?.textContent).toContain('print(x)');
  expect(container.querySelector('.added')?.textContent).toContain('print(y)');
  getByText('Hide the difference').click();
  await Promise.resolve();
  expect(container.querySelector('.removed')).toBeNull();
  cleanup();
  expect(render(CellView, { call, against: 'x = 1\nprint(y)' }).container.querySelector('.edited')).toBeNull();
});

test('a value leads nowhere where no steps are looked at', () => {
  const evidence = { value: '42', seen: { kind: 'output' as const, step: 1, cell: 1, line: '42', rounded: false } };
  const { container } = render(EvidenceLink, { evidence });
  expect(container.querySelector('button')).toBeNull();
  expect(container.querySelector('span')?.title).toContain('Printed by cell 1');
});
