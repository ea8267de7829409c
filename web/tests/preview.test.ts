// What is shown of a file before its question is sent: tables of hostile and odd files, from their first part alone.
import { cleanup, fireEvent, render } from '@testing-library/svelte';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { account } from '../src/account.svelte';
import type { Me, Outcome } from '../src/api/types';
import FilePreview from '../src/components/FilePreview.svelte';
import { typeOfTexts } from '../src/text/columns';
import { decode } from '../src/text/decode';
import { readDelimited } from '../src/text/delimited';
import { readJson } from '../src/text/json';
import { previewOf, type Preview } from '../src/text/preview';
import { rowCount } from '../src/words';

const { create, upload, run, end } = vi.hoisted(() => ({
  create: vi.fn(() => Promise.resolve({ id: 's-1' })),
  upload: vi.fn(() => Promise.resolve()),
  run: vi.fn<() => Promise<unknown>>(),
  end: vi.fn(() => Promise.resolve()),
}));
vi.mock('../src/api/service', async (original) => ({
  ...(await original<object>()),
  sessions: { create, upload, run, end },
}));

afterEach(cleanup);

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const tableOf = (preview: Preview) => {
  if (preview.kind !== 'table') throw new Error(`it is ${preview.kind}`);
  return preview.table;
};
const file = (...parts: (string | Uint8Array<ArrayBuffer>)[]): Blob => new Blob(parts);

describe('bytes as text', () => {
  test('UTF-8 with and without its mark, and cut within a character', () => {
    expect(decode(utf8('\ufeffä,b'))).toEqual({ text: 'ä,b', encoding: 'UTF-8' });
    const bytes = utf8('a,中');
    expect(decode(bytes.slice(0, -1))).toEqual({ text: 'a,', encoding: 'UTF-8' });
  });
  test('UTF-16 by its mark, GB18030 and Windows-1252 by their bytes', () => {
    const little = Uint8Array.of(0xff, 0xfe, 0x61, 0, 0x2d, 0x4e);
    expect(decode(little)).toEqual({ text: 'a中', encoding: 'UTF-16' });
    // 地区,销售额 in GB18030.
    const chinese = Uint8Array.of(0xb5, 0xd8, 0xc7, 0xf8, 0x2c, 0xcf, 0xfa, 0xca, 0xdb, 0xb6, 0xee);
    expect(decode(chinese)).toEqual({ text: '地区,销售额', encoding: 'GB18030' });
    const western = Uint8Array.from('Müller,Café', (character) => character.charCodeAt(0));
    expect(decode(western)).toEqual({ text: 'Müller,Café', encoding: 'Windows-1252' });
  });
  test('what has zero bytes is none', () => {
    expect(decode(Uint8Array.of(0x50, 0x4b, 3, 4, 0, 0))).toBeNull();
  });
});

describe('types of columns', () => {
  test.each([
    [['1', '-20', ''], 'integer'],
    [['1', '2.5', '1e3', 'NaN'], 'number'],
    [['007', '042'], 'text'],
    [['true', 'False'], 'boolean'],
    [['2026-01-05', '2026-01-05 10:00:00'], 'date'],
    [['12', 'n.a.'], 'mixed'],
    [['', 'NA'], 'empty'],
  ])('%j: %s', (texts, type) => expect(typeOfTexts(texts)).toBe(type));
});

