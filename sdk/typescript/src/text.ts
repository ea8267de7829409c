// Text, names and bytes, as the service wants them.

const SEQUENCES = new RegExp(
  '\\x1b\\[[0-?]*[ -/]*[@-~]' + // colours, the cursor
    '|\\x1b[\\]PX^_][^]*?(?:\\x07|\\x1b\\\\|$)' + // titles, clipboards, links
    '|\\x1b[^]|[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]',
  'g',
);

/** Text that does nothing to a terminal. */
export function safe(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(SEQUENCES, '');
}

/** A name as a part of a path. What would lead elsewhere is none. */
export function part(name: string): string {
  if (name === '' || name === '.' || name === '..') throw new TypeError(`'${name}' is not a valid name`);
  return encodeURIComponent(name);
}

/** A path inside a session. The first `/` of an absolute one is encoded, since proxies merge two of them. */
export function filePath(path: string): string {
  const [root, rest] = path.startsWith('/') ? ['%2F', path.slice(1)] : ['', path];
  return root + rest.split('/').map(part).join('/');
}

export function toBase64(bytes: Uint8Array): string {
  let text = '';
  // Not more arguments than a stack holds.
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Contents of a file. */
export type Contents = string | Uint8Array | ArrayBuffer | Blob;

export async function toBytes(contents: Contents): Promise<Uint8Array> {
  if (typeof contents === 'string') return new TextEncoder().encode(contents);
  if (contents instanceof Uint8Array) return contents;
  return new Uint8Array(contents instanceof ArrayBuffer ? contents : await contents.arrayBuffer());
}
