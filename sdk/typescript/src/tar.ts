// Tar archives: what directories need of them.
import { BelljarError } from './errors.js';

const BLOCK = 512;
const LONG_NAME = 'L';

/** A file, or a directory: it has no contents. */
export interface Entry {
  /** Path with `/` between its parts. */
  path: string;
  contents?: Uint8Array;
  isExecutable?: boolean;
}

function block(name: Uint8Array, kind: string, size: number, mode: number): Uint8Array {
  const header = new Uint8Array(BLOCK);
  const put = (text: string, at: number) => header.set(new TextEncoder().encode(text), at);
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0');
  header.set(name.subarray(0, 100), 0);
  put(octal(mode, 7), 100);
  put(octal(0, 7), 108);
  put(octal(0, 7), 116);
  put(octal(size, 11), 124);
  put(octal(0, 11), 136);
  put(' '.repeat(8), 148);
  put(kind, 156);
  put('ustar  ', 257);
  put(`${octal(checksum(header), 6)}\0 `, 148);
  return header;
}

const checksum = (header: Uint8Array) => header.reduce((sum, byte) => sum + byte, 0);

/** An archive with these entries. */
export function pack(entries: Iterable<Entry>): Uint8Array {
  const blocks: Uint8Array[] = [];
  const add = (name: Uint8Array, kind: string, contents: Uint8Array, mode: number) => {
    blocks.push(block(name, kind, contents.length, mode), contents, new Uint8Array(-contents.length & (BLOCK - 1)));
  };
  for (const { path, contents, isExecutable } of entries) {
    const name = new TextEncoder().encode(contents === undefined ? `${path}/` : path);
    if (name.length > 100) add(new TextEncoder().encode('././@LongLink'), LONG_NAME, Uint8Array.of(...name, 0), 0o644);
    const isFile = contents !== undefined;
    add(name, isFile ? '0' : '5', contents ?? new Uint8Array(), isFile && !isExecutable ? 0o644 : 0o755);
  }
  blocks.push(new Uint8Array(2 * BLOCK));
  const archive = new Uint8Array(blocks.reduce((sum, one) => sum + one.length, 0));
  let at = 0;
  for (const one of blocks) {
    archive.set(one, at);
    at += one.length;
  }
  return archive;
}

/** The entries of an archive. Anything but files and directories is refused. */
export function* unpack(archive: Uint8Array): Generator<Entry> {
  const refuse = (why: string) => new BelljarError('bad_answer', `the archive ${why}`);
  const text = (from: number, to: number) => {
    const field = archive.subarray(from, to);
    const end = field.indexOf(0);
    return new TextDecoder().decode(end < 0 ? field : field.subarray(0, end));
  };
  let longName: string | undefined;
  for (let at = 0; archive[at] !== 0;) {
    const header = at;
    at += BLOCK;
    const told = Number.parseInt(text(header + 148, header + 156), 8);
    const spaces = archive.slice(header, at).fill(32, 148, 156);
    const size = Number.parseInt(text(header + 124, header + 136), 8);
    if (told !== checksum(spaces) || !(at + size <= archive.length)) throw refuse('is damaged');
    const contents = archive.subarray(at, at + size);
    at += size + (-size & (BLOCK - 1));
    const kind = text(header + 156, header + 157);
    if (kind === LONG_NAME) {
      longName = new TextDecoder().decode(contents).replace(/\0.*$/s, '');
      continue;
    }
    const path = longName ?? text(header, header + 100);
    longName = undefined;
    if (kind === '5') yield { path: path.replace(/\/$/, '') };
    else if (kind === '0' || kind === '')
      yield { path, contents, isExecutable: (Number.parseInt(text(header + 100, header + 108), 8) & 0o100) !== 0 };
    else throw refuse(`has '${path}', which is not a regular file`);
  }
}
