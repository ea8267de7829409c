// The beginning of a file whose format a browser does not read. A session of its own reads it, behind its walls: parsers
// of such formats are large, and the file may be hostile.
import { sessions } from './api/service';
import type { ColumnType } from './text/columns';
import { shownOf } from './text/display';
import { oneLine } from './text/plain';
import type { Preview, SessionFormat } from './text/preview';

/** What a body and a run take. */
const MOST_BYTES = 32_000_000;
const WALL_TIME_MS = 30_000;
/** The session ends by itself when the page is closed meanwhile. */
const TTL_SECONDS = 120;

/** Shows the first rows and prints how many there are. The file has a name of ours: its own is not a part of code. */
const READERS: Record<SessionFormat, string> = {
  parquet: `import pandas, pyarrow.parquet
file = pyarrow.parquet.ParquetFile("data.parquet")
batch = next(file.iter_batches(batch_size=20), None)
display((file.schema_arrow.empty_table() if batch is None else batch).to_pandas(ignore_metadata=True))
print(file.metadata.num_rows)`,
  xlsx: `import openpyxl, pandas
sheet = openpyxl.load_workbook("data.xlsx", read_only=True).worksheets[0]
sheet.calculate_dimension(force=True)
display(pandas.read_excel("data.xlsx", nrows=20))
print(max((sheet.max_row or 1) - 1, 0))`,
};

export async function previewInSession(format: SessionFormat, file: Blob): Promise<Preview> {
  if (file.size > MOST_BYTES) return { kind: 'none', why: 'too_large' };
  const { id } = await sessions.create({ ttl_seconds: TTL_SECONDS });
  try {
    await sessions.upload(id, `data.${format}`, file);
    const outcome = await sessions.run(id, READERS[format], WALL_TIME_MS);
    const [display] = outcome.displays ?? [];
    const shown = display ? shownOf(display) : null;
    if (outcome.status !== 'success' || shown?.kind !== 'table') {
      const { exception, cause } = outcome;
      const detail = exception ? `${exception.type}: ${exception.value}` : cause.kind;
      return { kind: 'none', why: 'unreadable', detail: oneLine(detail, 200) };
    }
    const { table } = shown;
    const rows = Number(outcome.stdout.text);
    const columns = table.columns.map((column) => ({ ...column, type: typeOf(column.dtype) }));
    const totalRows = Number.isSafeInteger(rows) && rows > table.rows.length ? rows : table.rows.length;
    return { kind: 'table', table: { ...table, columns, index: null, totalRows }, notes: [] };
  } finally {
    void sessions.end(id).catch(() => {});
  }
}

/** The type of a column, from that of pandas. */
function typeOf(dtype: string): ColumnType {
  if (/^u?int/i.test(dtype)) return 'integer';
  if (/^float/i.test(dtype)) return 'number';
  if (/^bool/i.test(dtype)) return 'boolean';
  return /^datetime/.test(dtype) ? 'date' : 'text';
}
