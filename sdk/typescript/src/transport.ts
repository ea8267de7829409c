// Requests: how they are sent, when they are sent again, and what a failed one says.
import { BelljarError, errorFor, UnauthorizedError, type ProblemFields } from './errors.js';
import { fromWire, toWire } from './wire.js';

/** Milliseconds; tests change them. */
export const TIMES = {
  /** After which a stream that says nothing is given up. Streams give a sign of life every 15 seconds. */
  silence: 60_000,
  /** For what takes its time in the host: copies of sessions, and whatever waits for a cell to end. */
  patience: 600_000,
  /** The caller decides about longer waits. */
  longestWait: 60_000,
  /** For a service that restarts: its grace period, saving its sessions, and its start. */
  restart: 120_000,
};

export const VERSION = '0.1.0';

/** Options of every request. */
export interface RequestOptions {
  /** Cancels the request. */
  signal?: AbortSignal | undefined;
}

/** A request, which can be sent again. */
export interface Call {
  method: string;
  path: string;
  /** A body with the names of TypeScript, and its schema. */
  json?: readonly [schema: string, body: object];
  body?: Uint8Array | Blob;
  query?: Record<string, string | undefined>;
  headers?: Record<string, string>;
  /** How long to wait for the beginning of the response, in milliseconds. */
  patience?: number;
  /** Codes that the caller has asked for. */
  final?: readonly string[];
  /** Whether a broken connection ends it: the service has given it up then. */
  once?: boolean;
  signal?: AbortSignal | undefined;
}

/** A request that changes something: sent twice, it has one effect. */
export function change(method: string, path: string, more: Omit<Call, 'method' | 'path'> = {}): Call {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const key = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return { method, path, ...more, headers: { ...more.headers, 'Idempotency-Key': key } };
}

/** When a request is sent again: as long as that may help, a little later each time. */
export class Attempts {
  #left: number;
  #pause = 250;
  /** Milliseconds waited since the service said that it stops. */
  #restart: number | undefined;

  constructor(retries: number) {
    this.#left = retries;
  }