describe('separated values', () => {
  const read = (text: string, options = {}) => readDelimited(text, options)?.table;
  test('with quotes, line ends of all kinds, and other separators', () => {
    expect(read('a;b\n1;"x;""y"""\n2;\n')).toMatchObject({
      rows: [
        [1, 'x;"y"'],
        [2, null],
      ],
      totalRows: 2,
    });
    expect(read('a,b\r\n1,"two\r\nlines"\r\n\r\n3,4')).toMatchObject({
      rows: [
        [1, 'two\r\nlines'],
        [3, 4],
      ],
      totalRows: 2,
    });
    expect(read('a\tb\r1\t2\r')?.rows).toEqual([[1, 2]]);
    expect(read('just text\nmore')).toBeUndefined();
    expect(read('name\nx\ny\n', { isTable: true })).toMatchObject({ rows: [['x'], ['y']], totalRows: 2 });
  });
  test('the separator is the one that all rows have', () => {
    expect(read('last, first;n\nSmith, A;1\nLee;2\n')?.columns.map((column) => column.name)).toEqual([
      'last, first',
      'n',
    ]);
  });
  test('a row with more values than the header has is pointed to', () => {
    expect(readDelimited('a,b\n1,2\n3,4,5\n')?.ragged).toEqual({ row: 3, values: 3, columns: 2 });
    expect(readDelimited('a,b\n1\n')?.ragged).toBeNull();
  });
  test('a number that would look otherwise stays as it is written', () => {
    expect(read('a,b,c\n007,12345678901234567890,0.000000001\n')?.rows).toEqual([
      ['007', '12345678901234567890', '0.000000001'],
    ]);
  });
  test('of a part of a file, rows are reckoned, and the last one, which is cut, is left out', () => {
    const text = `a,b\n${'1,2\n'.repeat(999)}3,"cu`;
    const table = read(text, { share: 0.01 });
    expect(table?.isEstimate).toBe(true);
    expect(table?.totalRows).toBeGreaterThan(98_000);
    expect(table?.totalRows).toBeLessThan(102_000);
    expect(rowCount({ ...table!, totalRows: 99_876 })).toBe('about 99,900');
  });
  test('of a million columns, a hundred are shown', () => {
    const table = read(`${'x,'.repeat(1e6)}\n${'1,'.repeat(1e6)}\n`);
    expect([table?.columns.length, table?.totalColumns]).toEqual([100, 1_000_001]);
  });
});

describe('JSON', () => {
  const table = (text: string, share = 1) => {
    const read = readJson(text, share);
    return read.kind === 'table' ? read.table : read.kind;
  };
  test('records, lists, columns and lines are tables', () => {
    const expected = {
      columns: [
        { name: 'a', type: 'integer' },
        { name: 'b', type: 'text' },
      ],
      rows: [
        [1, 'x'],
        [2, null],
      ],
      totalRows: 2,
    };
    expect(table('[{"a": 1, "b": "x"}, {"a": 2}]')).toMatchObject(expected);
    expect(table('{"a": [1, 2], "b": ["x", null]}')).toMatchObject(expected);
    expect(table('{"a": {"0": 1, "1": 2}, "b": {"0": "x", "1": null}}')).toMatchObject(expected);
    expect(table('{"a": 1, "b": "x"}\n{"a": 2}\n')).toMatchObject(expected);
    expect(table('[[1, "x"], [2, null]]')).toMatchObject({ ...expected, columns: [{ name: '0' }, { name: '1' }] });
    expect(table('[{"a": {"b": [1]}}]')).toMatchObject({ rows: [['{"b":[1]}']] });
  });
  test('what is none says so', () => {
    expect(table('{"a": 1}')).toBe('other');
    expect(table('{"a": ')).toBe('invalid');
    expect(table('[{"__proto__": {"x": 1}, "constructor": 2}]')).toMatchObject({ rows: [['{"x":1}', 2]] });
    expect(table('['.repeat(200_000) + ']'.repeat(200_000))).toBe('other');
  });
  test('of a part of a file, whole elements are read', () => {
    const text = `[${'{"a": "x, ]}\\"", "b": 2},'.repeat(1000)}{"a": "cu`;
    const read = table(text, 0.1);
    expect(read).toMatchObject({ isEstimate: true, rows: expect.arrayContaining([['x, ]}"', 2]]) });
    if (typeof read === 'string') throw new Error(read);
    expect(read.totalRows).toBeGreaterThan(9_900);
    expect(read.totalRows).toBeLessThan(10_100);
    const lines = table('{"a": 1}\n'.repeat(100) + '{"a', 0.5);
    expect(lines).toMatchObject({ isEstimate: true, totalRows: 200 });
  });
});

