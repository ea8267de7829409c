// Runs as lanes of one comparison: the steps that they share, then those of each, in rows. Pure.
import type { NameInfo } from '../api/types';
import type { Step } from './model';
import { PYTHON } from './reply';

/** As many as a page compares. */
export const MOST_LANES = 6;

export const letterOf = (lane: number): string => String.fromCharCode(65 + lane);

/** A run with the runs that it continues, nearest first, each up to a step. */
export interface Lineage {
  id: string;
  parents: { id: string; step: number }[];
}

/** Steps of a run that belong to a lane: up to one, or all. */
export interface Segment {
  run: string;
  upTo: number | null;
}

/**
 * What each lane consists of, in order. It begins with the nearest run that all continue. Where there is none, it begins
 * with the farthest that another lane continues too, or with the run itself.
 */
export function segmentsOf(lineages: Lineage[]): Segment[][] {
  const chains = lineages.map(({ id, parents }) => [
    { run: id, upTo: null },
    ...parents.map((parent) => ({ run: parent.id, upTo: parent.step })),
  ]);
  const has = (chain: Segment[], run: string) => chain.some((one) => one.run === run);
  const common = chains[0]?.find(({ run }) => chains.every((chain) => has(chain, run)))?.run;
  return chains.map((chain) => {
    const root =
      common !== undefined
        ? chain.findIndex(({ run }) => run === common)
        : chain.findLastIndex(({ run }) => chains.some((other) => other !== chain && has(other, run)));
    return chain.slice(0, Math.max(0, root) + 1).reverse();
  });
}

/** A step of a lane, with the run that it is of. */
export interface LaneStep {
  run: string;
  step: Step;
}

export function stepsOfLane(segments: Segment[], stepsOf: (run: string) => Step[]): LaneStep[] {
  return segments.flatMap(({ run, upTo }) =>
    stepsOf(run)
      .filter((step) => upTo === null || step.number <= upTo)
      .map((step) => ({ run, step })),
  );
}

export interface Row {
  /** Its place in the lanes, from 1. */
  number: number;
  steps: (LaneStep | null)[];
}

export interface Aligned {
  /** The first steps, which are the same in all lanes. */
  shared: LaneStep[];
  rows: Row[];
}

export function align(lanes: LaneStep[][]): Aligned {
  const [first = [], ...others] = lanes;
  let split = 0;
  while (split < first.length && others.every((lane) => isSame(first[split], lane[split]))) split += 1;
  const length = Math.max(0, ...lanes.map((lane) => lane.length));
  const rows = Array.from({ length: length - split }, (_, at) => ({
    number: split + at + 1,
    steps: lanes.map((lane) => lane[split + at] ?? null),
  }));
  return { shared: first.slice(0, split), rows };
}

/** Whether two lanes have the same step: that of one run, or one that says, runs and shows the same. */
function isSame(a: LaneStep | undefined, b: LaneStep | undefined): boolean {
  if (!a || !b) return false;
  if (a.run === b.run && a.step.number === b.step.number) return true;
  const isWhole = ({ step }: LaneStep) =>
    step.state === 'replied' && step.calls.every((call) => call.state === 'ended');
  const content = ({ step }: LaneStep) =>
    JSON.stringify([
      step.thought,
      step.answer,
      step.text,
      step.calls.map((call) => [call.tool, call.arguments, outputOf(call)]),
    ]);
  return isWhole(a) && isWhole(b) && content(a) === content(b);
}

const outputOf = (call: Step['calls'][number]): string => call.result?.text ?? '';

/** The code of a step's cells. */
export const codeOf = (step: Step): string[] =>
  step.calls.filter((call) => call.tool === PYTHON).map((call) => String(call.arguments['code'] ?? ''));

/** How a step compares with that of the first lane; nothing where one of them has no code, or has not ended. */
export function comparedStep(base: Step, step: Step): { sameCode: boolean; sameOutput: boolean } | null {
  const isEnded = (one: Step) => one.calls.length > 0 && one.calls.every((call) => call.state === 'ended');
  if (!isEnded(base) || !isEnded(step)) return null;
  const [before, after] = [codeOf(base), codeOf(step)];
  if (before.length === 0 || after.length === 0) return null;
  const output = (one: Step) => JSON.stringify(one.calls.map(outputOf));
  return { sameCode: JSON.stringify(before) === JSON.stringify(after), sameOutput: output(base) === output(step) };
}

export interface Use {
  steps: number;
  tokens: number;
  /** Nothing where no price is known. */
  money: number | null;
  modelMs: number;
  codeMs: number;
}

/** What steps took and cost. */
export function useOf(steps: LaneStep[]): Use {
  const use: Use = { steps: 0, tokens: 0, money: null, modelMs: 0, codeMs: 0 };
  for (const { step } of steps) {
    if (step.state !== 'replied') continue;
    use.steps += 1;
    use.tokens += step.tokens;
    if (step.cost !== null) use.money = (use.money ?? 0) + step.cost;
    use.modelMs += step.tookMs;
    for (const call of step.calls) use.codeMs += call.result?.took_ms ?? 0;
  }
  return use;
}

export interface ComparedName {
  name: string;
  /** What each lane has under the name. */
  infos: (NameInfo | null)[];
  /** Whether type, shape and the beginning of the value are the same in all. */
  isSame: boolean;
}

/** The variables of the lanes at their ends. */
export function compareNames(manifests: NameInfo[][]): ComparedName[] {
  const names = [...new Set(manifests.flatMap((manifest) => manifest.map((info) => info.name)))].sort();
  return names.map((name) => {
    const infos = manifests.map((manifest) => manifest.find((info) => info.name === name) ?? null);
    const looks = infos.map((info) => info && JSON.stringify([info.type, info.shape, info.length, info.preview]));
    return { name, infos, isSame: looks.every((look) => look !== null && look === looks[0]) };
  });
}
