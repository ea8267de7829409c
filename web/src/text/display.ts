// Which representation of a display is shown, and whether it may be.
import type { Display, DisplayData } from '../api/types';
import { MIME_TYPES } from '../api/generated/mime';
import { readTable, type Table } from './table';

export type Shown =
  | { kind: 'table'; table: Table }
  | { kind: 'image'; source: string }
  | { kind: 'svg' | 'html' | 'markdown' | 'text'; text: string }
  | { kind: 'too_large'; bytes: number };

/** The most displays of a cell, characters of one, and pixels of an image (attack E9). */
export const MOST_DISPLAYS = 30;
const MOST_CHARACTERS = 3_000_000;
const MOST_IMAGE_CHARACTERS = 12_000_000;
const MOST_PIXELS = 40_000_000;

export function shownOf(display: Display): Shown | null {
  for (const { mime, view } of MIME_TYPES) {
    const part = view && display.parts.find((one) => one.mime === mime);
    if (!part) continue;
    if (view === 'table') {
      const table = readTable(textOf(part));
      if (table) return { kind: 'table', table };
    } else if (view === 'image') {
      const data = part.base64;
      if (!data) continue;
      const size = data.length;
      if (size > MOST_IMAGE_CHARACTERS || pixels(part) > MOST_PIXELS) return { kind: 'too_large', bytes: size * 0.75 };
      return { kind: 'image', source: `data:${mime};base64,${data.replace(/[^A-Za-z0-9+/=]/g, '')}` };
    } else {
      const text = textOf(part);
      return text.length > MOST_CHARACTERS ? { kind: 'too_large', bytes: text.length } : { kind: view, text };
    }
  }
  const other = display.parts[0];
  return other ? { kind: 'text', text: other.mime } : null;
}

function textOf(part: DisplayData): string {
  if (part.text !== null && part.text !== undefined) return part.text;
  if (!part.base64) return '';
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(part.base64), (character) => character.charCodeAt(0)));
  } catch {
    return '';
  }
}

/** Width times height of a PNG, which stand at its start; others are bound by their bytes alone. */
function pixels(part: DisplayData): number {
  if (part.mime !== 'image/png' || !part.base64) return 0;
  try {
    const head = Uint8Array.from(atob(part.base64.slice(0, 44)), (character) => character.charCodeAt(0));
    const numbers = new DataView(head.buffer);
    return numbers.getUint32(16) * numbers.getUint32(20);
  } catch {
    return Infinity;
  }
}
