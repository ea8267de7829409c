// A shell in a session: it is started or found again, typed into, followed to its end. Knows nothing of how it is drawn.
import { terminals } from './api/service';
import { follow } from './api/stream';
import type { CommandEvent, TerminalSize } from './api/types';
import { keep, kept } from './kept';

export type TerminalEnd = Extract<CommandEvent, { type: 'end' }>;

/** Where output goes. */
export interface Screen {
  write(text: string): void;
  /** Output was too much to be kept: what follows stands on a clean screen. */
  reset(): void;
}

/** Characters of one request. */
const MOST_TEXT = 16_384;
/** How long nothing is printed before the terminal is quiet. */
const QUIET_MS = 1000;
/** Characters that may wait: a paste, not a file. */
const MOST_WAITING = 1_048_576;

export class LiveTerminal {
  state = $state<'starting' | 'running' | 'lost' | 'ended' | 'failed'>('starting');
  end = $state.raw<TerminalEnd | null>(null);
  problem = $state.raw<unknown>(null);
  #pid = 0;
  #typed = '';
  #size: TerminalSize | null = null;
  #sends = false;
  #quiet: ReturnType<typeof setTimeout> | undefined;
  readonly #abort = new AbortController();

  constructor(
    readonly id: string,
    readonly screen: Screen,
    readonly onQuiet: () => unknown,
  ) {}

  /** Attaches to the shell of this tab if it still runs; otherwise starts one. Whether it had been there before. */
  async open(size: TerminalSize): Promise<boolean> {
    try {
      const known = kept<Known>(this.#name);
      const found = known ? await this.#find(known) : null;
      const shell = found ?? (await terminals.start(this.id, size));
      this.#pid = shell.pid;
      keep(this.#name, { pid: shell.pid, started_at: shell.started_at });
      this.state = 'running';
      if (found) this.resize(size);
      else void this.#send();
      void this.#follow();
      return found !== null;
    } catch (problem) {
      this.#fail(problem);
      return false;
    }
  }

  /** Stops listening. The shell keeps running. */
  leave(): void {
    this.#abort.abort();
    clearTimeout(this.#quiet);
  }

  kill(): Promise<unknown> {
    return terminals.kill(this.id, this.#pid);
  }

  type(text: string): void {
    if (this.#typed.length + text.length <= MOST_WAITING) this.#typed += text;
    void this.#send();
  }

  resize(size: TerminalSize): void {
    this.#size = size;
    void this.#send();
  }

  /** One request at a time, so that keys arrive in order; what is typed meanwhile goes with the next one. */
  async #send(): Promise<void> {
    if (this.#sends) return;
    this.#sends = true;
    try {
      while (this.#isLive && (this.#size || this.#typed)) {
        if (this.#size) {
          const size = this.#size;
          this.#size = null;
          await terminals.resize(this.id, this.#pid, size);
        } else {
          const text = cut(this.#typed, MOST_TEXT);
          this.#typed = this.#typed.slice(text.length);
          await terminals.type(this.id, this.#pid, text);
        }
      }
    } catch {
      // Its end, or a lost connection: the stream of output says which. Old keys are not typed later.
      this.#typed = '';
    } finally {
      this.#sends = false;
    }
  }

  get #isLive(): boolean {
    return this.state === 'running' || this.state === 'lost';
  }

  #follow(): Promise<void> {
    return follow(terminals.eventsPath(this.id, this.#pid), {
      after: 0,
      positions: true,
      signal: this.#abort.signal,
      isLast: (event) => event.event === 'end',
      onEvent: (event) => this.#hear(JSON.parse(event.data) as CommandEvent),
      onConnection: (connection) => {
        if (!this.#isLive) return;
        if (connection === 'open') this.state = 'running';
        if (connection === 'lost') this.state = 'lost';
      },
      onProblem: (problem) => this.#fail(problem),
    });
  }

  #hear(event: CommandEvent): void {
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(this.onQuiet, QUIET_MS);
    if (event.type === 'output') this.screen.write(event.text);
    if (event.type === 'lost') this.screen.reset();
    if (event.type === 'end') {
      this.end = event;
      this.state = 'ended';
      keep(this.#name, null);
    }
  }

  #fail(problem: unknown): void {
    if (this.#abort.signal.aborted) return;
    this.problem = problem;
    this.state = 'failed';
    keep(this.#name, null);
  }

  /** Process ids are given out again: the time of the start tells them apart. */
  async #find(known: Known) {
    const all = await terminals.list(this.id);
    return (
      all.find((one) => one.pid === known.pid && one.started_at === known.started_at && one.state === 'running') ?? null
    );
  }

  get #name(): string {
    return `belljar.terminal.${this.id}`;
  }
}

interface Known {
  pid: number;
  started_at: number;
}

/** The beginning of a text, without half a character at its end. */
function cut(text: string, most: number): string {
  const end = /[\ud800-\udbff]/.test(text.charAt(most - 1)) ? most - 1 : most;
  return text.slice(0, end);
}
