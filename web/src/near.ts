// Tells elements when they come near the eye, a few in each frame, so that a jump through a long run never freezes it.
import { flushSync } from 'svelte';

const waiting = new Map<Element, () => void>();
const queue: Element[] = [];
let scheduled = false;
/** Milliseconds of a frame that may be used. */
const SHARE = 8;

const observer =
  typeof IntersectionObserver === 'undefined'
    ? null
    : new IntersectionObserver(
        (entries) => {
          for (const entry of entries) {
            const at = queue.indexOf(entry.target);
            if (entry.isIntersecting && at < 0) queue.push(entry.target);
            // What was scrolled past before its turn came is not made.
            else if (!entry.isIntersecting && at >= 0) queue.splice(at, 1);
          }
          schedule();
        },
        { rootMargin: '900px 0px' },
      );

function schedule(): void {
  if (scheduled || queue.length === 0) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    const until = performance.now() + SHARE;
    while (queue.length > 0 && performance.now() < until) {
      const element = queue.shift();
      if (!element) break;
      observer?.unobserve(element);
      const act = waiting.get(element);
      // Drawn at once, so that its time counts.
      if (act) flushSync(act);
      waiting.delete(element);
    }
    schedule();
  });
}

/** A Svelte action: calls once, when the element comes near the eye. */
export function near(element: Element, act: () => void): { destroy(): void } {
  if (!observer) act();
  else {
    waiting.set(element, act);
    observer.observe(element);
  }
  return {
    destroy() {
      observer?.unobserve(element);
      waiting.delete(element);
    },
  };
}
