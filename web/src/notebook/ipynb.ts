// Notebooks as files of Jupyter (nbformat 4.5).
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
