// Tables: those that a cell shows, and those of files.
import type { ColumnType } from './columns';
import { oneLine } from './plain';

export type Value = string | number | boolean | null;

export interface Table {
  columns: { name: string; dtype: string; type?: ColumnType }[];
  index: Value[] | null;
  rows: Value[][];
  totalRows: number;
  /** Whether `totalRows` was reckoned from a part of a file. */
  isEstimate?: boolean;
  totalColumns: number;
}

/** By which column rows are sorted; -1 is the index. */
export interface Order {
  column: number;
  descending: boolean;
}

/** A value as it stands in a table. */
export function valueText(value: Value | undefined, locale: string): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return value.toLocaleString(locale, { maximumFractionDigits: 6, useGrouping: false });
  return oneLine(String(value), 300);
}

const isValue = (value: unknown): value is Value =>
  value === null || ['string', 'number', 'boolean'].includes(typeof value);

/** A table as a session sends it; nothing where it is not one. The session is hostile: all of it is checked. */
export function readTable(json: string): Table | null {
  let told: unknown;
  try {
    told = JSON.parse(json);
  } catch {
    return null;
  }
  if (typeof told !== 'object' || told === null) return null;
  const { columns, rows, index, total_rows, total_columns } = told as Record<string, unknown>;
  if (!Array.isArray(columns) || !Array.isArray(rows) || columns.length > 200) return null;
  const checked = rows
    .slice(0, 500)
    .filter(Array.isArray)
    .map((row: unknown[]) => row.slice(0, columns.length).map((value) => (isValue(value) ? value : String(value))));
  return {
    columns: columns.map((column: { name?: unknown; dtype?: unknown }) => ({
      name: String(column?.name ?? ''),
      dtype: String(column?.dtype ?? ''),
    })),
    index: Array.isArray(index) ? index.map((value) => (isValue(value) ? value : String(value))) : null,
    rows: checked,
    totalRows: typeof total_rows === 'number' ? total_rows : checked.length,
    totalColumns: typeof total_columns === 'number' ? total_columns : columns.length,
  };
}

/** The order of rows by a column: numbers by size, the rest as text, what is not there last. */
export function sortedRows(table: Table, order: Order | null): number[] {
  const rows = table.rows.map((_, at) => at);
  if (order === null) return rows;
  const { column, descending } = order;
  const value = (row: number): Value | undefined => (column < 0 ? table.index?.[row] : table.rows[row]?.[column]);
  const direction = descending ? -1 : 1;
  const compareText = new Intl.Collator(undefined, { numeric: true }).compare;
  return rows.sort((left, right) => {
    const [a, b] = [value(left) ?? null, value(right) ?? null];
    if (a === null || b === null) return a === b ? left - right : a === null ? 1 : -1;
    const difference = typeof a === 'number' && typeof b === 'number' ? a - b : compareText(String(a), String(b));
    return difference * direction || left - right;
  });
}

/** Rows in this order as text with tabs between, as spreadsheets take it. */
export function separatedText(table: Table, order: number[], index: string): string {
  const names = table.columns.map((column) => asField(column.name));
  const lines = [table.index ? [index, ...names] : names];
  for (const row of order) {
    const values = table.columns.map((_, at) => table.rows[row]?.[at] ?? null);
    lines.push((table.index ? [table.index[row] ?? null, ...values] : values).map(asField));
  }
  return lines.map((fields) => fields.map(quoted).join('\t')).join('\n');
}

/** A value as a field. The program that made it is hostile: no spreadsheet is to take a text for a formula. */
function asField(value: Value): string {
  if (typeof value !== 'string') return value === null ? '' : String(value);
  return /^[=+@\t\r]|^-(?!\d)/.test(value) ? `'${value}` : value;
}

const quoted = (field: string): string => (/["\t\n\r]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field);
