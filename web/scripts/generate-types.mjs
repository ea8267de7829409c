// Makes the types of the API, events of runs among them, from docs/openapi.json, and those of the admin API; `--check`
// tells whether those that are checked in are still what it would make.
import { readFile, writeFile } from 'node:fs/promises';
import openapiTypes, { astToString } from 'openapi-typescript';
import { asIntersection } from './schemas.mjs';

const here = new URL('.', import.meta.url);
const documents = new URL('../../docs/', here);
const generated = new URL('../src/api/generated/', here);

async function typesOf(name) {
  const document = JSON.parse(await readFile(new URL(`${name}.json`, documents), 'utf8'));
  const head = `// Made by \`npm run types\` from docs/${name}.json. Do not change it by hand.\n`;
  return head + astToString(await openapiTypes(asIntersection(document)));
}

const names = ['openapi', 'openapi-admin'];
const made = Object.fromEntries(await Promise.all(names.map(async (name) => [`${name}.ts`, await typesOf(name)])));

for (const [name, text] of Object.entries(made)) {
  const file = new URL(name, generated);
  if (!process.argv.includes('--check')) {
    await writeFile(file, text);
  } else if ((await readFile(file, 'utf8').catch(() => '')) !== text) {
    console.error(`src/api/generated/${name} is not what the documents say: npm run types`);
    process.exitCode = 1;
  }
}
