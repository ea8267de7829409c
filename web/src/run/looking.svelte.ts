// What of a run somebody looks at: an answer points to a line of an output.
import { flushSync, getContext, setContext } from 'svelte';

const KEY = Symbol('looking');

export class Looking {
  step = $state<number | null>(null);
  line = $state<string | null>(null);
  /** Whether all of the run is drawn, wherever the eye is: for paper. */
  isWhole = $state(false);
  /** Where the steps are, so that one can be brought to the eye. */
  notebook: HTMLElement | null = null;

  at(step: number, line: string | null = null): void {
    this.step = step;
    this.line = line;
    // The steps around it are made because it is looked at; what is in it, when it is near.
    flushSync();
    this.#bring(step, true);
  }

  /** Brings a step to the eye; once more when what is above it has its height. */
  #bring(step: number, again: boolean): void {
    const article = this.notebook?.querySelector<HTMLElement>(`[data-step="${step}"]`);
    if (!article) return;
    const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const mark = article.querySelector('mark');
    (mark ?? article).scrollIntoView({
      block: mark ? 'center' : 'start',
      behavior: isCalm || again ? 'auto' : 'smooth',
    });
    article.focus({ preventScroll: true });
    if (again) setTimeout(() => this.#bring(step, false), 150);
  }
}

export const look = (): Looking => setContext(KEY, new Looking());
export const lookedAt = (): Looking | undefined => getContext<Looking | undefined>(KEY);
