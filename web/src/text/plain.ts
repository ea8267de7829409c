// Text of programs and models is hostile: what it could do to a reader's eyes is taken out or made visible.

// Commands to a terminal: CSI, OSC, DCS and the like, then single escapes, in 7 and in 8 bits (attack E5).
// eslint-disable-next-line no-control-regex
const ESCAPES =
  /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)|\x1b[ -/]*[0-~]?/g;
const CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]/g;

/** Output without commands to a terminal. A line that was written over by a carriage return shows what is left of it. */
export function plainOutput(text: string): string {
  const without = text.replace(ESCAPES, '').replace(/\r\n/g, '\n').replace(CONTROLS, '');
  if (!without.includes('\r')) return without;
  return without
    .split('\n')
    .map((line) => {
      const parts = line.split('\r').filter((part) => part !== '');
      return parts.at(-1) ?? '';
    })
    .join('\n');
}

/** Characters that have no width, turn the direction of text, or are tags: what is read is not what is there (E6). */
const INVISIBLE =
  /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/u;
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;

export interface Piece {
  text: string;
  /** Whether it stands for a character that can't be seen. */
  hidden: boolean;
}

/** Text in pieces, with characters that can't be seen written out, as `\u{202e}`. */
export function visible(text: string): Piece[] {
  const pieces: Piece[] = [];
  let plain = '';
  for (const character of text) {
    if (INVISIBLE.test(character) || CONTROL.test(character)) {
      if (plain) pieces.push({ text: plain, hidden: false });
      plain = '';
      pieces.push({ text: `\\u{${character.codePointAt(0)?.toString(16)}}`, hidden: true });
    } else {
      plain += character;
    }
  }
  if (plain) pieces.push({ text: plain, hidden: false });
  return pieces;
}

/** One line for lists: no breaks, nothing hidden, cut at a length. */
export function oneLine(text: string, length = 160): string {
  const line = plainOutput(text).replace(/\s+/g, ' ').trim();
  const whole = visible(line)
    .map((piece) => piece.text)
    .join('');
  return whole.length > length ? `${whole.slice(0, length - 1)}…` : whole;
}
