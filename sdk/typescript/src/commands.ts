import { NotFoundError } from './errors.js';
import type * as models from './generated/models.js';
import { endedTooEarly, read, readOnce, streamHeaders } from './reader.js';
import { toBase64 } from './text.js';
import { change, type RequestOptions, type Transport } from './transport.js';

/** Output of a command, or the number of bytes that are no longer kept. */
export type CommandEvent = Extract<models.CommandEvent, { type: 'output' | 'lost' }>;

/** A line for the shell, or a program and its arguments. */
export type CommandLine = string | readonly string[];

/** Options of a command. */
export interface CommandOptions extends RequestOptions {
  /** Directory to start in, relative to the workspace. */
  directory?: string;
  /** Environment variables of this command. */
  variables?: Record<string, string>;
  /** Text for its standard input, which is closed after it. */
  input?: string;
  /** Time limit, in milliseconds. */
  timeoutMs?: number;
}

export interface StartCommandOptions extends CommandOptions {
  /** Size of its terminal: it has one, then. */
  terminal?: { rows: number; columns: number };
}

/** How a command ended, and its newest output. */
export interface CommandResult {
  pid: number;
  /** Whether the exit code is 0. */
  ok: boolean;
  /** Exit code; `null` if a signal ended the command, or its end is unknown. */
  exitCode: number | null;
  /** Name of the signal that ended it, such as `SIGKILL`. */
  signal: string | null;
  /** Whether its timeout ended it. */
  timedOut: boolean;
  stdout: string;
  stderr: string;
  /** Output of its terminal, if it has one. */
  terminal: string;
  /** Number of bytes of older output that the service does not keep. */
  omittedBytes: number;
  /** Why its end is unknown: the session hibernated, for example. */
  lostBecause: string | null;
}

function resultOf(view: models.CommandView): CommandResult {
  const outputs = [view.stdout, view.stderr, view.terminal] as const;
  const [stdout, stderr, terminal] = outputs.map((output) => output?.text ?? '') as [string, string, string];
  return {
    pid: view.pid,
    ok: view.exitCode === 0,
    exitCode: view.exitCode ?? null,
    signal: view.signal ?? null,
    timedOut: view.timedOut,
    stdout,
    stderr,
    terminal,
    omittedBytes: outputs.reduce((sum, output) => sum + (output?.omittedBytes ?? 0), 0),
    lostBecause: view.lostBecause ?? null,
  };
}

function bodyOf(command: CommandLine, options: StartCommandOptions, background?: true): models.RunCommand {
  const { directory, variables, input, timeoutMs, terminal } = options;
  const line = typeof command === 'string' ? { command } : { argv: [...command] };
  return { ...line, directory, variables, input, timeoutMs, terminal, background };
}

/** Programs that run in a session, beside its cells. */
export class Commands {
  readonly #transport: Transport;
  readonly #path: string;

  /** @internal */
  constructor(transport: Transport, session: string) {
    this.#transport = transport;
    this.#path = `${session}/commands`;
  }

