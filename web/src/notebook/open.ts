// Opening a notebook of Jupyter: its cells come as not run, since nothing of a file runs by itself.
import type { NotebookCell } from '../api/types';
import { language, t } from '../i18n/index.svelte';
import { attempt, notices } from '../notices.svelte';
import { bytes } from '../text/format';
import { LARGEST_FILE, readNotebook } from './ipynb';
import { fresh } from './notebook.svelte';

/** Lets a person choose a file, and gives its cells to `take`, which says whether it has them. */
export function chooseNotebook(take: (cells: NotebookCell[]) => Promise<boolean>): void {
  const chooser = document.createElement('input');
  chooser.type = 'file';
  chooser.accept = '.ipynb';
  chooser.onchange = () => {
    const file = chooser.files?.[0];
    if (file) void attempt(() => open(file, take));
  };
  chooser.click();
}

async function open(file: File, take: (cells: NotebookCell[]) => Promise<boolean>): Promise<void> {
  if (file.size > LARGEST_FILE) {
    notices.say(t('notebook.too_large', { limit: bytes(LARGEST_FILE, language.locale) }), true);
    return;
  }
  const found = readNotebook(await file.text());
  if ('problem' in found) {
    notices.say(t(`notebook.${found.problem}`, { format: found.format ?? '' }), true);
    return;
  }
  const { cells, outputs, others } = found;
  if (cells.length === 0) {
    notices.say(t('notebook.no_cells'), true);
    return;
  }
  if (!(await take(cells.map(({ kind, source }) => fresh(kind, source))))) return;
  notices.say(t('notebook.opened', { count: cells.length }));
  if (outputs > 0) notices.say(t('notebook.outputs_left_out', { count: outputs }));
  if (others > 0) notices.say(t('notebook.cells_left_out', { count: others }));
}
