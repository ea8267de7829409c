// The notebook of a session: its order, what it shows of each cell, and how two pages change it.
import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Notebook, Outcome } from '../src/api/types';
import {
  added,
  arrange,
  type Change,
  edited,
  EMPTY,
  type Entry,
  missing,
  outdated,
  ran,
  removed,
  withAll,
} from '../src/notebook/document';
import { notebookOf, readNotebook } from '../src/notebook/ipynb';
import { LiveNotebook } from '../src/notebook/notebook.svelte';
import { emptyLive } from '../src/run/model';
import type { Execution } from '../src/session.svelte';
import { stepsOf } from './fixtures';

const outcomeOf = (cell: number): Outcome => {
  const outcome = stepsOf('region').steps[0]?.calls[0]?.outcome;
  if (!outcome) throw new Error('no outcome');
  return { ...outcome, cell };
};
const executed = (
  cell: number | null,
  code: string | null = `code ${cell}`,
  entry: string | null = null,
): Execution => ({
  key: cell ?? 1000,
  entry,
  cell,
  code,
  state: 'done',
  live: emptyLive(),
  outcome: cell === null ? null : outcomeOf(cell),
  question: null,
});
const code = (id: string, source: string, cell?: number) => ({
  id,
  kind: 'code' as const,
  source,
  ...(cell ? { cell } : {}),
});
const text = (id: string, source: string) => ({ id, kind: 'markdown' as const, source });
const shown = (notebook: Notebook, executions: Execution[]) =>
  arrange(notebook, executions).map((one) => [one.id, one.source, one.cell, one.execution?.cell ?? null]);

describe('what a notebook shows', () => {
  test('without one, the cells that ran', () => {
    expect(shown(EMPTY, [executed(1), executed(2)])).toEqual([
      ['cell-1', 'code 1', 1, 1],
      ['cell-2', 'code 2', 2, 2],
    ]);
  });
  test('a cell that ran again has its new output in its old place', () => {
    const executions = [executed(1), executed(2), executed(3, 'other', 'cell-1')];
    const now = ran('cell-1', 3)(edited('cell-1', 'other')(withAll(EMPTY, executions)));
    expect(now.hidden).toEqual([1]);
    expect(shown(now, executions)).toEqual([
      ['cell-1', 'other', 3, 3],
      ['cell-2', 'code 2', 2, 2],
    ]);
    expect([...outdated(arrange(now, executions))]).toEqual([['cell-2', { cell: 3, name: null }]]);
    // What comes from elsewhere comes after it.
    expect(shown(now, [...executions, executed(4)]).at(-1)).toEqual(['cell-4', 'code 4', 4, 4]);
  });
  test('one that is about to run again is shown as that, with the number that it had', () => {
    const executions = [executed(1), executed(null, 'x', 'cell-1')];
    const [first, ...rest] = arrange(withAll(EMPTY, [executed(1)]), executions);
    expect([first?.cell, first?.execution?.cell, rest.length]).toEqual([1, null, 0]);
  });
  test('a removed cell stays in the history alone', () => {
    const executions = [executed(1), executed(2)];
    const now = removed('cell-1')(withAll(EMPTY, executions));
    expect(shown(now, executions).map(([id]) => id)).toEqual(['cell-2']);
    // Another page runs it again meanwhile: then it is a cell of its own.
    const later = [...executions, executed(3, 'again', 'cell-1')];
    expect(shown(ran('cell-1', 3)(now), later).at(-1)).toEqual(['cell-3', 'again', 3, 3]);
  });
  test('cells go between others, once', () => {
    const insert = added([text('t', '# T'), code('c', '')], 'cell-1');
    const now = insert(withAll(EMPTY, [executed(1), executed(2)]));
    expect(insert(now).cells.map((one) => one.id)).toEqual(['cell-1', 't', 'c', 'cell-2']);
    expect(added([code('end', 'x')], 'nobody')(now).cells.at(-1)?.id).toBe('end');
    expect(outdated(arrange(now, [])).size).toBe(0);
  });
  test('after a restart the code is there without its output', () => {
    const notebook = { ...EMPTY, cells: [code('a', 'x', 2)], hidden: [1] };
    expect(shown(notebook, [])).toEqual([['a', 'x', 2, null]]);
    expect(missing(notebook, [])).toBe(0);
    expect(missing(notebook, [executed(5)])).toBe(2);
    expect(missing(EMPTY, [executed(5)])).toBe(4);
    expect(missing(EMPTY, [])).toBe(0);
  });
});

