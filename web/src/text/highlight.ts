// Code as coloured pieces, without an editor: a run can have thousands of cells.
import { highlightTree, tagHighlighter, tags } from '@lezer/highlight';
import { parser } from '@lezer/python';
import type { ShownRow } from '../api/types';
import { visible } from './plain';

export interface CodePiece {
  text: string;
  /** A class of `styles/code.css`, or nothing. */
  style: string;
}

const highlighter = tagHighlighter([
  { tag: tags.keyword, class: 'k' },
  { tag: tags.controlKeyword, class: 'k' },
  { tag: tags.operatorKeyword, class: 'k' },
  { tag: tags.definitionKeyword, class: 'k' },
  { tag: tags.moduleKeyword, class: 'k' },
  { tag: tags.string, class: 's' },
  { tag: tags.special(tags.string), class: 's' },
  { tag: tags.number, class: 'n' },
  { tag: tags.bool, class: 'n' },
  { tag: tags.null, class: 'n' },
  { tag: tags.comment, class: 'c' },
  { tag: tags.function(tags.variableName), class: 'f' },
  { tag: tags.function(tags.definition(tags.variableName)), class: 'f' },
  { tag: tags.definition(tags.className), class: 'f' },
  { tag: tags.className, class: 'f' },
  { tag: tags.meta, class: 'm' },
  { tag: tags.self, class: 'm' },
]);

/** Longer code is shown without colours. */
const MOST = 60_000;

/** Lines of pieces. Characters that can't be seen are written out. */
export function highlightPython(code: string): CodePiece[][] {
  const lines: CodePiece[][] = [[]];
  const add = (text: string, style: string): void => {
    for (const [at, part] of text.split('\n').entries()) {
      if (at > 0) lines.push([]);
      for (const piece of visible(part)) {
        lines.at(-1)?.push({ text: piece.text, style: piece.hidden ? 'hidden-character' : style });
      }
    }
  };
  let from = 0;
  if (code.length <= MOST) {
    highlightTree(parser.parse(code), highlighter, (start, end, style) => {
      if (start > from) add(code.slice(from, start), '');
      add(code.slice(start, end), style);
      from = end;
    });
  }
  if (from < code.length) add(code.slice(from), '');
  return lines;
}

/** Rows that the service shows, in pieces: what is odd is marked, and the rest has colours where these change no letter. */
export function highlightRows(rows: ShownRow[]): CodePiece[][] {
  const texts = rows.map((row) => row.parts.map((part) => part.text).join(''));
  const coloured = highlightPython(texts.join('\n'));
  return rows.map((row, at) => {
    const pieces = coloured[at] ?? [];
    const same = pieces.map((piece) => piece.text).join('') === texts[at];
    if (same && !row.parts.some((part) => part.odd)) return pieces;
    return row.parts.map((part) => ({ text: part.text, style: part.odd ? 'hidden-character' : '' }));
  });
}
