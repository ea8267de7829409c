/// <reference lib="esnext.disposable" preserve="true" />
import type * as models from './generated/models.js';
import { Run, type Budget } from './run.js';
import { Session, type Home } from './session.js';
import { part, toBase64, toBytes, type Contents } from './text.js';
import { change, Transport, type RequestOptions } from './transport.js';

/** Options of a client. */
export interface BelljarOptions {
  /** Address of the service [default: `BELLJAR_URL`, or `http://127.0.0.1:7878`]. */
  url?: string;
  /** API key [default: `BELLJAR_API_KEY`]. */
  apiKey?: string;
  /** Number of retries of a request that failed for the moment, with one effect in total [default: 4]. */
  retries?: number;
  /** `fetch` of your own: for a proxy or a private certificate, for example. */
  fetch?: typeof fetch;
}

/** Isolation of a session, the weakest first. */
export type Isolation = 'container' | 'full' | 'gvisor';

/** Options of a session. Omitted ones have the service's defaults. */
export interface SessionOptions extends RequestOptions {
  /** Resource limits, at most the service's maximum. */
  limits?: models.LimitsAsked;
  /** When checkpoints are made. */
  checkpoints?: models.CheckpointPolicy;
  /** Hosts that it may reach. */
  allow?: string[];
  /** Packages that its code may require. */
  packages?: string[];
  /** Directories that the service offers, in `/data/NAME`. */
  mounts?: string[];
  /** One of the environments that the service offers. */
  environment?: string;
  /** One of the isolation tiers that the service offers: its first by default, or the tenant's minimum. */
  isolation?: Isolation;
  /** A label. */
  name?: string;
  /** More labels. */
  metadata?: Record<string, string>;
  /** Seconds after which the session ends. */
  ttlSeconds?: number;
  /** Environment variables. */
  variables?: Record<string, string>;
  /** Environment variables that the service does not store, and replaces in output. */
  secrets?: Record<string, string>;
}

/** Options of a run. Omitted ones have the service's defaults. */
export interface RunOptions extends RequestOptions {
  /** Files for the workspace, by name. */
  files?: Record<string, Contents>;
  /** One of the models that the service offers. */
  model?: string;
  /** One of the environments that the service offers. */
  environment?: string;
  /** One of the isolation tiers that the service offers: its first by default, or the tenant's minimum. */
  isolation?: Isolation;
  language?: models.Language;
  budget?: Budget;
  /** Which code and tool calls need approval. */
  approvals?: models.PolicyAsked;
  /** Tools of the host for the model, besides Python. */
  tools?: models.ToolAsked[];
}

/** Which sessions to list: those with this name, and this key and value in their metadata. */
export interface SessionFilter extends RequestOptions {
  name?: string;
  metadata?: readonly [key: string, value: string];
  /** Called with nodes of a cluster that did not answer: their sessions are missing. */
  onUnanswered?: (nodes: readonly string[]) => void;
}

/** A Belljar service. `await using`, or `close`, ends the sessions that it started. */
export class Belljar implements AsyncDisposable {
  readonly #transport: Transport;
  readonly #home: Home;

  constructor(options: BelljarOptions = {}) {
    this.#transport = new Transport(options);
    this.#home = { transport: this.#transport, started: new Map() };
  }

  /** Address of the service. */
  get url(): string {
    return this.#transport.url;
  }

  /** Ends the sessions that this client started, except kept ones. */
  async close(options: RequestOptions = {}): Promise<void> {
    const ended = await Promise.allSettled([...this.#home.started.values()].map((session) => session.close(options)));
    for (const one of ended) if (one.status === 'rejected') throw one.reason;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Starts a session. */
  async session(options: SessionOptions = {}): Promise<Session> {
    const { allow, packages, signal, ...same } = options;
    const body: models.CreateSession = {
      ...same,
      network: allow && { allow },
      packages: packages && { allow: packages },
    };
    return this.#start(change('POST', '/v1/sessions', { json: ['CreateSession', body], signal }));
  }

  /** Starts a session from a snapshot. */
  async sessionFromSnapshot(
    snapshot: Contents,
    options: { environment?: string; isolation?: Isolation } & RequestOptions = {},
  ): Promise<Session> {
    const { environment, isolation, signal } = options;
    const headers = { 'Content-Type': 'application/vnd.belljar.snapshot' };
    const call = { body: await toBytes(snapshot), headers, query: { environment, isolation }, signal };
    return this.#start(change('POST', '/v1/sessions/from-snapshot', call));
  }

  /** An existing session. Closing this client does not end it. */
  async attach(id: string, options: RequestOptions = {}): Promise<Session> {
    const call = { method: 'GET', path: `/v1/sessions/${part(id)}`, ...options };
    return new Session(this.#home, await this.#transport.ask('SessionView', call));
  }

  /** The sessions of the tenant, oldest first. */
  async *sessions(filter: SessionFilter = {}): AsyncGenerator<models.SessionView, void, void> {
    const query = { name: filter.name, metadata: filter.metadata?.join('=') };
    for await (const page of this.#pages<models.SessionPage>('SessionPage', '/v1/sessions', query, filter.signal)) {
      if (page.unanswered?.length) filter.onUnanswered?.(page.unanswered);
      yield* page.sessions;
    }
  }

  /** Starts a run: an agent works on a task. It continues without this client. */
  async run(task: string, options: RunOptions = {}): Promise<Run> {
    const { files = {}, signal, ...same } = options;
    const given = Object.entries(files).map(async ([name, contents]) => {
      return { name, contents: toBase64(await toBytes(contents)) };
    });
    const body: models.CreateRun = { task, ...same, files: await Promise.all(given) };
    const call = change('POST', '/v1/runs', { json: ['CreateRun', body], signal });
    return new Run(this.#transport, await this.#transport.ask('RunView', call));
  }

  /** An existing run, running or ended. */
  async attachRun(id: string, options: RequestOptions = {}): Promise<Run> {
    const call = { method: 'GET', path: `/v1/runs/${part(id)}`, ...options };
    return new Run(this.#transport, await this.#transport.ask('RunView', call));
  }

  /** All runs of the tenant, newest first. */
  async *runs(options: RequestOptions = {}): AsyncGenerator<models.RunBrief, void, void> {
    for await (const page of this.#pages<models.RunPage>('RunPage', '/v1/runs', {}, options.signal)) yield* page.runs;
  }

  async *#pages<Page extends { nextCursor?: string | null }>(
    schema: string,
    path: string,
    only: Record<string, string | undefined>,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Page, void, void> {
    let cursor: string | undefined;
    do {
      const query = { limit: '200', ...only, cursor };
      const page = await this.#transport.ask<Page>(schema, { method: 'GET', path, query, signal });
      yield page;
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
  }

  async #start(call: Parameters<Transport['send']>[0]): Promise<Session> {
    const session = new Session(this.#home, await this.#transport.ask('SessionView', call));
    this.#home.started.set(session.id, session);
    return session;
  }
}
