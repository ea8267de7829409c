// What somebody has typed and not sent yet. It outlives a change of the page, a reload and a login that expired; a person
// who logs out leaves nothing of it to the next one.
import type { ChosenFile } from './files';
import { drop, forget, keep, kept } from './kept';

const PREFIX = 'belljar.draft.';

/** Text of one field, by its name. */
export const drafts = {
  read: (name: string): string => kept<string>(PREFIX + name) ?? '',
  write: (name: string, text: string): void => (text === '' ? drop(PREFIX + name) : keep(PREFIX + name, text)),
};

/** Files that were chosen for the next run: too large for what a tab remembers, so a reload loses them. */
class ChosenFiles {
  all = $state.raw<ChosenFile[]>([]);
}
export const chosenFiles = new ChosenFiles();

export function forgetDrafts(): void {
  forget(PREFIX);
  chosenFiles.all = [];
}
