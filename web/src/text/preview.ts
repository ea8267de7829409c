// How a file begins: as a table, an image or text. Only its first part is read.
import { MIME_TYPES } from '../api/generated/mime';
import { decode, type Decoded } from './decode';
import { readDelimited, type RaggedRow } from './delimited';
import { readJson } from './json';
import type { Table } from './table';

/** What a reader of the file should know. */
export type Note =
  { kind: 'encoding'; encoding: Decoded['encoding'] } | ({ kind: 'ragged' } & RaggedRow) | { kind: 'not_json' };

export type Preview =
  | { kind: 'table'; table: Table; notes: Note[] }
  | { kind: 'image'; source: string }
  | { kind: 'text'; text: string; notes: Note[] }
  /** A format that a session reads. */
  | { kind: 'in_session'; format: SessionFormat; file: Blob }
  | { kind: 'none'; why: 'binary' | 'empty' | 'too_large' }
  | { kind: 'none'; why: 'unreadable'; detail: string };

const MOST = 1_000_000;
const MOST_TEXT = 4000;
/** Formats that are read by `session-preview.ts`. */
const IN_SESSION = ['xlsx', 'parquet'] as const;
export type SessionFormat = (typeof IN_SESSION)[number];
const DELIMITED = ['csv', 'tsv', 'txt'];
const JSONS = ['json', 'jsonl', 'ndjson'];

const endingOf = (name: string): string => (name.includes('.') ? (name.split('.').at(-1) ?? '') : '').toLowerCase();

export async function previewOf(name: string, file: Blob): Promise<Preview> {
  const ending = endingOf(name);
  const type = MIME_TYPES.find((one) => one.view === 'image' && one.extensions.includes(ending))?.mime;
  if (type) return { kind: 'image', source: URL.createObjectURL(new Blob([file], { type })) };
  if (file.size === 0) return { kind: 'none', why: 'empty' };
  const format = IN_SESSION.find((one) => one === ending);
  if (format) return { kind: 'in_session', format, file };
  const head = new Uint8Array(await file.slice(0, MOST).arrayBuffer());
  const decoded = decode(head);
  if (!decoded) return { kind: 'none', why: 'binary' };
  const { text, encoding } = decoded;
  const share = head.length / file.size;
  const notes: Note[] = encoding === 'UTF-8' ? [] : [{ kind: 'encoding', encoding }];
  if (DELIMITED.includes(ending)) {
    const isTable = ending === 'csv' || ending === 'tsv';
    const read = readDelimited(text, { share, isTable, ...(ending === 'tsv' ? { separator: '\t' } : {}) });
    if (read?.ragged) notes.push({ kind: 'ragged', ...read.ragged });
    if (read) return { kind: 'table', table: read.table, notes };
  } else if (JSONS.includes(ending)) {
    const read = readJson(text, share);
    if (read.kind === 'table') return { kind: 'table', table: read.table, notes };
    if (read.kind === 'invalid') notes.push({ kind: 'not_json' });
  }
  return { kind: 'text', text: text.slice(0, MOST_TEXT), notes };
}
