// What would deceive a person who reads code: the same list that the terminal and MCP are tested with.
import { readFileSync } from 'node:fs';

const file = new URL('../../crates/belljar-protocol/src/approval/tricks.json', import.meta.url);
export const tricks = JSON.parse(readFileSync(file, 'utf8')).map((trick) => ({
  ...trick,
  code: trick.code.map((piece) => (typeof piece === 'string' ? piece : piece[0].repeat(piece[1]))).join(''),
}));
