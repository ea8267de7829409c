// Makes the types of the API, events of runs among them, from docs/openapi.json; `--check` tells whether those that are
// checked in are still what it would make.
import { readFile, writeFile } from 'node:fs/promises';
import openapiTypes, { astToString } from 'openapi-typescript';
import { asIntersection } from './schemas.mjs';

const here = new URL('.', import.meta.url);
const documents = new URL('../../docs/', here);
const generated = new URL('../src/api/generated/', here);
const head = '// Made by `npm run types` from docs/openapi.json. Do not change it by hand.\n';

const openapi = JSON.parse(await readFile(new URL('openapi.json', documents), 'utf8'));

const made = { 'openapi.ts': head + astToString(await openapiTypes(asIntersection(openapi))) };

for (const [name, text] of Object.entries(made)) {
  const file = new URL(name, generated);
  if (!process.argv.includes('--check')) {
    await writeFile(file, text);
  } else if ((await readFile(file, 'utf8').catch(() => '')) !== text) {
    console.error(`src/api/generated/${name} is not what docs/openapi.json says: npm run types`);
    process.exitCode = 1;
  }
}
