// JSON files that are tables: records, lists, columns, or one value on each line.
import { typeOfValues } from './columns';
import type { Table, Value } from './table';

const MOST_ROWS = 20;
const MOST_COLUMNS = 100;
/** Rows that say names and types of the columns. */
const TYPED_ROWS = 500;
const MOST_CHARACTERS = 300;

export type ReadJson = { kind: 'table'; table: Table } | { kind: 'invalid' } | { kind: 'other' };

/** The beginning of a file of JSON. `share` is the part of the file that the text is, of 1. */
export function readJson(text: string, share = 1): ReadJson {
  const trimmed = text.trim();
  if (share === 1) {
    const whole = parse(trimmed);
    if (whole.kind === 'too_deep') return { kind: 'other' };
    if (whole.kind === 'value') return asTable(rowsOf(whole.value));
    const lines = linesOf(trimmed, share);
    return lines ? asTable(lines) : { kind: 'invalid' };
  }
  return asTable(trimmed.startsWith('[') ? elementsOf(trimmed, share) : linesOf(trimmed, share));
}

interface Rows {
  first: unknown[];
  total: number;
  isEstimate: boolean;
}

const wholeRows = (first: unknown[]): Rows => ({
  first: first.slice(0, TYPED_ROWS),
  total: first.length,
  isEstimate: false,
});

type Parsed = { kind: 'value'; value: unknown } | { kind: 'invalid' } | { kind: 'too_deep' };

function parse(text: string): Parsed {
  try {
    return { kind: 'value', value: JSON.parse(text, keepDigits as (key: string, value: unknown) => unknown) };
  } catch (error) {
    return { kind: error instanceof RangeError ? 'too_deep' : 'invalid' };
  }
}

/** A whole number beyond 2^53 as it is written, where the browser says how. */
function keepDigits(_: string, value: unknown, context?: { source?: string }): unknown {
  const isLarge = typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value);
  return isLarge ? (context?.source ?? value) : value;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The rows of a value: a list, or an object of columns, as pandas writes one. */
function rowsOf(value: unknown): Rows | null {
  if (Array.isArray(value)) return wholeRows(value);
  if (!isRecord(value)) return null;
  const columns = Object.entries(value);
  if (columns.length === 0) return null;
  const keys = Object.keys(columns[0]?.[1] ?? {});
  const isColumn = (one: unknown) =>
    typeof one === 'object' && one !== null && Object.keys(one).length === keys.length && keys.length > 0;
  if (!columns.every(([, column]) => isColumn(column))) return null;
  return wholeRows(keys.map((key) => Object.fromEntries(columns.map(([name, column]) => [name, at(column, key)]))));
}

const at = (column: unknown, key: string): unknown =>
  Object.hasOwn(column as object, key) ? (column as Record<string, unknown>)[key] : null;

/** One value on each line. The last line of a text that is cut may not be whole. */
function linesOf(text: string, share: number): Rows | null {
  const lines = text.split(/\r?\n/);
  if (share < 1) lines.pop();
  const full = lines.filter((line) => line.trim() !== '');
  const first = full.slice(0, TYPED_ROWS).map(parse);
  if (first.length < 2 || !first.every((line) => line.kind === 'value' && isRecord(line.value))) return null;
  const values = first.map((line) => (line.kind === 'value' ? line.value : null));
  return { first: values, total: Math.round(full.length / share), isEstimate: share < 1 };
}

/** The elements of a list that is cut. */
function elementsOf(text: string, share: number): Rows | null {
  const first: unknown[] = [];
  let [count, depth, start] = [0, 0, 0];
  let isText = false;
  for (let place = 0; place < text.length; place += 1) {
    const character = text[place];
    if (isText) {
      if (character === '\\') place += 1;
      else if (character === '"') isText = false;
    } else if (character === '"') isText = true;
    else if (character === '[' || character === '{') {
      depth += 1;
      if (depth === 1) start = place + 1;
    } else if (character === ']' || character === '}') depth -= 1;
    else if (character === ',' && depth === 1) {
      if (first.length < TYPED_ROWS) {
        const element = parse(text.slice(start, place));
        if (element.kind !== 'value') return null;
        first.push(element.value);
      }
      count += 1;
      start = place + 1;
    }
  }
  if (count === 0) return null;
  return { first, total: Math.round((count * text.length) / start / share), isEstimate: true };
}

function asTable(rows: Rows | null): ReadJson {
  if (!rows) return { kind: 'other' };
  const records = rows.first.map((row): Record<string, unknown> => {
    if (isRecord(row)) return row;
    return Array.isArray(row) ? Object.fromEntries(row.map((value, at) => [String(at), value])) : { value: row };
  });
  const names = [...new Set(records.flatMap((record) => Object.keys(record)))];
  const shown = names.slice(0, MOST_COLUMNS);
  const values = records.map((record) => shown.map((name) => asValue(at(record, name))));
  const table: Table = {
    columns: shown.map((name, column) => ({
      name,
      dtype: '',
      type: typeOfValues(values.map((row) => row[column] ?? null)),
    })),
    index: null,
    rows: values.slice(0, MOST_ROWS),
    totalRows: rows.total,
    totalColumns: names.length,
  };
  if (rows.isEstimate) table.isEstimate = true;
  return { kind: 'table', table };
}

function asValue(value: unknown): Value {
  if (value === null || value === undefined) return null;
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  if (typeof value === 'string') return value.slice(0, MOST_CHARACTERS);
  return JSON.stringify(value).slice(0, MOST_CHARACTERS);
}
