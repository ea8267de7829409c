// The state of a run as a page shows it.
import type { Word } from '../i18n/index.svelte';
import { endState } from '../words';
import type { LiveRun } from './live.svelte';

export type ShownState = 'running' | 'waits' | 'answered' | 'unverified' | 'ended' | 'interrupted' | 'loading' | 'lost';

export function shownState({ run, view, connection }: Pick<LiveRun, 'run' | 'view' | 'connection'>): ShownState {
  if (run.ending) return endState(run.ending.reason);
  if (connection === 'lost') return 'lost';
  if (run.waitsFor.length > 0) return 'waits';
  if (view?.state === 'interrupted') return 'interrupted';
  return run.start ? 'running' : 'loading';
}

const TITLES: Partial<Record<ShownState, Word>> = {
  running: 'title.running',
  waits: 'title.waits',
  answered: 'title.done',
  unverified: 'title.done',
  ended: 'title.ended',
};

/** The word that a title begins with, for who looks at the tabs only. */
export const titleWord = (state: ShownState): Word | null => TITLES[state] ?? null;