describe('a cell is outdated', () => {
  /** The cells from the top: `3: rate -> price` is the third execution, which reads `rate` and writes `price`. */
  const marks = (...cells: string[]) => {
    const entries = cells.map((cell, at): Entry => {
      const [number, names = ''] = cell.split(':');
      const [reads, writes] = names.split('->').map((part) => part.trim().split(' ').filter(Boolean));
      const execution = { ...executed(Number(number)), ...(names && { reads, writes }) };
      return { id: 'abcdef'[at] ?? '', kind: 'code', source: '', cell: execution.cell, execution };
    });
    return [...outdated(entries)].map(([id, { cell, name }]) => `${id} by ${name} of ${cell}`);
  };
  test('if a cell above it has since written a name that it reads', () => {
    expect(marks('1: -> rate', '2: rate -> price', '3: price ->')).toEqual([]);
    expect(marks('4: -> rate', '2: rate -> price', '3: other ->')).toEqual(['b by rate of 4']);
    expect(marks('4: -> other', '2: rate -> price', '3: price ->')).toEqual([]);
  });
  test('if what it reads comes from an outdated cell', () => {
    expect(marks('4: -> rate', '2: rate -> price', '3: price ->')).toEqual(['b by rate of 4', 'c by rate of 4']);
    expect(marks('4: -> rate', '2: rate -> price', '5: -> price', '6: price ->')).toEqual(['b by rate of 4']);
  });
  test('if a cell below it had written the name before', () => {
    expect(marks('1: -> df', '3: df ->', '2: df -> df')).toEqual(['b by df of 2']);
    expect(marks('1: -> df', '2: df ->', '3: df -> df')).toEqual([]);
  });
  test('by the numbers alone, where code does not say its names', () => {
    expect(marks('4: -> rate', '2', '3: other ->')).toEqual(['b by null of 4']);
    expect(marks('4', '2: rate ->', '5: rate ->')).toEqual(['b by null of 4']);
  });
});

describe('two pages', () => {
  /** A service with one notebook. */
  function service(stored: Notebook = EMPTY) {
    const told = { notebook: stored, status: 0, puts: 0 };
    vi.stubGlobal('fetch', async (_url: string, init: RequestInit) => {
      if (init.method !== 'PUT') return Response.json(told.notebook);
      told.puts += 1;
      if (told.status) {
        const problem = { code: 'body_too_large', detail: 'too large', retry: false };
        return Response.json(problem, { status: told.status });
      }
      const sent = JSON.parse(String(init.body)) as Notebook;
      if (sent.revision !== told.notebook.revision) {
        return Response.json({ code: 'notebook_changed', detail: '', retry: false }, { status: 409 });
      }
      told.notebook = { ...sent, revision: sent.revision + 1 };
      return Response.json({ revision: told.notebook.revision });
    });
    return told;
  }
  const ids = (notebook: Notebook) => notebook.cells.map((one) => one.id);
  const change = async (notebook: LiveNotebook, ...changes: Change[]) => {
    for (const one of changes) notebook.change(one);
    await notebook.save();
  };

  beforeEach(() => vi.unstubAllGlobals());

  test('change the same notebook one after another', async () => {
    const told = service();
    const executions = [executed(1), executed(2)];
    const [one, other] = [new LiveNotebook('s', () => executions), new LiveNotebook('s', () => executions)];
    await change(one, added([text('t', 'T')], 'cell-1'));
    // It has not read that.
    await change(other, removed('cell-2'), added([code('new', 'x')]));
    expect(ids(told.notebook)).toEqual(['cell-1', 't', 'new']);
    expect(told.notebook.revision).toBe(2);
    expect(other.document).toEqual(told.notebook);
    await one.follow(2);
    expect(ids(one.document)).toEqual(['cell-1', 't', 'new']);
    await change(one);
    expect(told.puts).toBe(3);
  });
  test('a cell that one page runs is not twice in it', async () => {
    const told = service();
    const [mine, theirs] = [
      [executed(1), executed(2, 'again', 'cell-1')],
      [executed(1), executed(2, 'again')],
    ];
    const [one, other] = [new LiveNotebook('s', () => mine), new LiveNotebook('s', () => theirs)];
    await change(other, added([text('t', 'T')]));
    expect(ids(told.notebook)).toEqual(['cell-1', 'cell-2', 't']);
    await change(one, edited('cell-1', 'again'), ran('cell-1', 2));
    expect(told.notebook.cells.map((cell) => [cell.id, cell.cell ?? null])).toEqual([
      ['cell-1', 2],
      ['t', null],
    ]);
    expect(told.notebook.hidden).toEqual([1]);
  });
  test('what the service refuses is not shown either', async () => {
    const told = service({ revision: 4, cells: [code('a', 'x')], hidden: [] });
    const notebook = new LiveNotebook('s', () => []);
    await notebook.load();
    told.status = 413;
    notebook.change(added([code('b', 'y')]));
    await expect(notebook.save()).rejects.toThrow('too large');
    expect(ids(notebook.document)).toEqual(['a']);
    told.status = 0;
    await change(notebook, added([code('c', 'z')]));
    expect(ids(told.notebook)).toEqual(['a', 'c']);
  });
  test('what could not be sent is sent with the next change', async () => {
    const told = service();
    const notebook = new LiveNotebook('s', () => []);
    const connected = globalThis.fetch;
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('no network')));
    notebook.change(added([code('a', 'x')]));
    await expect(notebook.save()).rejects.toThrow();
    expect(ids(notebook.document)).toEqual(['a']);
    vi.stubGlobal('fetch', connected);
    await notebook.save();
    expect(ids(told.notebook)).toEqual(['a']);
  });
});