  /**
   * Runs a command to its end.
   *
   * A command that fails does not throw: `exitCode` is in the result. The time limit is 10 minutes by default. If the
   * connection breaks, or the signal is aborted, the command is killed.
   */
  async run(command: CommandLine, options: CommandOptions = {}): Promise<CommandResult> {
    const { signal } = options;
    // A stream gives signs of life, and its start is answered at once: `fetch` of Node.js waits 5 minutes at most.
    const response = await this.#transport.open({
      method: 'POST',
      path: this.#path,
      json: ['RunCommand', bodyOf(command, options)],
      headers: streamHeaders,
      once: true,
      signal,
    });
    let pid: number | undefined;
    let ended = false;
    const parse = (_: string, data: string) => this.#transport.parse<models.CommandEvent>('CommandEvent', data);
    for await (const event of readOnce(this.#transport, response, parse)) {
      if (event.type === 'started') pid = event.pid;
      ended = event.type === 'end';
      if (ended) break;
    }
    if (pid === undefined || !ended) throw this.#transport.unreachable(endedTooEarly());
    return resultOf(await this.#view(pid, options));
  }

  /**
   * Starts a command in the background. It keeps running without this client, until its session hibernates or ends.
   *
   * Without `input`, its standard input stays open for `send`. There is no default time limit.
   */
  async start(command: CommandLine, options: StartCommandOptions = {}): Promise<Command> {
    const body = bodyOf(command, options, true);
    const call = change('POST', this.#path, { json: ['RunCommand', body], signal: options.signal });
    const { pid } = await this.#transport.ask<models.CommandView>('CommandView', call);
    return new Command(this.#transport, this.#path, pid);
  }

  /** A command that was started before, running or ended. */
  async attach(pid: number, options: RequestOptions = {}): Promise<Command> {
    return new Command(this.#transport, this.#path, (await this.#view(pid, options)).pid);
  }

  /** The running commands and the last ended ones, oldest first, without output. */
  async list(options: RequestOptions = {}): Promise<models.CommandView[]> {
    const { signal } = options;
    const call = { method: 'GET', path: this.#path, signal };
    return (await this.#transport.ask<models.CommandList>('CommandList', call)).commands;
  }

  #view(pid: number, { signal }: RequestOptions): Promise<models.CommandView> {
    return this.#transport.ask('CommandView', { method: 'GET', path: `${this.#path}/${pid}`, signal });
  }
}

/** A command in the background. Iterating over it yields its output. */
export class Command implements AsyncIterable<CommandEvent> {
  /** Its process id in the session. */
  readonly pid: number;
  readonly #transport: Transport;
  readonly #path: string;
  #position = 0;
  #ended = false;

  /** @internal */
  constructor(transport: Transport, commands: string, pid: number) {
    this.pid = pid;
    this.#transport = transport;
    this.#path = `${commands}/${pid}`;
  }

  [Symbol.asyncIterator](): AsyncGenerator<CommandEvent, void, void> {
    return this.output();
  }

  /**
   * The events of its output from a position on, in bytes, to its end.
   *
   * An event of type `output` has `stream`, `text` and `next`, the position after it. After a broken connection, the
   * client reconnects and continues.
   */
  output(options: { from?: number } & RequestOptions = {}): AsyncGenerator<CommandEvent, void, void> {
    let ended = false;
    return read<CommandEvent>(this.#transport, {
      after: options.from ?? 0,
      call: (again) => again(`${this.#path}/events`),
      event: (_, data, id) => {
        const event = this.#transport.parse<models.CommandEvent>('CommandEvent', data);
        ended = event.type === 'end';
        this.#position = id;
        this.#ended = ended;
        return event.type === 'output' || event.type === 'lost' ? event : undefined;
      },
      ended: () => ended,
      signal: options.signal,
    });
  }

  /** Waits for its end. Returns how it ended, with its newest output. */
  async wait(options: RequestOptions = {}): Promise<CommandResult> {
    try {
      if (!this.#ended) for await (const _ of this.output({ ...options, from: this.#position }));
    } catch (error) {
      // One that was lost with its session has no output any more.
      if (!(error instanceof NotFoundError)) throw error;
    }
    return resultOf(await this.info(options));
  }

  /** Its state, and its newest output. */
  info(options: RequestOptions = {}): Promise<models.CommandView> {
    return this.#transport.ask('CommandView', { method: 'GET', path: this.#path, ...options });
  }

  /** Writes to its standard input or its terminal. Waits while the program does not read. */
  async send(data: string | Uint8Array, options: RequestOptions = {}): Promise<void> {
    const body: models.CommandInput = typeof data === 'string' ? { text: data } : { base64: toBase64(data) };
    await this.#change('input', 'CommandInput', body, options);
  }

  /** Closes its standard input. A terminal gets Ctrl-D. */
  async closeInput(options: RequestOptions = {}): Promise<void> {
    const body: models.CommandInput = { close: true };
    await this.#change('input', 'CommandInput', body, options);
  }

  /** Sends a signal, such as `SIGINT`, to it and its children. */
  async signal(name: string, options: RequestOptions = {}): Promise<void> {
    const body: models.CommandSignal = { signal: name };
    await this.#change('signal', 'CommandSignal', body, options);
  }

  /** Changes the size of its terminal. */
  async resize(size: { rows: number; columns: number }, options: RequestOptions = {}): Promise<void> {
    const body: models.TerminalSizeAsked = size;
    await this.#change('resize', 'TerminalSizeAsked', body, options);
  }

  /** Kills it and its children. No effect on an ended one. */
  async kill(options: RequestOptions = {}): Promise<void> {
    await this.#transport.send(change('DELETE', this.#path, options));
  }

  async #change(what: string, schema: string, body: object, options: RequestOptions): Promise<void> {
    await this.#transport.send(change('POST', `${this.#path}/${what}`, { json: [schema, body], ...options }));
  }
}
