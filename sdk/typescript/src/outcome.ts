import { CellFailedError, failureText } from './errors.js';
import type * as models from './generated/models.js';
import { fromBase64, safe } from './text.js';

/** MIME type of the rows and columns of a table, as JSON. */
const TABLE = 'application/vnd.belljar.table+json';

/** A table, with as many rows and columns as are shown. */
export interface Table {
  columns: { name: string; dtype: string }[];
  index: unknown[];
  rows: unknown[][];
  totalRows: number;
  totalColumns: number;
}

/** Sets the fields of a response. What a newer service adds does not replace what the class has. */
function assign(target: object, fields: object): void {
  for (const [name, value] of Object.entries(fields)) if (!(name in target)) Object.assign(target, { [name]: value });
}

export interface Display extends models.Display {}

/** A rich output: the same thing in one or more representations. They come from untrusted code. */
export class Display {
  /** @internal */
  constructor(fields: models.Display) {
    assign(this, fields);
  }

  /** The representation of this type, if there is one. */
  data(mime: string): Uint8Array | undefined {
    const part = this.parts.find((one) => one.mime === mime);
    if (part === undefined) return undefined;
    return typeof part.base64 === 'string' ? fromBase64(part.base64) : new TextEncoder().encode(part.text ?? '');
  }

  /** As plain text. */
  get text(): string | undefined {
    return this.#text('text/plain');
  }

  /** HTML, as the code gave it: never embed it in a page unsanitised. */
  get html(): string | undefined {
    return this.#text('text/html');
  }

  /** As an image. */
  get png(): Uint8Array | undefined {
    return this.data('image/png');
  }

  /** The rows and columns of a table. */
  get table(): Table | undefined {
    try {
      const { columns, index, rows, total_rows, total_columns } = JSON.parse(this.#text(TABLE) ?? '');
      return { columns, index, rows, totalRows: total_rows, totalColumns: total_columns };
    } catch {
      return undefined;
    }
  }

  #text(mime: string): string | undefined {
    const data = this.data(mime);
    return data && new TextDecoder().decode(data);
  }
}

export interface Outcome extends Omit<models.Outcome, 'stdout' | 'stderr' | 'displays'> {}

/** How a cell ended, and what it wrote. An exception in the code is an outcome, too. */
export class Outcome {
  /** Text of standard output. `stdoutOutput` says whether it is truncated. */
  readonly stdout: string;
  /** Text of standard error. `stderrOutput` says whether it is truncated. */
  readonly stderr: string;
  readonly stdoutOutput: models.Output;
  readonly stderrOutput: models.Output;
  /** Rich outputs, in order. */
  readonly displays: Display[];

  /** @internal */
  constructor(fields: models.Outcome) {
    const { stdout, stderr, displays, ...rest } = fields;
    assign(this, rest);
    this.stdout = stdout.text;
    this.stderr = stderr.text;
    this.stdoutOutput = stdout;
    this.stderrOutput = stderr;
    this.displays = (displays ?? []).map((display) => new Display(display));
  }

  /** Whether the cell succeeded. */
  get ok(): boolean {
    return this.status === 'success';
  }

  /** The last display: an open figure comes after the value of the last expression. */
  get display(): Display | undefined {
    return this.displays.at(-1);
  }

  /** The text of the value of the last expression; `undefined` if the cell does not end with one. */
  get value(): string | undefined {
    return this.displays.find((display) => display.value)?.text;
  }

  /** Returns itself on success; otherwise throws `CellFailedError`. */
  throwIfFailed(): this {
    if (!this.ok) throw new CellFailedError(this);
    return this;
  }

  /** Output and displays of the cell as text, without terminal sequences: what to pass to a model. */
  toString(): string {
    const parts = [this.transcript, ...this.displays.map((display) => display.text ?? '')];
    if (!this.ok) parts.push(failureText(this));
    const shown = parts.filter((text) => text !== '').map((text) => text.replace(/\n+$/, ''));
    return safe(shown.join('\n'));
  }
}

/** The view of an approval, as text: what hides or deceives is written out. */
export function approvalText(approval: models.Approval): string {
  const { tool, findings, remarks, rows } = approval.shown;
  const lines = tool == null ? [] : [`tool: ${tool}`];
  for (const found of findings ?? []) lines.push(`- ${found.capability}: ${found.what} (line ${found.line})`);
  for (const remark of remarks ?? []) lines.push(`- warning: ${remark}`);
  for (const row of rows ?? []) {
    const text = row.parts.map((one) => one.text).join('');
    lines.push(row.line == null ? `     ┊ ${text}` : `${String(row.line).padStart(4)} │ ${text}`);
  }
  return lines.join('\n');
}
