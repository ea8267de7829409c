// Tells elements when they come near the eye, a few in each frame, so that a jump through a long run never freezes it.
import { flushSync } from 'svelte';

const queue: (() => void)[] = [];
let scheduled = false;
/** Milliseconds of a frame that may be used. */
const SHARE = 6;

function schedule(): void {
  if (scheduled || queue.length === 0) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    const until = performance.now() + SHARE;
    do {
      const act = queue.shift();
      // Drawn at once, so that its time counts.
      if (act) flushSync(act);
    } while (queue.length > 0 && performance.now() < until);
    schedule();
  });
}

/** Does something when its turn comes. What it gives back takes it out again. */
export function inTurn(act: () => void): () => void {
  queue.push(act);
  schedule();
  return () => {
    const at = queue.indexOf(act);
    if (at >= 0) queue.splice(at, 1);
  };
}

const waiting = new Map<Element, { act: () => void; cancel: (() => void) | null }>();

const observer =
  typeof IntersectionObserver === 'undefined'
    ? null
    : new IntersectionObserver(
        (entries) => {
          for (const { target, isIntersecting } of entries) {
            const one = waiting.get(target);
            if (!one) continue;
            // What was scrolled past before its turn came is not made.
            one.cancel?.();
            one.cancel = isIntersecting ? inTurn(() => leave(target)?.act()) : null;
          }
        },
        { rootMargin: '900px 0px' },
      );

function leave(element: Element) {
  const one = waiting.get(element);
  observer?.unobserve(element);
  waiting.delete(element);
  return one;
}

/** A Svelte action: calls once, when the element comes near the eye. */
export function near(element: Element, act: () => void): { destroy(): void } {
  if (!observer) act();
  else {
    waiting.set(element, { act, cancel: null });
    observer.observe(element);
  }
  return {
    destroy() {
      leave(element)?.cancel?.();
    },
  };
}
