// A session that somebody works in by hand: its cells, names, files and copies.
import { ask, Problem } from './api/client';
import { sessions } from './api/service';
import { follow, readEvents, type StreamEvent } from './api/stream';
import type { CellEvent, CellView, CheckpointView, FileView, NameInfo, Outcome, SessionView } from './api/types';
import { added, arrange, edited, type Entry, ran } from './notebook/document';
import { fresh, LiveNotebook } from './notebook/notebook.svelte';
import { type LiveCell, afterDisplay, afterOutput, emptyLive } from './run/model';
import { seenUse, type SeenUse } from './text/use';

/** A cell that runs or has run. */
export interface Execution {
  key: number;
  /** The cell of the notebook that this page runs it for. */
  entry: string | null;
  /** Its number in the session, once it has begun. */
  cell: number | null;
  /** Nothing where the service had no room to keep it. */
  code: string | null;
  /** Names that the code reads and writes, where it says them. */
  reads?: string[];
  writes?: string[];
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

const namesOf = ({ reads, writes }: CellView): Pick<Execution, 'reads' | 'writes'> =>
  reads && writes ? { reads, writes } : {};

export class LiveSession {
  view = $state.raw<SessionView | null>(null);
  use = $state.raw<SeenUse | null>(null);
  cells = $state.raw<Execution[]>([]);
  names = $state.raw<NameInfo[]>([]);
  files = $state.raw<FileView[]>([]);
  checkpoints = $state.raw<CheckpointView[]>([]);
  readonly #abort = new AbortController();
  #isWatching = false;
  #key = 0;
  /** How many cells the session had when all of them were asked for. */
  #counted = 0;
  readonly notebook: LiveNotebook;

  constructor(readonly id: string) {
    this.notebook = new LiveNotebook(id, () => this.cells);
  }

  get busy(): boolean {
    return this.cells.some((cell) => cell.state === 'running');
  }

  /** The notebook as it is shown. */
  get entries(): Entry[] {
    return arrange(this.notebook.document, this.cells);
  }

  leave(): void {
    this.#abort.abort();
  }

  async open(): Promise<void> {
    this.#see(await sessions.show(this.id));
    if (!this.#isWatching) void this.#watch();
    this.#isWatching = true;
    await this.notebook.load();
    await this.#catchUp();
    await this.look();
  }

  /** Takes the cells that the service keeps and this page does not know: they were sent from elsewhere. */
  async #catchUp(): Promise<void> {
    const cells = await this.#list();
    this.#counted = Math.max(this.#counted, cells.at(-1)?.cell ?? 0, this.view?.cells ?? 0);
    const known = new Set(this.cells.map((cell) => cell.cell));
    const found = cells
      .filter((view) => !known.has(view.cell))
      .map((view): Execution => ({
        key: this.#key++,
        entry: null,
        cell: view.cell,
        code: view.code ?? null,
        ...namesOf(view),
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

  /** The cells that the service keeps, and the names of those that are known. */
  async #list(): Promise<CellView[]> {
    const { cells } = await sessions.cells(this.id);
    const views = new Map(cells.map((view) => [view.cell, view]));
    this.cells = this.cells.map((cell) => {
      const view = cell.cell === null || cell.writes ? undefined : views.get(cell.cell);
      return view?.writes ? { ...cell, ...namesOf(view) } : cell;
    });
    return cells;
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
      this.#list(),
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
        await this.notebook.follow(view.notebook ?? 0);
      } catch (error) {
        if (error instanceof Problem && error.status === 404) return;
        // Else the next look may succeed.
      }
    }
  }

  /** Runs code as a new cell at the end of the notebook. */
  async runNew(code: string): Promise<void> {
    const cell = fresh('code', code);
    this.notebook.change(added([cell]));
    await this.run(cell.id, code);
  }

  /** Runs a cell of the notebook, again or for the first time, with this code. Its outcome, if there is one. */
  async run(entry: string, code: string): Promise<Outcome | null> {
    this.notebook.change(edited(entry, code));
    try {
      return await this.#execute(entry, code);
    } finally {
      // What did not begin stays in the notebook, too.
      if (!this.#abort.signal.aborted) await this.notebook.save();
    }
  }

  /** Runs the code cells from this one on, or all, until one fails. The one that failed. */
  async runAll(from: string | null): Promise<Execution | null> {
    const all = this.entries.map((one) => one.id);
    for (const id of all.slice(from === null ? 0 : all.indexOf(from))) {
      // As it is now: while one runs, others may be changed.
      const entry = this.entries.find((one) => one.id === id);
      if (entry?.kind !== 'code' || entry.source.trim() === '') continue;
      const outcome = await this.run(id, entry.source);
      if (this.#abort.signal.aborted) return null;
      if (outcome?.status !== 'success') return this.cells.findLast((one) => one.entry === id) ?? null;
    }
    return null;
  }

  async #execute(entry: string, code: string): Promise<Outcome | null> {
    const cell: Execution = {
      key: this.#key++,
      entry,
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
      if (this.#abort.signal.aborted) return null;
      const begun = this.#cell(cell.key);
      if (begun?.cell === null) this.cells = this.cells.filter((one) => one !== begun);
      if (begun?.cell === null || (error instanceof Problem && error.status > 0)) {
        this.#change(cell.key, { state: 'failed' });
        throw error;
      }
    }
    const heard = this.#cell(cell.key);
    if (heard?.state === 'running' && heard.cell !== null) await this.#goOn(heard, last);
    await this.look();
    return this.#cell(cell.key)?.outcome ?? null;
  }

  /** The connection broke: the cell continues, and so does the page. */
  async #goOn(cell: Execution, after: number): Promise<void> {
    await follow(`${sessions.cellsPath(this.id)}/${cell.cell}/events`, {
      after,
      signal: this.#abort.signal,
      isLast: (event) => event.event === 'outcome' || event.event === 'fault',
      onEvent: (event) => this.#hear(cell.key, event),
      // The service no longer has it: nobody will tell its end.
      onProblem: () => this.#change(cell.key, { state: 'failed', question: null }),
    });
  }

  async #read(cell: Execution): Promise<void> {
    if (cell.cell === null) return;
    if (cell.state === 'running') {
      void this.#goOn(cell, 0).then(() => this.look());
      return;
    }
    // Nobody sees what a later execution has replaced.
    if (this.notebook.document.hidden?.includes(cell.cell)) return;
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
        if (cell.entry !== null && cell.cell === null) {
          this.notebook.change(ran(cell.entry, told.cell));
          // Who began it learns of a fault at its end.
          this.notebook.save().catch(() => {});
        }
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
        this.#change(key, { state: 'done', outcome: told, live: emptyLive(), question: null });
        this.#forget();
    }
  }

  /** Outcomes that nobody sees any more, since later executions have replaced them. */
  #forget(): void {
    const hidden = new Set(this.notebook.document.hidden);
    this.cells = this.cells.map((cell) =>
      cell.outcome && cell.cell !== null && hidden.has(cell.cell) ? { ...cell, outcome: null } : cell,
    );
  }

  #cell(key: number): Execution | undefined {
    return this.cells.find((cell) => cell.key === key);
  }

  #change(key: number, change: Partial<Execution>): void {
    this.cells = this.cells.map((cell) => (cell.key === key ? { ...cell, ...change } : cell));
  }
}
