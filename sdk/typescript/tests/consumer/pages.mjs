// Writes the examples of pages into a directory, each as a program; and the text that it is to print beside it.
//
//   node pages.mjs DIRECTORY PAGE…
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

const [directory, ...pages] = process.argv.slice(2);
await mkdir(directory, { recursive: true });
for (const page of pages) {
  const blocks = [...(await readFile(page, 'utf8')).matchAll(/```ts\n([^]*?)```\n(?:\n```text\n([^]*?)```)?/g)];
  if (blocks.length === 0) throw new Error(`${page} has no examples`);
  for (const [at, [, code, printed]] of blocks.entries()) {
    const name = `${basename(page, '.md')}-${at + 1}`;
    await writeFile(join(directory, `${name}.ts`), code);
    if (printed !== undefined) await writeFile(join(directory, `${name}.txt`), printed);
  }
}
