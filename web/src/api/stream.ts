// Server-sent events by `fetch`: `EventSource` can send no header, and tells no status when it is refused.
import { ask, Problem } from './client';

/** One event. Parts that are sent between the events of a journal have no number. */
export interface StreamEvent {
  id: number | null;
  event: string;
  data: string;
}

/** Cuts text, in whatever pieces it comes, into events. */
export class EventCutter {
  #line = '';
  #endedWithReturn = false;
  #id: number | null = null;
  #event = 'message';
  #data: string[] = [];

  push(text: string): StreamEvent[] {
    const events: StreamEvent[] = [];
    if (text === '') return events;
    // A line end of two characters may come in two pieces.
    const rest = this.#endedWithReturn && text.startsWith('\n') ? text.slice(1) : text;
    this.#endedWithReturn = text.endsWith('\r');
    const lines = rest.split(/\r\n|\n|\r/);
    for (const [at, line] of lines.entries()) {
      this.#line += line;
      if (at === lines.length - 1) break;
      const event = this.#take(this.#line);
      this.#line = '';
      if (event) events.push(event);
    }
    return events;
  }

  #take(line: string): StreamEvent | null {
    if (line === '') {
      const event = { id: this.#id, event: this.#event, data: this.#data.join('\n') };
      const isEvent = this.#data.length > 0;
      [this.#id, this.#event, this.#data] = [null, 'message', []];
      return isEvent ? event : null;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') this.#data.push(value);
    else if (field === 'event') this.#event = value;
    else if (field === 'id' && /^\d+$/.test(value)) this.#id = Number(value);
    return null;
  }
}

export type Connection = 'connecting' | 'open' | 'lost' | 'over';

export interface Following {
  /** The number of the last event that is known already. */
  after: number;
  /** Each event once, in order, without a gap. */
  onEvent(event: StreamEvent): void;
  onConnection?(connection: Connection): void;
  /** Whether ids are positions in an output, and not numbers without a gap. */
  positions?: boolean;
  /** Whether this event is the last one. */
  isLast(event: StreamEvent): boolean;
  /** A refusal after which it makes no sense to try again. */
  onProblem?(problem: Problem): void;
  signal: AbortSignal;
  /** Waits before the next attempt, in milliseconds; for tests. */
  wait?(ms: number, signal: AbortSignal): Promise<void>;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;

/** Follows a stream to its last event. When the connection breaks it asks for what comes after the last event. */
export async function follow(path: string, following: Following): Promise<void> {
  const { signal, onConnection = () => {}, wait = sleep } = following;
  let last = following.after;
  let pause = FIRST_WAIT;
  while (!signal.aborted) {
    onConnection('connecting');
    try {
      const headers: Record<string, string> = { Accept: 'text/event-stream' };
      if (last > 0) headers['Last-Event-ID'] = String(last);
      const response = await ask(path, { headers, signal });
      onConnection('open');
      for await (const event of readEvents(response)) {
        if (event.id !== null) {
          // What was heard already is not told twice; a gap means that the connection is not to be trusted.
          if (event.id <= last) continue;
          if (event.id !== last + 1 && !following.positions) break;
          last = event.id;
        }
        pause = FIRST_WAIT;
        following.onEvent(event);
        if (following.isLast(event)) {
          onConnection('over');
          return;
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status > 0 && error.status < 500 && !error.retry) {
        onConnection('lost');
        following.onProblem?.(error);
        return;
      }
      if (error instanceof Problem && error.retryAfter) pause = Math.max(pause, error.retryAfter * 1000);
    }
    onConnection('lost');
    await wait(pause * (0.75 + Math.random() / 2), signal);
    pause = Math.min(pause * 2, LONGEST_WAIT);
  }
}

/** The events of an answer, as they come. */
export async function* readEvents(response: Response): AsyncGenerator<StreamEvent> {
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const cutter = new EventCutter();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* cutter.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}
