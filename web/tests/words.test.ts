import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { en } from '../src/i18n/en';
import { zh } from '../src/i18n/zh';

const names = (text: string): string[] => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? '').sort();

test('both languages have all words, with the same places in them', () => {
  expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort());
  for (const [key, text] of Object.entries(en)) {
    expect(names(zh[key as keyof typeof en]), key).toEqual(names(text));
    expect(zh[key as keyof typeof en], key).not.toBe('');
  }
});

test('every word is used', () => {
  const root = join(import.meta.dirname, '../src');
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
    (name) => /\.(svelte|ts)$/.test(name) && !/i18n\/(en|zh)\.ts$/.test(name),
  );
  const source = files.map((name) => readFileSync(join(root, name), 'utf8')).join('\n');
  // Words of a list are put together from their beginning.
  const isUsed = (key: string): boolean =>
    source.includes(`'${key}'`) ||
    [...source.matchAll(/`(\w[\w.]*\.)\$\{/g)].some((match) => key.startsWith(match[1] ?? '\0')) ||
    /^run\.(model|code|waiting)_time$/.test(key);
  expect(Object.keys(en).filter((key) => !isUsed(key))).toEqual([]);
});