  /** Milliseconds to wait; throws the error if it is not worth it. */
  wait(error: BelljarError, final: readonly string[] = []): number {
    const after = 1000 * (error.retryAfter ?? 0);
    if (!error.retry || final.includes(error.code) || this.#left <= 0 || after > TIMES.longestWait) throw error;
    if (error.code === 'draining') this.#restart ??= 0;
    // An announced restart takes as long as it takes.
    if (this.#restart === undefined || this.#restart > TIMES.restart) this.#left -= 1;
    const pause = this.#pause;
    this.#pause = Math.min(2 * pause, 8000);
    // Clients that were refused together don't come back together.
    const wait = Math.max(after, pause) * (1 + Math.random() / 2);
    if (this.#restart !== undefined) this.#restart += wait;
    return wait;
  }
}

/** Waits, unless the signal is or gets aborted: then it throws its reason. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener('abort', abort, { once: true });
  });
}

/** The connection broke, or was silent for too long. */
export class BrokenConnection extends Error {
  /** Whether there was none, as far as one can know. */
  readonly isUnconnected: boolean;

  constructor(cause: unknown, isUnconnected = false) {
    super(reason(cause), { cause });
    this.isUnconnected = isUnconnected;
  }
}

/** A successful response whose body is read in parts. */
export class Streamed {
  readonly headers: Headers;
  readonly #body: ReadableStreamDefaultReader<Uint8Array> | undefined;
  readonly #guard: Guard;
  readonly #silence: number;

  constructor(response: Response, guard: Guard, silence: number) {
    this.headers = response.headers;
    this.#body = response.body?.getReader();
    this.#guard = guard;
    this.#silence = silence;
  }

  /** The next part of the body; none after its end. Throws `BrokenConnection`, or the reason of an abort. */
  async read(): Promise<Uint8Array | undefined> {
    const part = await this.#guard.run(this.#silence, async () => this.#body?.read());
    return part?.value;
  }

  /** Closes the connection, if there is more to read. */
  close(): void {
    this.#guard.end();
    // What it says after that is of no interest.
    this.#body?.cancel().catch(() => {});
  }
}

/** Ends a request when its caller wants that, or when nothing comes for too long. */
class Guard {
  readonly #controller = new AbortController();
  readonly #signal: AbortSignal | undefined;
  readonly #abort = () => this.#controller.abort(this.#signal?.reason);

  constructor(signal: AbortSignal | undefined) {
    signal?.throwIfAborted();
    this.#signal = signal;
    signal?.addEventListener('abort', this.#abort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  async run<T>(limit: number, work: () => Promise<T>): Promise<T> {
    const timer = setTimeout(() => {
      this.#controller.abort(new Error(`nothing was received for ${limit / 1000} s`));
    }, limit);
    try {
      return await work();
    } catch (error) {
      if (this.#signal?.aborted) throw this.#signal.reason;
      throw new BrokenConnection(error, isUnconnected(error));
    } finally {
      clearTimeout(timer);
    }
  }

  end(): void {
    this.#signal?.removeEventListener('abort', this.#abort);
    this.#controller.abort();
  }

  /** The response has been read. */
  release(): void {
    this.#signal?.removeEventListener('abort', this.#abort);
  }
}

export interface Access {
  url?: string;
  apiKey?: string;
  retries?: number;
  fetch?: typeof fetch;
}

/** The connection to one service, with one key. */
export class Transport {
  readonly url: string;
  readonly retries: number;
  readonly #key: string;
  readonly #fetch: typeof fetch;
  #answered = false;

  constructor(access: Access) {
    this.url = (access.url ?? (variable('BELLJAR_URL') || 'http://127.0.0.1:7878')).replace(/\/+$/, '');
    this.#key = (access.apiKey ?? variable('BELLJAR_API_KEY') ?? '').trim();
    this.retries = access.retries ?? 4;
    // Browsers want it called without an object.
    this.#fetch = access.fetch ?? ((input, init) => fetch(input, init));
    if (!/^https?:\/\//.test(this.url))
      throw new TypeError(`the URL of a Belljar service starts with http:// or https://, not '${this.url}'`);
    if (this.#key === '')
      throw new UnauthorizedError(
        'unauthorized',
        'no API key: set BELLJAR_API_KEY, or call new Belljar({ apiKey }). `belljar serve` prints one at its first' +
          ' start; `belljar keys create --tenant NAME --scope sessions` creates others',
      );
  }

  /** The response, as an object of this schema. */
  async ask<T>(schema: string, call: Call): Promise<T> {
    const { body } = await this.send(call);
    return this.parse<T>(schema, new TextDecoder().decode(body));
  }

  parse<T>(schema: string, text: string): T {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      // Reported below.
    }
    if (value === null || typeof value !== 'object' || Array.isArray(value))
      throw new BelljarError('bad_answer', `the service did not return a ${schema}; is it another version?`);
    return fromWire(value, schema) as T;
  }

  /** A successful response, read completely. */
  send(call: Call): Promise<{ body: Uint8Array; headers: Headers }> {
    return this.#repeat(call, () => this.sendOnce(call));
  }

  /** A successful response that is read by the caller. */
  open(call: Call): Promise<Streamed> {
    return this.#repeat(call, async () => {
      const [response, guard] = await this.#begin(call);
      return new Streamed(response, guard, TIMES.silence);
    });
  }

  async sendOnce(call: Call): Promise<{ body: Uint8Array; headers: Headers }> {
    const [response, guard] = await this.#begin(call);
    try {
      const body = await guard.run(call.patience ?? TIMES.patience, () => response.arrayBuffer());
      return { body: new Uint8Array(body), headers: response.headers };
    } finally {
      guard.release();
    }
  }

  async #repeat<T>(call: Call, send: () => Promise<T>): Promise<T> {
    const attempts = new Attempts(this.retries);
    for (;;) {
      let error: BelljarError;
      try {
        return await send();
      } catch (failure) {
        if (failure instanceof BrokenConnection) {
          error = this.unreachable(failure);
          // There is no service, most likely: better to say so at once.
          if (call.once || (failure.isUnconnected && !this.#answered)) throw error;
        } else if (failure instanceof BelljarError) error = failure;
        else throw failure;
      }
      await sleep(attempts.wait(error, call.final), call.signal);
    }
  }

  async #begin(call: Call): Promise<[Response, Guard]> {
    const headers: Record<string, string> = {
      Authorization: `Bearer ${this.#key}`,
      'User-Agent': `belljar-typescript/${VERSION}`,
      ...call.headers,
    };
    let body: BodyInit | undefined = call.body as BodyInit | undefined;
    if (call.json !== undefined) {
      const [schema, value] = call.json;
      headers['Content-Type'] = 'application/json';
      body = JSON.stringify(toWire(value, schema));
    }
    const asked = Object.entries(call.query ?? {}).filter((one): one is [string, string] => one[1] !== undefined);
    const query = asked.length === 0 ? '' : `?${new URLSearchParams(asked)}`;
    const guard = new Guard(call.signal);
    try {
      const response = await guard.run(call.patience ?? TIMES.patience, () =>
        this.#fetch(`${this.url}${call.path}${query}`, {
          method: call.method,
          headers,
          body: body ?? null,
          signal: guard.signal,
          // A key is for one address; and cookies of a page are not ours.
          redirect: 'manual',
          credentials: 'omit',
        }),
      );
      this.#answered = true;
      if (response.ok) return [response, guard];
      const text = await guard.run(TIMES.silence, () => response.text());
      throw this.#problem(response, text);
    } catch (error) {
      guard.release();
      throw error;
    }
  }

  unreachable(failure: BrokenConnection): BelljarError {
    const why = failure.message;
    const detail = failure.isUnconnected
      ? `no Belljar service answers at ${this.url} (${why}). Start one with \`belljar serve\`, or say where it is:` +
        ' BELLJAR_URL, or new Belljar({ url })'
      : `the connection to ${this.url} broke (${why})`;
    return errorFor('unreachable', detail, { retry: true, cause: failure.cause });
  }

  #problem(response: Response, text: string): BelljarError {
    const { status, headers } = response;
    const after = headers.get('retry-after') ?? '';
    const more: ProblemFields = { status };
    if (/^\d+$/.test(after)) more.retryAfter = Number(after);
    const id = headers.get('x-request-id');
    if (id !== null) more.requestId = id;
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      // Reported below.
    }
    if (typeof (body as { code?: unknown } | null | undefined)?.code === 'string') return this.problem(body, more);
    // A proxy speaks, not the service.
    const detail = `${this.url} returned ${status} ${response.statusText}, not a response of a Belljar service`;
    return errorFor('no_service', detail, { ...more, retry: [408, 429, 502, 503, 504].includes(status) });
  }

