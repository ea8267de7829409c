// What a page loads of scripts, compressed, has bounds: the interface opens at once on a slow line too. What the first page
// loads is named in index.html; editor, terminal and formulas come when they are shown.
import { readdir, readFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';

const BOUNDS = { first: 250_000, all: 400_000 };
const dist = new URL('../dist/', import.meta.url);
const page = await readFile(new URL('index.html', dist), 'utf8');
const totals = { first: 0, all: 0 };
for (const name of await readdir(new URL('assets/', dist))) {
  if (!name.endsWith('.js')) continue;
  const bytes = gzipSync(await readFile(new URL(`assets/${name}`, dist))).length;
  console.log(`${String(bytes).padStart(8)}  ${name}`);
  totals.all += bytes;
  if (page.includes(name)) totals.first += bytes;
}
for (const [of, bound] of Object.entries(BOUNDS)) {
  console.log(`${String(totals[of]).padStart(8)}  ${of} scripts, compressed; ${bound} at most`);
  if (totals[of] === 0 || totals[of] > bound) process.exitCode = 1;
}
