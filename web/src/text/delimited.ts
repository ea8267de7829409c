// Files of separated values (RFC 4180, as far as people keep to it): the first rows, types of the columns, how many rows.
import { typeOfTexts } from './columns';
import type { Table, Value } from './table';

const SEPARATORS = [',', ';', '\t', '|'];
const MOST_ROWS = 20;
const MOST_COLUMNS = 100;
/** Rows that say the types of the columns. */
const TYPED_ROWS = 500;
/** Rows that say what separates values. */
const PROBED_ROWS = 20;
const MOST_CHARACTERS = 2000;

/** A row whose number of values is not that of the header. */
export interface RaggedRow {
  /** The header is row 1. */
  row: number;
  values: number;
  columns: number;
}

export interface Delimited {
  table: Table;
  /** The first row that has more values than the header: readers fail at it. */
  ragged: RaggedRow | null;
}

interface Options {
  /** The part of the file that the text is, of 1. */
  share?: number;
  separator?: string;
  /** Whether a file with one column is a table too. */
  isTable?: boolean;
}

/** The beginning of a file as a table; nothing where it is none. */
export function readDelimited(text: string, { share = 1, separator, isTable = false }: Options = {}): Delimited | null {
  const isCut = share < 1;
  const mark = separator ?? bestSeparator(text, isCut);
  const { rows, count, end } = scan(text, mark, TYPED_ROWS + 1, isCut);
  const names = rows.shift();
  if (!names || (!isTable && (names.length < 2 || rows.length === 0))) return null;
  const shown = names.slice(0, MOST_COLUMNS);
  const known = count - 1;
  const extra = rows.findIndex((row) => row.length > names.length);
  const table: Table = {
    columns: shown.map((name, at) => ({ name, dtype: '', type: typeOfTexts(rows.map((row) => row[at] ?? '')) })),
    index: null,
    rows: rows.slice(0, MOST_ROWS).map((row) => shown.map((_, at) => asValue(row[at] ?? ''))),
    totalRows: isCut && end > 0 ? Math.round((known * text.length) / end / share) : known,
    totalColumns: names.length,
  };
  if (isCut) table.isEstimate = true;
  const ragged = extra < 0 ? null : { row: extra + 2, values: rows[extra]?.length ?? 0, columns: names.length };
  return { table, ragged };
}

/** The one that cuts most rows into as many values as the header has. */
function bestSeparator(text: string, isCut: boolean): string {
  const scores = SEPARATORS.map((separator): [number, string] => {
    const { rows } = scan(text, separator, PROBED_ROWS, isCut);
    const columns = rows[0]?.length ?? 0;
    const alike = rows.filter((row) => row.length === columns).length;
    return [columns < 2 ? 0 : (alike / rows.length) * columns, separator];
  });
  return scores.reduce((best, one) => (one[0] > best[0] ? one : best))[1];
}

interface Scanned {
  /** The first rows. */
  rows: string[][];
  /** How many rows there are. */
  count: number;
  /** Where the last whole row ends. */
  end: number;
}

/** Cuts text into rows. Empty lines are none; of a text that is cut, the last row may not be whole and is left out. */
function scan(text: string, separator: string, most: number, isCut: boolean): Scanned {
  const scanned: Scanned = { rows: [], count: 0, end: 0 };
  const length = text.length;
  let row: string[] = [];
  let at = 0;
  while (at < length) {
    let field = '';
    if (text[at] === '"') {
      let from = at + 1;
      for (;;) {
        const quote = text.indexOf('"', from);
        if (quote < 0) {
          field += text.slice(from);
          at = length;
          break;
        }
        field += text.slice(from, quote);
        at = quote + 1;
        if (text[at] !== '"') break;
        field += '"';
        from = at + 1;
      }
    }
    const from = at;
    while (at < length && text[at] !== separator && text[at] !== '\n' && text[at] !== '\r') at += 1;
    field += text.slice(from, at);
    if (scanned.count < most) row.push(field.slice(0, MOST_CHARACTERS));
    else if (row.length < 2) row.push(field);
    let isEnd = at >= length;
    if (text[at] === separator && !isEnd) {
      at += 1;
      // A separator at the very end has an empty value after it.
      if (at < length) continue;
      row.push('');
      isEnd = true;
    }
    if (text[at] === '\r' && text[at + 1] === '\n') at += 1;
    at += 1;
    if (isEnd && isCut) break;
    const isEmpty = row.length === 1 && row[0]?.trim() === '';
    if (!isEmpty) {
      if (scanned.count < most) scanned.rows.push(row);
      scanned.count += 1;
    }
    scanned.end = Math.min(at, length);
    row = [];
  }
  return scanned;
}

function asValue(text: string): Value {
  if (text === '') return null;
  // What a number would show otherwise stays as it is written.
  return /^-?(0|[1-9]\d{0,14})(\.\d{1,6})?$/.test(text) ? Number(text) : text;
}
