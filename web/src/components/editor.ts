// CodeMirror with the few parts that are needed to write a cell.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { python } from '@codemirror/lang-python';
import { bracketMatching, HighlightStyle, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { EditorState } from '@codemirror/state';
import { EditorView, highlightSpecialChars, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--code-keyword)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-string)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--code-number)' },
  { tag: tags.comment, color: 'var(--code-comment)', fontStyle: 'italic' },
  { tag: [tags.function(tags.variableName), tags.className], color: 'var(--code-function)' },
  { tag: [tags.meta, tags.self], color: 'var(--code-meta)' },
]);

const theme = EditorView.theme({
  '&': { fontSize: 'var(--code)', color: 'var(--ink)', backgroundColor: 'transparent' },
  '&.cm-focused': { outline: 'none' },
  '.cm-content': { fontFamily: 'var(--mono)', padding: '0.6rem 0', caretColor: 'var(--ink)' },
  '.cm-scroller': { fontFamily: 'var(--mono)', fontVariantLigatures: 'none', lineHeight: '1.6', maxHeight: '60vh' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--ink-faint)', border: 'none' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground, ::selection': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 25%, transparent) !important',
  },
  '.cm-specialChar': { color: 'var(--bad)', backgroundColor: 'var(--bad-wash)', fontWeight: '600' },
  '.cm-tooltip': { backgroundColor: 'var(--paper)', border: '1px solid var(--line)', color: 'var(--ink)' },
});

// What has no width or turns the direction of text is written out in the editor too.
const hidden =
  /[\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/u;

export function makeEditor(
  parent: HTMLElement,
  code: string,
  label: string,
  onChange: (code: string) => void,
  onSubmit: () => void,
  onCancel?: () => void,
): EditorView {
  const submit = (): boolean => {
    onSubmit();
    return true;
  };
  const leave = (view: EditorView): boolean => {
    if (onCancel) onCancel();
    else view.contentDOM.blur();
    return true;
  };
  const state = EditorState.create({
    doc: code,
    extensions: [
      lineNumbers(),
      history(),
      bracketMatching(),
      closeBrackets(),
      // Enter ends a line, unless a suggestion was chosen: a list that opens late must not change what is typed.
      autocompletion({ selectOnOpen: false }),
      highlightSpecialChars({
        addSpecialChars: new RegExp(hidden.source, 'gu'),
        render: (point) => {
          const mark = document.createElement('span');
          mark.className = 'cm-specialChar';
          mark.textContent = `\\u{${point.toString(16)}}`;
          return mark;
        },
      }),
      indentUnit.of('    '),
      EditorState.tabSize.of(4),
      python(),
      syntaxHighlighting(colours),
      theme,
      EditorView.contentAttributes.of({ 'aria-label': label }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) onChange(update.state.doc.toString());
      }),
      keymap.of([
        { key: 'Shift-Enter', run: submit },
        { key: 'Mod-Enter', run: submit },
        // Tab indents; Escape gives the keyboard back to the page.
        { key: 'Escape', run: leave },
        ...closeBracketsKeymap,
        ...defaultKeymap,
        ...historyKeymap,
        ...completionKeymap,
        indentWithTab,
      ]),
    ],
  });
  return new EditorView({ parent, state });
}