describe('files', () => {
  test('a file has what the notebook shows', () => {
    const executions = [executed(1), executed(2, null), executed(3, 'again', 'cell-1')];
    const notebook = ran('cell-1', 3)(edited('cell-1', 'again')(withAll(EMPTY, executions)));
    const made = JSON.parse(
      notebookOf(arrange(added([text('t', '# T'), code('n', 'later')])(notebook), executions)),
    ) as { cells: Record<string, unknown>[]; nbformat: number };
    expect(made.nbformat).toBe(4);
    expect(made.cells.map((one) => [one['cell_type'], one['source'], one['execution_count']])).toEqual([
      ['code', 'again', 3],
      ['markdown', '# T', undefined],
      ['code', 'later', null],
    ]);
    expect(made.cells[0]?.['outputs']).toHaveLength(2);
    expect(made.cells[1]).not.toHaveProperty('outputs');
    expect(made.cells[2]?.['outputs']).toEqual([]);
    // And it can be read again, without its outputs.
    expect(readNotebook(JSON.stringify(made))).toEqual({
      cells: [
        { kind: 'code', source: 'again' },
        { kind: 'markdown', source: '# T' },
        { kind: 'code', source: 'later' },
      ],
      outputs: 2,
      others: 0,
    });
  });
  test('hostile files', () => {
    const file = (cells: unknown, nbformat: unknown = 4) => readNotebook(JSON.stringify({ nbformat, cells }));
    expect(readNotebook('{"cells": [')).toEqual({ problem: 'not_json' });
    expect(readNotebook('['.repeat(1_000_000))).toEqual({ problem: 'not_json' });
    for (const none of ['null', '[]', '7', '{}', '{"nbformat": "4", "cells": []}', '{"nbformat": 4, "cells": {}}']) {
      expect(readNotebook(none)).toEqual({ problem: 'not_notebook' });
    }
    expect(readNotebook('{"nbformat": 3, "worksheets": []}')).toEqual({ problem: 'format', format: 3 });
    expect(file([], 5)).toEqual({ problem: 'format', format: 5 });
    expect(file(Array(1001).fill({}))).toEqual({ problem: 'long' });
    const cells = [
      null,
      'x',
      { cell_type: 'raw', source: 'x' },
      { cell_type: 'code', source: 7 },
      { cell_type: 'code', source: ['x', 7] },
      { cell_type: 'code', source: ['a\n', 'b'], outputs: [{ data: { 'text/html': '<script>x</script>' } }] },
      { cell_type: 'code', source: '  \n' },
      { cell_type: 'markdown', source: '<img src=x onerror=alert(1)>', outputs: 'x' },
    ];
    expect(file(cells)).toEqual({
      cells: [
        { kind: 'code', source: 'a\nb' },
        { kind: 'markdown', source: '<img src=x onerror=alert(1)>' },
      ],
      outputs: 1,
      others: 5,
    });
  });
});
