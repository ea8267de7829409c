// A session that somebody works in by hand: its cells, names, files and copies.
import { ask, Problem } from './api/client';
import { sessions } from './api/service';
import { follow, readEvents, type StreamEvent } from './api/stream';
import type { CellEvent, CheckpointView, FileView, NameInfo, Outcome, SessionView } from './api/types';
import { type LiveCell, afterDisplay, afterOutput, emptyLive } from './run/model';
import { seenUse, type SeenUse } from './text/use';

export interface NotebookCell {
  key: number;
  /** Its number in the session, once it has begun. */
  cell: number | null;
  /** Nothing where the service had no room to keep it. */
  code: string | null;
  state: 'running' | 'done' | 'failed';
  live: LiveCell;
  outcome: Outcome | null;
  /** What its code waits for, by `input()`. */
  question: Question | null;
}

export interface Question {
  number: number;
  prompt: string;
  password: boolean;
}

/** Outcomes that are asked for at once. */
const AT_ONCE = 6;
/** Milliseconds between two looks at what a session uses. */
const USE_EVERY = 2000;

export class LiveSession {
  view = $state.raw<SessionView | null>(null);
  use = $state.raw<SeenUse | null>(null);
  cells = $state.raw<NotebookCell[]>([]);
  names = $state.raw<NameInfo[]>([]);
  files = $state.raw<FileView[]>([]);
  checkpoints = $state.raw<CheckpointView[]>([]);
  earlier = $state(0);
  readonly #abort = new AbortController();
  #isWatching = false;
  #key = 0;
  /** How many cells the session had when all of them were asked for. */
  #counted = 0;

  constructor(readonly id: string) {}

  get busy(): boolean {
    return this.cells.some((cell) => cell.state === 'running');
  }

  leave(): void {
    this.#abort.abort();
  }

