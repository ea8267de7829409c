// What a page loads of scripts, compressed, has a bound: the interface opens at once on a slow line too.
import { readdir, readFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';

const BOUND = 350_000;
const assets = new URL('../dist/assets/', import.meta.url);
let total = 0;
for (const name of await readdir(assets)) {
  if (!name.endsWith('.js')) continue;
  const bytes = gzipSync(await readFile(new URL(name, assets))).length;
  console.log(`${String(bytes).padStart(8)}  ${name}`);
  total += bytes;
}
console.log(`${String(total).padStart(8)}  of scripts, compressed; ${BOUND} at most`);
if (total > BOUND) process.exitCode = 1;
