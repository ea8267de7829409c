/// <reference lib="esnext.disposable" preserve="true" />
import { Commands } from './commands.js';
import { BelljarError, NotFoundError, SessionEndedError } from './errors.js';
import { Files } from './files.js';
import type * as models from './generated/models.js';
import { Display, Outcome } from './outcome.js';
import { read, streamHeaders } from './reader.js';
import { part } from './text.js';
import { change, sleep, TIMES, type Call, type RequestOptions, type Transport } from './transport.js';

/** One fact about a running cell. `type` is its kind; the last one is always of type `outcome`. */
export type CellEvent =
  | Exclude<models.Event, { type: 'display' | 'outcome' }>
  | (Display & { type: 'display' })
  | (Outcome & { type: 'outcome' });

/** A question of a running cell: `input()` or `getpass()`. */
export type InputRequest = Extract<models.Event, { type: 'input_requested' }>;

/** Options of a cell. */
export interface CellOptions extends RequestOptions {
  /** One of the session's namespaces [default: `main`]. */
  namespace?: string;
  /** Time limit in milliseconds, at most the session's limit. */
  wallTimeMs?: number;
  /** What to do if another cell is running [default: `wait`]. */
  whenBusy?: models.WhenBusyAsked;
  /** What to do with the variables if the cell fails [default: `keep`]. */
  onFailure?: models.OnFailureAsked;
  /** Environment variables of this cell alone. */
  variables?: Record<string, string>;
}

export interface RunCellOptions extends CellOptions {
  /** Called with each event. The next one waits for its promise. */
  onEvent?: (event: CellEvent) => unknown;
  /**
   * Answers `input()` and `getpass()` of the code. Called with the prompt and whether the answer is a password; returns
   * the line, or `null` for the end of input. Without it, they raise `EOFError`.
   */
  onInput?: (prompt: string, isPassword: boolean) => string | null | Promise<string | null>;
}

export interface StreamCellOptions extends CellOptions {
  /** Whether code that calls `input()` waits for `answerInput` after the event `input_requested`. */
  answersInput?: boolean;
}

/** What sessions share with the client that started them. */
export interface Home {
  readonly transport: Transport;
  readonly started: Map<string, Session>;
}

/** A live interpreter with a workspace. `await using` ends it. */
export class Session implements AsyncDisposable {
  readonly id: string;
  readonly limits: models.LimitsView;
  /** The files of its workspace. */
  readonly files: Files;
  /** Programs that run in it. */
  readonly commands: Commands;
  readonly #home: Home;
  readonly #transport: Transport;
  readonly #path: string;
  /** @internal The address of the service. */
  readonly address: string;

