// Notebooks as files of Jupyter (nbformat 4): written, and read.
import { MIME_TYPES } from '../api/generated/mime';
import type { Display, Outcome } from '../api/types';
import type { Entry } from './document';

const SHOWN = MIME_TYPES.filter((one) => one.notebook).map((one) => one.mime);

/** The notebook as it is shown. */
export function notebookOf(entries: Entry[]): string {
  const made = entries
    .filter((entry) => entry.execution?.code !== null)
    .map(({ kind, source, cell, execution }, at) => {
      const shared = { id: `cell-${at + 1}`, metadata: {}, source };
      if (kind === 'markdown') return { cell_type: 'markdown', ...shared };
      const outcome = execution?.outcome;
      return { cell_type: 'code', ...shared, execution_count: cell, outputs: outcome ? outputs(outcome) : [] };
    });
  return JSON.stringify(
    {
      cells: made,
      metadata: {
        kernelspec: { display_name: 'Python 3', language: 'python', name: 'python3' },
        language_info: { name: 'python' },
      },
      nbformat: 4,
      nbformat_minor: 5,
    },
    null,
    1,
  );
}

function outputs(outcome: Outcome): unknown[] {
  const made: unknown[] = [];
  for (const name of ['stdout', 'stderr'] as const) {
    if (outcome[name].text) made.push({ output_type: 'stream', name, text: outcome[name].text });
  }
  for (const display of outcome.displays ?? []) {
    made.push({ output_type: 'display_data', data: dataOf(display), metadata: {} });
  }
  if (outcome.exception) {
    const { type, value, traceback } = outcome.exception;
    made.push({ output_type: 'error', ename: type, evalue: value, traceback: traceback.split('\n') });
  }
  return made;
}

function dataOf(display: Display): Record<string, string> {
  const shown = display.parts.filter((part) => SHOWN.includes(part.mime));
  return Object.fromEntries(shown.map((part) => [part.mime, part.text ?? part.base64 ?? '']));
}

/** Bytes of the largest file that is read. */
export const LARGEST_FILE = 10_000_000;
/** Cells of the longest notebook that is read. */
const MOST_CELLS = 1000;

export interface FoundCell {
  kind: 'code' | 'markdown';
  source: string;
}

/** Cells of a file, and what of it is left out; or why it is no notebook that can be read. */
export type Found =
  | { cells: FoundCell[]; outputs: number; others: number }
  | { problem: 'not_json' | 'not_notebook' | 'format' | 'long'; format?: number };

/** Reads a file that may have anything in it. Outputs are left out: nothing of it has run here. */
export function readNotebook(text: string): Found {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch {
    return { problem: 'not_json' };
  }
  if (!isRecord(file) || typeof file['nbformat'] !== 'number') return { problem: 'not_notebook' };
  if (file['nbformat'] !== 4) return { problem: 'format', format: file['nbformat'] };
  if (!Array.isArray(file['cells'])) return { problem: 'not_notebook' };
  if (file['cells'].length > MOST_CELLS) return { problem: 'long' };
  const found = { cells: [] as FoundCell[], outputs: 0, others: 0 };
  for (const cell of file['cells'] as unknown[]) {
    const source = isRecord(cell) ? textOf(cell['source']) : null;
    const kind = isRecord(cell) ? cell['cell_type'] : null;
    if (source === null || (kind !== 'code' && kind !== 'markdown')) {
      found.others += 1;
      continue;
    }
    if (source.trim() !== '') found.cells.push({ kind, source });
    const outputs = (cell as Record<string, unknown>)['outputs'];
    if (Array.isArray(outputs)) found.outputs += outputs.length;
  }
  return found;
}

/** Text as a notebook has it: whole, or in lines. */
function textOf(source: unknown): string | null {
  if (typeof source === 'string') return source;
  if (!Array.isArray(source) || !source.every((line) => typeof line === 'string')) return null;
  return source.join('');
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
