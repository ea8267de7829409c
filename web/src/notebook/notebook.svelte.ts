// The notebook of a live session: changed here, stored by the service, so that each page of the session shows the same.
import { Problem } from '../api/client';
import { sessions } from '../api/service';
import type { Notebook, NotebookCell } from '../api/types';
import type { Execution } from '../session.svelte';
import { type Change, EMPTY, withAll } from './document';

/** How often a change is repeated on what another page has stored. */
const ATTEMPTS = 5;

export class LiveNotebook {
  document = $state.raw<Notebook>(EMPTY);
  /** The cell that was inserted last, here: it is to be written. */
  inserted = '';
  /** Changes that the service does not have yet. */
  #pending: Change[] = [];
  #last: Promise<void> = Promise.resolve();

  constructor(
    readonly session: string,
    readonly executions: () => Execution[],
  ) {}

  async load(): Promise<void> {
    const found = await sessions.notebook(this.session);
    this.document = this.#pending.reduce((now, change) => this.#with(now, change), found);
  }

  /** Another page may have stored a newer one. */
  async follow(revision: number): Promise<void> {
    if (revision > this.document.revision && this.#pending.length === 0) await this.load();
  }

  /** Changes what is shown. It is stored with the next `save`. */
  change(change: Change): void {
    this.#pending.push(change);
    this.document = this.#with(this.document, change);
  }

  save(): Promise<void> {
    const saved = this.#last.then(() => this.#store());
    this.#last = saved.catch(() => {});
    return saved;
  }

  #with(notebook: Notebook, change: Change): Notebook {
    return change(withAll(notebook, this.executions()));
  }

  async #store(): Promise<void> {
    for (let attempt = 1; this.#pending.length > 0; attempt += 1) {
      const sent = this.#pending.length;
      try {
        const { revision } = await sessions.storeNotebook(this.session, this.document);
        this.#pending.splice(0, sent);
        this.document = { ...this.document, revision };
      } catch (error) {
        if (!(error instanceof Problem) || error.status === 0 || error.retry) throw error;
        if (error.code !== 'notebook_changed' || attempt === ATTEMPTS) {
          // It cannot be stored: what is shown is what the service has.
          this.#pending.splice(0, sent);
          await this.load().catch(() => {});
          throw error;
        }
        await this.load();
      }
    }
  }
}

/** A cell that has not run. */
export function fresh(kind: NotebookCell['kind'], source: string): NotebookCell {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return { id: `new-${random.join('-')}`, kind, source };
}