describe('files', () => {
  test('by their endings, with what their readers should know', async () => {
    expect(tableOf(await previewOf('a.csv', file('a,b\n1,2\n')))).toMatchObject({ totalRows: 1, totalColumns: 2 });
    expect(await previewOf('a.json', file('{"a": '))).toEqual({
      kind: 'text',
      text: '{"a": ',
      notes: [{ kind: 'not_json' }],
    });
    expect(await previewOf('a.csv', file(Uint8Array.from([0x61, 0x2c, 0xe9, 0x0a, 0x31, 0x2c, 0x32])))).toMatchObject({
      kind: 'table',
      notes: [{ kind: 'encoding', encoding: 'Windows-1252' }],
    });
    expect(await previewOf('a.csv', file())).toEqual({ kind: 'none', why: 'empty' });
    expect(await previewOf('a.bin', file(new Uint8Array(8)))).toEqual({ kind: 'none', why: 'binary' });
    expect(await previewOf('a.xlsx', file('PK'))).toMatchObject({ kind: 'in_session' });
  });
  test('only the first part of a large one is read', async () => {
    const large = file(`a,b\n${'1,2\n'.repeat(1_000_000)}`);
    const slice = vi.spyOn(large, 'slice');
    const table = tableOf(await previewOf('a.csv', large));
    expect(slice).toHaveBeenCalledWith(0, 1_000_000);
    expect(table.totalRows).toBeGreaterThan(990_000);
    expect(table.totalRows).toBeLessThan(1_010_000);
  });
  test('what is hostile in one is text, and its controls start no run', async () => {
    const preview = await previewOf(
      'a.csv',
      file('<img src=x onerror=alert(1)>,\u202eb\n<script>1</script>,\x1b[2J2\n'),
    );
    const { container, getAllByRole } = render(FilePreview, { preview, name: 'a.csv', onRead() {} });
    expect(container.querySelectorAll('img, script')).toHaveLength(0);
    expect(container.textContent).toContain('<script>1</script>');
    expect(container.textContent).toContain('\\u{202e}b');
    expect(container.textContent).not.toMatch(/[\u202e\x1b]/);
    expect(getAllByRole('columnheader')[0]?.textContent).toMatch(/text$/);
    for (const button of container.querySelectorAll('button')) expect(button.type).toBe('button');
  });
});

describe('a format that a session reads', () => {
  const table = { columns: [{ name: 'n', dtype: 'int64' }], index: [0], rows: [[1]], total_rows: 1, total_columns: 1 };
  const display = { parts: [{ mime: 'application/vnd.belljar.table+json', text: JSON.stringify(table) }] };
  const outcome = (of: object) => ({ status: 'success', displays: [display], stdout: { text: '4217\n' }, ...of });
  const show = async (answer: Partial<Outcome> | object) => {
    cleanup();
    account.me = { scopes: ['runs', 'sessions'] } as unknown as Me;
    run.mockResolvedValueOnce(outcome(answer));
    const onRead = vi.fn<(preview: Preview) => void>();
    const preview = await previewOf("'); evil('.parquet", file('PAR1'));
    const { getByRole } = render(FilePreview, { preview, name: 'x', onRead });
    await fireEvent.click(getByRole('button', { name: 'Show a preview' }));
    await vi.waitFor(() => expect(onRead).toHaveBeenCalled());
    const [[read] = []] = onRead.mock.calls;
    if (!read) throw new Error('nothing was read');
    return read;
  };
  test('is read there when asked for, under a name of ours, and the session ends', async () => {
    expect(tableOf(await show({}))).toMatchObject({
      columns: [{ name: 'n', type: 'integer' }],
      index: null,
      totalRows: 4217,
    });
    expect(upload).toHaveBeenLastCalledWith('s-1', 'data.parquet', expect.any(Blob));
    expect(JSON.stringify(run.mock.lastCall)).not.toContain('evil');
    expect(end).toHaveBeenLastCalledWith('s-1');
  });
  test('and says why it cannot be', async () => {
    const exception = { type: 'ArrowInvalid', value: 'not a\n\u202eParquet file', traceback: '' };
    const read = await show({ status: 'failure', exception, displays: [] });
    expect(read).toEqual({ kind: 'none', why: 'unreadable', detail: 'ArrowInvalid: not a \\u{202e}Parquet file' });
    expect(tableOf(await show({ stdout: { text: 'nonsense' } })).totalRows).toBe(1);
  });
  test('is not offered to a key that cannot have sessions', async () => {
    account.me = { scopes: ['runs'] } as unknown as Me;
    const preview = await previewOf('a.xlsx', file('PK'));
    const { container } = render(FilePreview, { preview, name: 'a.xlsx', onRead() {} });
    expect(container.querySelector('button')).toBeNull();
    expect(container.textContent).toContain('lacks scope `sessions`');
  });
});
