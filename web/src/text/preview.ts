// How a file begins: as a table, an image or text.
import { MIME_TYPES } from '../api/generated/mime';
import { readSeparated, type Table } from './table';

export type Preview =
  | { kind: 'table'; table: Table }
  | { kind: 'image'; source: string }
  | { kind: 'text'; text: string }
  | { kind: 'none' };

const MOST = 300_000;

export async function previewOf(name: string, file: Blob): Promise<Preview> {
  const ending = name.split('.').at(-1)?.toLowerCase() ?? '';
  const type = MIME_TYPES.find((one) => one.view === 'image' && one.extensions.includes(ending))?.mime;
  if (type) return { kind: 'image', source: URL.createObjectURL(new Blob([file], { type })) };
  const head = new Uint8Array(await file.slice(0, MOST).arrayBuffer());
  // A zero byte is in no text that people read.
  if (head.subarray(0, 8000).includes(0)) return { kind: 'none' };
  const text = new TextDecoder().decode(head);
  const table = ['csv', 'tsv', 'txt', ''].includes(ending) ? readSeparated(text) : null;
  if (table) {
    if (file.size > MOST) table.totalRows = Math.round((table.totalRows * file.size) / MOST);
    return { kind: 'table', table };
  }
  return { kind: 'text', text: text.slice(0, 4000) };
}