  async open(): Promise<void> {
    this.#see(await sessions.show(this.id));
    if (!this.#isWatching) void this.#watch();
    this.#isWatching = true;
    await this.#catchUp();
    this.earlier = Math.max(0, (this.cells[0]?.cell ?? 1) - 1);
    await this.look();
  }

  /** Takes the cells that the service keeps and this page does not know: they were sent from elsewhere. */
  async #catchUp(): Promise<void> {
    const { cells } = await sessions.cells(this.id);
    this.#counted = Math.max(this.#counted, cells.at(-1)?.cell ?? 0, this.view?.cells ?? 0);
    const known = new Set(this.cells.map((cell) => cell.cell));
    const found = cells
      .filter((view) => !known.has(view.cell))
      .map((view): NotebookCell => ({
        key: this.#key++,
        cell: view.cell,
        code: view.code ?? null,
        state: view.state,
        live: emptyLive(),
        outcome: null,
        question: null,
      }));
    if (found.length === 0) return;
    this.cells = [...this.cells, ...found].sort((a, b) => (a.cell ?? Infinity) - (b.cell ?? Infinity));
    for (let at = 0; at < found.length; at += AT_ONCE) {
      await Promise.all(found.slice(at, at + AT_ONCE).map((cell) => this.#read(cell)));
    }
  }

  /** What can change with each cell. Of a session that hibernates nothing is asked: that would wake it. */
  async look(): Promise<void> {
    try {
      this.#see(await sessions.show(this.id));
    } catch {
      // What is shown stays: the connection is lost, or the session has ended.
    }
    if (this.view?.state !== 'awake') return;
    const [names, files, checkpoints] = await Promise.allSettled([
      sessions.manifest(this.id),
      sessions.files(this.id),
      sessions.checkpoints(this.id),
    ]);
    if (names.status === 'fulfilled') this.names = names.value;
    if (files.status === 'fulfilled') this.files = files.value.files;
    if (checkpoints.status === 'fulfilled') this.checkpoints = checkpoints.value;
  }

  /** Files that something beside the cells has made. */
  async lookAtFiles(): Promise<void> {
    try {
      this.files = (await sessions.files(this.id)).files;
    } catch {
      // They are as they were: it hibernates, or the connection is lost.
    }
  }

  #see(view: SessionView): void {
    this.view = view;
    this.use = seenUse(this.use, view, performance.now());
  }

  /** Looks at what it uses, as long as it is awake and somebody can see it. */
  async #watch(): Promise<void> {
    const { signal } = this.#abort;
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, USE_EVERY));
      if (signal.aborted) return;
      if (document.hidden || this.view?.state !== 'awake') continue;
      try {
        const view = await sessions.show(this.id, signal);
        if (signal.aborted) return;
        this.#see(view);
        if (view.cells > this.#counted && !this.busy) {
          await this.#catchUp();
          await this.look();
        }
      } catch (error) {
        if (error instanceof Problem && error.status === 404) return;
        // Else the next look may succeed.
      }
    }
  }

  async run(code: string): Promise<void> {
    const cell: NotebookCell = {
      key: this.#key++,
      cell: null,
      code,
      state: 'running',
      live: emptyLive(),
      outcome: null,
      question: null,
    };
    this.cells = [...this.cells, cell];
    let last = 0;
    try {
      const headers = { Accept: 'text/event-stream' };
      const response = await ask(sessions.cellsPath(this.id), {
        json: { code, input: true },
        headers,
        signal: this.#abort.signal,
      });
      for await (const event of readEvents(response)) {
        last = event.id ?? last;
        this.#hear(cell.key, event);
      }
    } catch (error) {
      if (this.#abort.signal.aborted) return;
      if (this.#cell(cell.key)?.cell === null || (error instanceof Problem && error.status > 0)) {
        this.#change(cell.key, { state: 'failed' });
        throw error;
      }
    }
    const heard = this.#cell(cell.key);
    if (heard?.state === 'running' && heard.cell !== null) await this.#goOn(heard, last);
    await this.look();
  }

  /** The connection broke: the cell continues, and so does the page. */
  async #goOn(cell: NotebookCell, after: number): Promise<void> {
    await follow(`${sessions.cellsPath(this.id)}/${cell.cell}/events`, {
      after,
      signal: this.#abort.signal,
      isLast: (event) => event.event === 'outcome' || event.event === 'fault',
      onEvent: (event) => this.#hear(cell.key, event),
      // The service no longer has it: nobody will tell its end.
      onProblem: () => this.#change(cell.key, { state: 'failed', question: null }),
    });
  }

  async #read(cell: NotebookCell): Promise<void> {
    if (cell.cell === null) return;
    if (cell.state === 'running') {
      void this.#goOn(cell, 0).then(() => this.look());
      return;
    }
    try {
      const { outcome } = await sessions.cellOutcome(this.id, cell.cell);
      if (outcome) this.#change(cell.key, { outcome });
    } catch {
      // It is no longer kept.
    }
  }

  #hear(key: number, event: StreamEvent): void {
    if (event.event === 'fault') {
      this.#change(key, { state: 'failed', question: null });
      return;
    }
    const told = JSON.parse(event.data) as CellEvent;
    const cell = this.#cell(key);
    if (!cell) return;
    const { live } = cell;
    switch (told.type) {
      case 'started':
        this.#change(key, { cell: told.cell });
        break;
      case 'output':
        this.#change(key, { live: afterOutput(live, told) });
        break;
      case 'display':
      case 'cleared':
        this.#change(key, { live: afterDisplay(live, told, 50) });
        break;
      case 'truncated':
        this.#change(key, { live: { ...live, truncated: true } });
        break;
      case 'denied':
        this.#change(key, { live: { ...live, denied: [...live.denied, `${told.host}:${told.port}`].slice(-20) } });
        break;
      case 'input_requested': {
        const { prompt, password } = told;
        this.#change(key, { question: { number: told.call.number, prompt, password } });
        break;
      }
      case 'input_closed':
        if (cell.question?.number === told.call.number) this.#change(key, { question: null });
        break;
      case 'outcome':
        this.#change(key, { state: 'done', outcome: told, question: null });
    }
  }

  #cell(key: number): NotebookCell | undefined {
    return this.cells.find((cell) => cell.key === key);
  }

  #change(key: number, change: Partial<NotebookCell>): void {
    this.cells = this.cells.map((cell) => (cell.key === key ? { ...cell, ...change } : cell));
  }
}
