// Whether the service answers. While it does not, it is asked again and again, so that the page notices its return.
import { untrack } from 'svelte';
import { onHeard } from './api/client';
import { me } from './api/service';

const EVERY = 2000;

class Reach {
  isLost = $state(false);
  /** How often it came back: who shows something that could not be loaded loads it again. */
  returns = $state(0);

  constructor() {
    onHeard((isReached) => {
      if (isReached === !this.isLost) return;
      this.isLost = !isReached;
      if (isReached) this.returns += 1;
      else this.#askAgain();
    });
  }

  #askAgain(): void {
    setTimeout(() => {
      if (!this.isLost) return;
      me().catch(() => {});
      this.#askAgain();
    }, EVERY);
  }
}

export const reach = new Reach();

/** Does something each time the service comes back. For the beginning of a component. */
export function whenBack(act: () => void): void {
  $effect(() => {
    if (reach.returns > 0) untrack(act);
  });
}
