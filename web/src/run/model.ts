// A run as the page shows it: folded from the events of its journal, and from nothing else. What is sent between the
// events (a reply or output that is still coming) is shown until the event that has all of it.
import type {
  Approval,
  Branch,
  Budget,
  CallResult,
  Decision,
  Display,
  Ending,
  NameInfo,
  Outcome,
  Policy,
  Start,
  ToolAnswer,
} from '../api/types';
import type { Plan } from './plan';
import type { WrittenCall } from './reply';

export type CallState = 'planned' | 'waits' | 'running' | 'ended' | 'lost';

/** A call that code makes of a tool. */
export interface InnerCall {
  number: number;
  tool: string;
  arguments: Record<string, unknown>;
  answer: ToolAnswer | null;
  branches: Branch[];
}

/** Output of a cell that still runs. */
export interface LiveCell {
  parts: { stream: 'stdout' | 'stderr'; text: string }[];
  displays: Display[];
  truncated: boolean;
  denied: string[];
  /** The next output takes the place of what is shown. */
  clears?: boolean;
}

export const emptyLive = (): LiveCell => ({ parts: [], displays: [], truncated: false, denied: [] });

/** The most characters of output that are held of a cell while it runs; the outcome has the rest. */
const LIVE_CHARACTERS = 200_000;

/** What a running cell shows after more output: the newest, where there is too much. */
export function afterOutput(live: LiveCell, told: { stream: 'stdout' | 'stderr'; text: string }): LiveCell {
  const before = live.clears ? cleared(live) : live;
  const parts = before.parts.slice();
  const last = parts.at(-1);
  if (last?.stream === told.stream) parts[parts.length - 1] = { ...last, text: last.text + told.text };
  else parts.push({ stream: told.stream, text: told.text });
  let excess = parts.reduce((sum, part) => sum + part.text.length, 0) - LIVE_CHARACTERS;
  if (excess <= 0) return { ...before, parts };
  // A good part at once, so that not each event has to cut.
  excess += LIVE_CHARACTERS / 4;
  while (excess > 0 && parts[0]) {
    const [first] = parts;
    if (first.text.length <= excess && parts.length > 1) parts.shift();
    else {
      const end = first.text.indexOf('\n', excess);
      parts[0] = { ...first, text: first.text.slice(end < 0 ? excess : end + 1) };
    }
    excess -= first.text.length;
  }
  return { ...before, parts, truncated: true };
}

/** What a running cell shows after an event that shows something or takes it back. */
export function afterDisplay(live: LiveCell, told: Display | { wait?: boolean }, most: number): LiveCell {
  if (!('parts' in told)) return told.wait ? { ...live, clears: true } : cleared(live);
  const before = live.clears ? cleared(live) : live;
  const { displays } = before;
  const at = told.update ? displays.map((one) => one.id).lastIndexOf(told.id) : -1;
  if (at >= 0) return { ...before, displays: displays.map((one, index) => (index === at ? told : one)) };
  return displays.length < most ? { ...before, displays: [...displays, told] } : before;
}

export function cleared(live: LiveCell): LiveCell {
  return { ...live, parts: [], displays: [], truncated: false, clears: false };
}

export interface Call {
  index: number;
  tool: string;
  arguments: Record<string, unknown>;
  state: CallState;
  /** What was asked of a person for it, the newest last. */
  approvals: { asked: Approval; decision: Decision | null }[];
  /** The code that the model wrote, where a person runs another. */
  proposed: string | null;
  result: CallResult | null;
  /** What the model got instead of an outcome, such as why its code was not run. */
  told: string | null;
  outcome: Outcome | null;
  live: LiveCell | null;
  inner: InnerCall[];
}

/** A reply that is still being written. */
export interface Draft {
  text: string;
  thinking: string;
  calls: WrittenCall[];
  retrying: string | null;
}

export interface Step {
  number: number;
  state: 'asking' | 'replied' | 'failed';
  thought: string;
  thinking: string;
  calls: Call[];
  /** The answer that it gave. It may have been sent back. */
  answer: string | null;
  draft: Draft | null;
  error: string | null;
  tookMs: number;
  tokens: number;
  cost: number | null;
  /** The run went back to before it. */
  takenBack: boolean;
  /** A session that began before it, with what it has of the one before. */
  session: { note: string | null } | null;
  /** What the model wrote. */
  text: string;
  /** What the model got about it. */
  note: string | null;
  /** Nothing in the reply could be understood. */
  isUnclear: boolean;
  /** Whether the service has said how it was understood. */
  understood: boolean;
}

export interface Span {
  kind: 'model' | 'code' | 'waiting';
  step: number;
  ms: number;
}

export interface Spent {
  steps: number;
  tokens: number;
  money: number;
  modelMs: number;
  codeMs: number;
  waitingMs: number;
  calls: number;
}

export interface RunModel {
  /** The number of the last event. */
  last: number;
  start: Start | null;
  startedAt: number | null;
  endedAt: number | null;
  steps: Step[];
  plan: Plan | null;
  budget: Budget | null;
  policy: Policy | null;
  spent: Spent;
  spans: Span[];
  /** What happens now, and since when. */
  phase: { kind: Span['kind']; step: number; since: number | null } | null;
  waitsFor: Approval[];
  manifest: NameInfo[];
  sessions: number;
  stopped: boolean;
  ending: Ending | null;
}

export const emptyRun = (): RunModel => ({
  last: 0,
  start: null,
  startedAt: null,
  endedAt: null,
  steps: [],
  plan: null,
  budget: null,
  policy: null,
  spent: { steps: 0, tokens: 0, money: 0, modelMs: 0, codeMs: 0, waitingMs: 0, calls: 0 },
  spans: [],
  phase: null,
  waitsFor: [],
  manifest: [],
  sessions: 0,
  stopped: false,
  ending: null,
});
