// Streams of events: each event once, over as many connections as it takes.
import type { BelljarError } from './errors.js';
import { Attempts, BrokenConnection, sleep, TIMES, type Call, type Streamed, type Transport } from './transport.js';

/** The headers of a request for a stream. */
export const streamHeaders: Readonly<Record<string, string>> = { Accept: 'text/event-stream' };

/** The last event is missing. */
export const endedTooEarly = () => new BrokenConnection(new Error('the stream ended too early'));

/** Cuts bytes, in whatever pieces they come, into events. */
class EventCutter {
  readonly #decoder = new TextDecoder();
  #pieces: string[] = [];
  #fields = new Map<string, string>();

  push(bytes: Uint8Array): Map<string, string>[] {
    const text = this.#decoder.decode(bytes, { stream: true });
    this.#pieces.push(text);
    if (!text.includes('\n')) return [];
    const lines = this.#pieces.join('').split('\n');
    this.#pieces = [lines.pop() ?? ''];
    const events = [];
    for (const line of lines) {
      const plain = line.endsWith('\r') ? line.slice(0, -1) : line;
      if (plain === '') {
        if (this.#fields.has('data')) events.push(this.#fields);
        this.#fields = new Map();
        continue;
      }
      const colon = plain.indexOf(':');
      const name = colon < 0 ? plain : plain.slice(0, colon);
      this.#fields.set(name, colon < 0 ? '' : plain.slice(colon + 1).replace(/^ /, ''));
    }
    return events;
  }
}

/** What a stream is about. */
export interface Source<T> {
  /** The number or position of the last known event [default: 0]. */
  after?: number;
  /** What to ask for: `again` asks for what follows after the last event. */
  call(again: (path: string) => Call): Call;
  /** An event as the caller gets it; none if it is unknown. */
  event(kind: string, data: string, id: number): T | undefined;
  /** Whether the last event was received. */
  ended(): boolean;
  /** Whether no event follows after this one, though the last one was not received. */
  isWhole?(last: number): Promise<boolean>;
  signal?: AbortSignal | undefined;
}

/** Reads a stream to its last event. When the connection breaks, it asks for what comes after the last event. */
export async function* read<T>(transport: Transport, source: Source<T>): AsyncGenerator<T, void, void> {
  let last = source.after ?? 0;
  let attempts = new Attempts(transport.retries);
  const again = (path: string): Call => ({
    method: 'GET',
    path,
    headers: { ...streamHeaders, 'Last-Event-ID': String(last) },
    patience: TIMES.silence,
  });
  while (!source.ended()) {
    const response = await transport.open({ ...source.call(again), signal: source.signal });
    let broken = endedTooEarly();
    try {
      for await (const fields of eventsOf(response)) {
        const id = Number(fields.get('id') ?? 'none');
        if (!(id > last)) continue;
        last = id;
        attempts = new Attempts(transport.retries);
        const event = take(transport, source, fields, id);
        if (event !== undefined) yield event;
        if (source.ended()) return;
      }
    } catch (error) {
      if (!(error instanceof BrokenConnection)) throw error;
      broken = error;
    } finally {
      response.close();
    }
    if (source.isWhole !== undefined && (await source.isWhole(last))) return;
    await sleep(attempts.wait(transport.unreachable(broken)), source.signal);
  }
}

/** Reads a stream that cannot be continued: a broken connection is the caller's. */
export async function* readOnce<T>(
  transport: Transport,
  response: Streamed,
  event: (kind: string, data: string) => T,
): AsyncGenerator<T, void, void> {
  try {
    for await (const fields of eventsOf(response)) {
      yield take(transport, { event }, fields, 0)!;
    }
  } catch (error) {
    throw error instanceof BrokenConnection ? transport.unreachable(error) : error;
  } finally {
    response.close();
  }
}

function take<T>(
  transport: Transport,
  source: Pick<Source<T>, 'event'>,
  fields: Map<string, string>,
  id: number,
): T | undefined {
  const [kind, data] = [fields.get('event') ?? '', fields.get('data') ?? ''];
  if (kind === 'fault') throw faultOf(transport, data);
  return source.event(kind, data, id);
}

function faultOf(transport: Transport, data: string): BelljarError {
  return transport.problem(JSON.parse(data));
}

async function* eventsOf(response: Streamed): AsyncGenerator<Map<string, string>, void, void> {
  const cutter = new EventCutter();
  for (let bytes = await response.read(); bytes !== undefined; bytes = await response.read()) yield* cutter.push(bytes);
}
