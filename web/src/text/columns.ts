// The types of columns, as far as the values of the first rows say them.
import type { Value } from './table';

export const COLUMN_TYPES = ['integer', 'number', 'boolean', 'date', 'text', 'mixed', 'empty'] as const;
export type ColumnType = (typeof COLUMN_TYPES)[number];

const DATE = /^\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ]\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?(Z|[+-]\d{2}:?\d{2}))?)?$/;
/** What stands for nothing in a file of text: the usual words, as pandas reads them. */
const MISSING = new Set(['', 'NA', 'N/A', 'NaN', 'nan', 'null', 'NULL', 'None', '#N/A']);

/** The type of values that have one by themselves, as in JSON. */
export function typeOfValues(values: Iterable<Value>): ColumnType {
  return common(values, (value) => {
    if (value === null) return null;
    if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
    if (typeof value === 'boolean') return 'boolean';
    return DATE.test(value) ? 'date' : 'text';
  });
}

/** The type of values that are written as text. */
export function typeOfTexts(texts: Iterable<string>): ColumnType {
  return common(texts, (whole) => {
    const text = whole.trim();
    if (MISSING.has(text)) return null;
    // Digits that begin with a zero are a code, such as a postal one.
    if (/^[+-]?(0|[1-9]\d*)$/.test(text)) return 'integer';
    if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) && !/^[+-]?0\d+$/.test(text)) return 'number';
    if (/^(true|false)$/i.test(text)) return 'boolean';
    return DATE.test(text) ? 'date' : 'text';
  });
}

function common<T>(values: Iterable<T>, typeOf: (value: T) => ColumnType | null): ColumnType {
  const types = new Set<ColumnType>();
  for (const value of values) {
    const type = typeOf(value);
    if (type) types.add(type);
  }
  if (types.has('number')) types.delete('integer');
  if (types.size > 1) return 'mixed';
  return [...types][0] ?? 'empty';
}