  /** What a response, or a stream in the place of its last event, says. */
  problem(body: unknown, more: ProblemFields = {}): BelljarError {
    const told = (body ?? {}) as Record<string, unknown>;
    const text = (name: string, otherwise = '') => (typeof told[name] === 'string' ? told[name] : otherwise);
    const type = text('type');
    const fields = { ...more, title: text('title'), retry: told['retry'] === true };
    if (type.startsWith('/')) fields.remedy = `${this.url}${type}`;
    return errorFor(text('code', 'internal'), text('detail'), fields);
  }
}

/** An environment variable, where there are such. */
function variable(name: string): string | undefined {
  try {
    const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
    return process?.env?.[name];
  } catch {
    // Deno without the permission.
    return undefined;
  }
}

/** Codes of Node.js for a connection that was never there. Others have no codes: then nobody knows. */
const UNCONNECTED = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/;

function isUnconnected(error: unknown): boolean {
  if (!(error instanceof TypeError)) return false;
  const { code } = (error.cause ?? {}) as { code?: unknown };
  return typeof code === 'string' ? UNCONNECTED.test(code) : error.cause === undefined;
}

function reason(error: unknown): string {
  const { cause, message } = error as { cause?: { message?: string; code?: string }; message?: string };
  return cause?.message || cause?.code || message || String(error);
}
