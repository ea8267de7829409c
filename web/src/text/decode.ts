// Bytes of a file as text. Most files are UTF-8; what spreadsheets write often is not.

export interface Decoded {
  text: string;
  encoding: 'UTF-8' | 'UTF-16' | 'GB18030' | 'Windows-1252';
}

/** The beginning of a file as text, which may be cut within a character; nothing where it is no text. */
export function decode(head: Uint8Array): Decoded | null {
  const [first, second] = head;
  const isLittle = first === 0xff && second === 0xfe;
  if (isLittle || (first === 0xfe && second === 0xff)) {
    return { text: read(head, isLittle ? 'utf-16le' : 'utf-16be') ?? '', encoding: 'UTF-16' };
  }
  // A zero byte is in no text that people read.
  if (head.subarray(0, 8000).includes(0)) return null;
  const text = read(head, 'utf-8', true);
  if (text !== null) return { text, encoding: 'UTF-8' };
  if (looksChinese(head)) return { text: read(head, 'gb18030') ?? '', encoding: 'GB18030' };
  return { text: read(head, 'windows-1252') ?? '', encoding: 'Windows-1252' };
}

function read(head: Uint8Array, encoding: string, fatal = false): string | null {
  try {
    // As a part of a stream: the last character may be cut.
    return new TextDecoder(encoding, { fatal }).decode(head, { stream: true });
  } catch {
    return null;
  }
}

/** Whether bytes above ASCII come in pairs, as in Chinese; in Western text most of them stand alone. */
function looksChinese(head: Uint8Array): boolean {
  let [paired, all, length] = [0, 0, 0];
  for (let at = 0; at <= head.length; at += 1) {
    if ((head[at] ?? 0) >= 0x80) length += 1;
    else {
      if (length % 2 === 0) paired += length;
      all += length;
      length = 0;
    }
  }
  return paired > all * 0.9;
}
