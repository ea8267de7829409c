// The notebook of a session as a document: cells in the order that a person gave them, and which execution each shows.
// The service keeps it; what has run since, from here or from elsewhere, comes after its cells. Pure.
import type { Notebook, NotebookCell } from '../api/types';
import type { Execution } from '../session.svelte';

/** A cell of the notebook as it is shown. */
export interface Entry {
  id: string;
  kind: NotebookCell['kind'];
  source: string;
  /** Number of its newest execution, if it has run. */
  cell: number | null;
  /** That execution, or one that is about to begin. Nothing where the service no longer has it. */
  execution: Execution | null;
}

export const EMPTY: Notebook = { revision: 0, cells: [], hidden: [] };

export function arrange(notebook: Notebook, executions: Execution[]): Entry[] {
  const byNumber = new Map(executions.map((one) => [one.cell, one]));
  const begun = new Map(executions.filter((one) => one.cell === null).map((one) => [one.entry, one]));
  const shown = new Set([...(notebook.hidden ?? []), ...notebook.cells.map((one) => one.cell ?? null), null]);
  return [
    ...notebook.cells.map((one): Entry => {
      const cell = one.cell ?? null;
      const ran = cell === null ? undefined : byNumber.get(cell);
      return { id: one.id, kind: one.kind, source: one.source, cell, execution: begun.get(one.id) ?? ran ?? null };
    }),
    ...executions
      .filter((one) => !shown.has(one.cell))
      .map((one): Entry => ({
        id: `cell-${one.cell}`,
        kind: 'code',
        source: one.code ?? '',
        cell: one.cell,
        execution: one,
      })),
  ];
}

/** The same with all cells that are shown, as it is stored. */
export function withAll(notebook: Notebook, executions: Execution[]): Notebook {
  const cells = arrange(notebook, executions).map(({ id, kind, source, cell }) => ({ id, kind, source, cell }));
  return { ...notebook, cells };
}

/** What a person does to a notebook. Repeated on the newest one if somebody else has stored it meanwhile. */
export type Change = (notebook: Notebook) => Notebook;

/** Adds cells after another one, or at the end. */
export const added =
  (cells: NotebookCell[], after: string | null = null): Change =>
  (notebook) => {
    const at = notebook.cells.findIndex((one) => one.id === after) + 1 || notebook.cells.length;
    const known = new Set(notebook.cells.map((one) => one.id));
    const fresh = cells.filter((one) => !known.has(one.id));
    return { ...notebook, cells: notebook.cells.toSpliced(at, 0, ...fresh) };
  };

export const edited =
  (id: string, source: string): Change =>
  (notebook) => ({
    ...notebook,
    cells: notebook.cells.map((one) => (one.id === id ? { ...one, source } : one)),
  });

/** A cell runs: its outputs take the place of those before. */
export const ran =
  (id: string, cell: number): Change =>
  (notebook) => {
    const before = notebook.cells.find((one) => one.id === id);
    // Somebody has removed it meanwhile: then its execution is a cell of its own.
    if (!before) return notebook;
    const cells = notebook.cells.filter((one) => one.id === id || one.cell !== cell);
    return {
      ...notebook,
      cells: cells.map((one) => (one.id === id ? { ...one, cell } : one)),
      hidden: hiding(notebook, before),
    };
  };

export const removed =
  (id: string): Change =>
  (notebook) => {
    const gone = notebook.cells.find((one) => one.id === id);
    if (!gone) return notebook;
    return { ...notebook, cells: notebook.cells.filter((one) => one !== gone), hidden: hiding(notebook, gone) };
  };

function hiding(notebook: Notebook, { cell }: NotebookCell): number[] {
  const hidden = notebook.hidden ?? [];
  return typeof cell === 'number' ? [...hidden, cell] : hidden;
}

/** Why the output of a cell may be out of date. */
export interface Cause {
  /** The cell that ran out of order. */
  cell: number;
  /** What it wrote; nothing where the code does not say its names. */
  name: string | null;
}

/** Of cells that would show something else if all ran from the top: why. Where code does not say its names, a cell is
 * outdated if one above it ran later. */
export function outdated(entries: Entry[]): Map<string, Cause> {
  const found = new Map<string, Cause>();
  // What the cells above have left under each name.
  const left = new Map<string, { cell: number; cause: Cause | null }>();
  let newest = 0;
  let newestUnknown = 0;
  const between = (name: string, from: number, to: number): number | undefined =>
    entries.find(
      ({ cell, execution }) => cell !== null && cell > from && cell < to && execution?.writes?.includes(name),
    )?.cell ?? undefined;
  for (const { id, cell, execution } of entries) {
    if (cell === null) continue;
    const latest = execution?.reads ? newestUnknown : newest;
    let cause: Cause | null = cell < latest ? { cell: latest, name: null } : null;
    for (const name of execution?.reads ?? []) {
      const above = left.get(name);
      if (!above || cause) continue;
      const culprit = above.cell > cell ? above.cell : between(name, above.cell, cell);
      cause = above.cause ?? (culprit ? { cell: culprit, name } : null);
    }
    if (cause) found.set(id, cause);
    for (const name of execution?.writes ?? []) left.set(name, { cell, cause });
    newest = Math.max(newest, cell);
    if (!execution?.writes) newestUnknown = Math.max(newestUnknown, cell);
  }
  return found;
}

/** How many cells have run that neither the notebook nor the service has any more. */
export function missing(notebook: Notebook, executions: Execution[]): number {
  const first = executions.find((one) => one.cell !== null)?.cell ?? 1;
  const known = [...(notebook.hidden ?? []), ...notebook.cells.map((one) => one.cell ?? first)];
  return first - 1 - new Set(known.filter((number) => number < first)).size;
}