  /** @internal */
  constructor(home: Home, view: models.SessionView) {
    this.id = view.id;
    this.limits = view.limits;
    this.#home = home;
    this.#transport = home.transport;
    this.address = home.transport.url;
    this.#path = `/v1/sessions/${part(view.id)}`;
    this.files = new Files(this.#transport, this.#path);
    this.commands = new Commands(this.#transport, this.#path);
  }

  /** Ends the session, even while a cell is running. No effect on an ended one. */
  async close(options: RequestOptions = {}): Promise<void> {
    try {
      await this.#transport.send(change('DELETE', this.#path, options));
    } catch (error) {
      if (!(error instanceof NotFoundError || error instanceof SessionEndedError)) throw error;
    }
    this.keep();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Keeps the session alive when its client is closed. `attach` finds it by its `id`. */
  keep(): void {
    this.#home.started.delete(this.id);
  }

  /** State and resource use (`use`) of the session. Waits for no cell, and does not wake the session. */
  info(options: RequestOptions = {}): Promise<models.SessionView> {
    return this.#transport.ask('SessionView', { method: 'GET', path: this.#path, ...options });
  }

  /** Changes name, metadata (all of it) or time to live (seconds from now; 0: none) of the session. */
  update(
    changes: { name?: string; metadata?: Record<string, string>; ttlSeconds?: number },
    options: RequestOptions = {},
  ): Promise<models.SessionView> {
    const { name, metadata, ttlSeconds } = changes;
    const body: models.UpdateSession = { name, metadata, ttlSeconds };
    return this.#transport.ask(
      'SessionView',
      change('PATCH', this.#path, { json: ['UpdateSession', body], ...options }),
    );
  }

  /**
   * Moves the end of the session's lease to so many seconds from now. It ends then, or sleeps (`then: 'sleep'`): it
   * hibernates, and its next use wakes it.
   */
  extend(seconds: number, options: { then?: models.LeaseEnd } & RequestOptions = {}): Promise<models.SessionView> {
    const { then = 'end', signal } = options;
    const body: models.MoveLease = { seconds, then };
    return this.#transport.ask('SessionView', this.#post('lease', 'MoveLease', body, signal));
  }

  /**
   * How to reach a program that listens on a port of the session, where the service offers ports: host name, URL, token,
   * and a link for a browser.
   */
  port(port: number, options: RequestOptions = {}): Promise<models.PortView> {
    return this.#transport.ask('PortView', change('POST', `${this.#path}/ports/${port}`, options));
  }

  /**
   * Runs a cell to its end.
   *
   * An exception in the code is part of the outcome; `throwIfFailed` throws it. An aborted signal interrupts the cell.
   */
  async run(code: string, options: RunCellOptions = {}): Promise<Outcome> {
    const { onEvent, onInput, ...more } = options;
    const events = this.stream(code, { ...more, answersInput: onInput !== undefined });
    try {
      for await (const event of events) {
        await onEvent?.(event);
        if (onInput !== undefined && event.type === 'input_requested') await this.#answer(event, onInput);
      }
    } catch (error) {
      if (options.signal?.aborted) {
        if (events.cell !== undefined) await this.#interruptQuickly();
        throw options.signal.reason;
      }
      if (!(error instanceof BelljarError && error.code === 'events_gone') || events.cell === undefined) throw error;
      // More events than are kept came while the connection was lost; the outcome is kept.
      return await this.#outcome(events.cell, options.signal);
    } finally {
      await events.return();
    }
    if (events.outcome === undefined) throw new BelljarError('bad_answer', 'the service returned no outcome');
    return events.outcome;
  }

  /**
   * Runs a cell and yields its events, the outcome last.
   *
   * After a broken connection, the client reconnects and continues after the last event. The cell starts with the first
   * requested event, and runs to its end without a listener; `interrupt` stops it.
   */
  stream(code: string, options: StreamCellOptions = {}): CellEvents {
    const { namespace, wallTimeMs, whenBusy = 'wait', onFailure = 'keep', variables, answersInput, signal } = options;
    const body: models.RunCell = { code, namespace, whenBusy, onFailure, input: answersInput, wallTimeMs, variables };
    const path = `${this.#path}/cells`;
    const first = change('POST', path, {
      json: ['RunCell', body],
      headers: streamHeaders,
      // The response begins with the cell, and others may be before it.
      patience: this.limits.wallTimeMs + TIMES.silence,
      final: whenBusy === 'refuse' ? ['session_busy'] : [],
    });
    return new CellEvents(this.#transport, path, first, signal);
  }

  async #outcome(cell: number, signal: AbortSignal | undefined): Promise<Outcome> {
    for (;;) {
      const view = await this.cell(cell, { signal });
      if (view.outcome !== undefined) return view.outcome;
      if (view.state === 'failed') throw new BelljarError('internal', 'the service failed while the cell ran');
      await sleep(500, signal);
    }
  }

  async #answer(event: InputRequest, onInput: NonNullable<RunCellOptions['onInput']>): Promise<void> {
    let line: string | null;
    try {
      line = await onInput(event.prompt, event.password);
      if (line !== null && typeof line !== 'string')
        throw new TypeError(`onInput must return a string or null, not ${typeof line}`);
    } catch (error) {
      // Nobody will answer: the code must not wait.
      await this.#interruptQuickly();
      throw error;
    }
    try {
      await this.answerInput(event, line);
    } catch (error) {
      // The code was interrupted meanwhile.
      if (!(error instanceof BelljarError && error.code === 'no_question')) throw error;
    }
  }

  /** Answers a question of a running cell; `null` is the end of input. */
  async answerInput(event: InputRequest, line: string | null, options: RequestOptions = {}): Promise<void> {
    const { cell, number } = event.call;
    const body: models.CellInput = { number, ...(line === null ? { eof: true } : { text: line }) };
    await this.#transport.send(this.#post(`cells/${cell}/input`, 'CellInput', body, options.signal));
  }

  /** Interrupts the running cell, like Ctrl-C. False if none is running. */
  async interrupt(options: RequestOptions = {}): Promise<boolean> {
    const call = change('POST', `${this.#path}/interrupt`, options);
    return (await this.#transport.ask<models.Interrupted>('Interrupted', call)).interrupted;
  }

  /** One attempt: its caller has another error to report. */
  async #interruptQuickly(): Promise<void> {
    await this.#transport.sendOnce(change('POST', `${this.#path}/interrupt`, { patience: 5000 })).catch(() => {});
  }

  /** The names of a namespace [default: `main`]. */
  async manifest(options: { namespace?: string } & RequestOptions = {}): Promise<models.NameInfo[]> {
    const { namespace, signal } = options;
    const call: Call = { method: 'GET', path: `${this.#path}/manifest`, query: { namespace }, signal };
    return (await this.#transport.ask<models.Manifest>('Manifest', call)).names;
  }

  /**
   * Adds an empty namespace: cells run in it by their option `namespace`. Its first cell starts in the directory, relative
   * to the workspace.
   */
  createNamespace(name: string, options: { directory?: string } & RequestOptions = {}): Promise<models.NamespaceView> {
    const body: models.CreateNamespace = { name, directory: options.directory };
    return this.#transport.ask('NamespaceView', this.#post('namespaces', 'CreateNamespace', body, options.signal));
  }

  /** The namespaces, `main` first. */
  async namespaces(options: RequestOptions = {}): Promise<models.NamespaceView[]> {
    return (await this.#get<models.NamespaceList>('NamespaceList', 'namespaces', options)).namespaces;
  }

  /** Forgets the variables of a namespace. */
  async restartNamespace(name: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.send(change('POST', `${this.#path}/namespaces/${part(name)}/restart`, options));
  }

  /** Removes a namespace with its variables. */
  async deleteNamespace(name: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.send(change('DELETE', `${this.#path}/namespaces/${part(name)}`, options));
  }

  /** One of the last cells, with its outcome. */
  async cell(
    number: number,
    options: RequestOptions = {},
  ): Promise<Omit<models.CellView, 'outcome'> & { outcome?: Outcome }> {
    const { outcome, ...view } = await this.#get<models.CellView>('CellView', `cells/${number}`, options);
    return outcome == null ? view : { ...view, outcome: new Outcome(outcome) };
  }

  /** Makes a named checkpoint of the session. */
  async checkpoint(name: string, options: RequestOptions = {}): Promise<void> {
    const body: models.CreateCheckpoint = { name };
    await this.#transport.send(this.#post('checkpoints', 'CreateCheckpoint', body, options.signal));
  }

  /** The checkpoints, newest last. */
  async checkpoints(options: RequestOptions = {}): Promise<models.CheckpointView[]> {
    return (await this.#get<models.CheckpointList>('CheckpointList', 'checkpoints', options)).checkpoints;
  }

  /** Deletes a named checkpoint. */
  async forget(name: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.send(change('DELETE', `${this.#path}/checkpoints/${part(name)}`, options));
  }

  /** Restores a checkpoint: by name, or the newest one after a cell (`{ cell }`). */
  async restore(checkpoint: string | { cell: number }, options: RequestOptions = {}): Promise<void> {
    const body: models.RestoreCheckpoint =
      typeof checkpoint === 'string' ? { name: checkpoint } : { cell: checkpoint.cell };
    await this.#transport.send(this.#post('restore', 'RestoreCheckpoint', body, options.signal));
  }

  /** Forks the session, which continues unchanged. The forks get the secrets that are named; `['*']`: all. */
  async fork(count = 1, options: { secrets?: string[] } & RequestOptions = {}): Promise<Session[]> {
    const body: models.ForkSession = { count, secrets: options.secrets };
    const call = this.#post('fork', 'ForkSession', body, options.signal);
    const forks = await this.#transport.ask<models.Forks>('Forks', call);
    return forks.sessions.map((view) => {
      const fork = new Session(this.#home, view);
      this.#home.started.set(fork.id, fork);
      return fork;
    });
  }

  /** A snapshot, for `sessionFromSnapshot`, and the number of names and files that it lacks. */
  async snapshot(options: RequestOptions = {}): Promise<{ data: Uint8Array; leftOut: number }> {
    const call: Call = { method: 'GET', path: `${this.#path}/snapshot`, ...options };
    const { body, headers } = await this.#transport.send(call);
    return { data: body, leftOut: Number(headers.get('belljar-left-out') ?? 0) };
  }

  /** Hibernates the session. Returns what it will lack when it wakes. Its next use wakes it. */
  hibernate(options: RequestOptions = {}): Promise<models.LeftOut> {
    return this.#transport.ask('LeftOut', change('POST', `${this.#path}/hibernate`, options));
  }

  /** Wakes a hibernated session. */
  async wake(options: RequestOptions = {}): Promise<void> {
    await this.#transport.send(change('POST', `${this.#path}/wake`, options));
  }

  #get<T>(schema: string, what: string, options: RequestOptions): Promise<T> {
    return this.#transport.ask<T>(schema, { method: 'GET', path: `${this.#path}/${what}`, ...options });
  }

  #post(what: string, schema: string, body: object, signal: AbortSignal | undefined): Call {
    return change('POST', `${this.#path}/${what}`, { json: [schema, body], signal });
  }
}

/** The events of a cell. Leaving the loop, or `await using`, closes the connection; the cell keeps running. */
export class CellEvents implements AsyncIterableIterator<CellEvent, void, void>, AsyncDisposable {
  #cell: number | undefined;
  #outcome: Outcome | undefined;
  readonly #events: AsyncGenerator<CellEvent, void, void>;

  /** @internal */
  constructor(transport: Transport, path: string, first: Call, signal: AbortSignal | undefined) {
    this.#events = read<CellEvent>(transport, {
      call: (again) => (this.#cell === undefined ? first : again(`${path}/${this.#cell}/events`)),
      event: (_, data) => this.#take(transport.parse('Event', data)),
      ended: () => this.#outcome !== undefined,
      signal,
    });
  }

  /** The number of the cell, after its start. */
  get cell(): number | undefined {
    return this.#cell;
  }

  /** The outcome, after the end of the cell. */
  get outcome(): Outcome | undefined {
    return this.#outcome;
  }

  #take(event: models.Event): CellEvent {
    switch (event.type) {
      case 'started':
        this.#cell = event.cell;
        return event;
      case 'display':
        return new Display(event) as Display & { type: 'display' };
      case 'outcome': {
        const outcome = new Outcome(event) as Outcome & { type: 'outcome' };
        this.#outcome = outcome;
        return outcome;
      }
      default:
        return event;
    }
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<CellEvent, void>> {
    return this.#events.next();
  }

  /** Closes the connection. */
  return(): Promise<IteratorResult<CellEvent, void>> {
    return this.#events.return();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}
