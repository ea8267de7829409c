// Records of JSON as a table: an administrator reads what the service has, also what this page does not know yet.
import type { Table, Value } from './table';

const MOST_ROWS = 500;

/** The first list in an answer, or the answer itself where it is one; an object without any is a list of its members. */
export function tableOf(answer: unknown): Table | null {
  const records = listIn(answer);
  if (!records) return null;
  const names = new Set<string>();
  const flat = records.slice(0, MOST_ROWS).map((record) => flatten(record));
  for (const record of flat) for (const name of Object.keys(record)) names.add(name);
  const columns = [...names].slice(0, 20);
  return {
    columns: columns.map((name) => ({ name, dtype: '' })),
    index: null,
    rows: flat.map((record) => columns.map((name) => record[name] ?? null)),
    totalRows: records.length,
    totalColumns: names.size,
  };
}

function listIn(answer: unknown): unknown[] | null {
  if (Array.isArray(answer)) return answer;
  if (typeof answer !== 'object' || answer === null) return null;
  const members = Object.entries(answer);
  const list = members.find(([, value]) => Array.isArray(value));
  if (list) return list[1] as unknown[];
  const [only] = members;
  if (members.length === 1 && typeof only?.[1] === 'object') return listIn(only[1]);
  return members.map(([name, value]) => ({ name, value }));
}

function flatten(record: unknown, before = ''): Record<string, Value> {
  if (typeof record !== 'object' || record === null) return { [before || 'value']: record as Value };
  const flat: Record<string, Value> = {};
  for (const [name, value] of Object.entries(record)) {
    const whole = before ? `${before}.${name}` : name;
    if (Array.isArray(value))
      flat[whole] = value.map((one) => (typeof one === 'object' ? JSON.stringify(one) : String(one))).join(', ');
    else if (typeof value === 'object' && value !== null && before === '') Object.assign(flat, flatten(value, whole));
    else if (typeof value === 'object' && value !== null) flat[whole] = JSON.stringify(value);
    // Times are seconds since 1970.
    else if (typeof value === 'number' && /(^|_)at$/.test(name) && value > 1e9)
      flat[whole] = new Date(value * 1000).toISOString().slice(0, 19).replace('T', ' ');
    else flat[whole] = value as Value;
  }
  return flat;
}
