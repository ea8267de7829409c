// The library of runs, share links and conversations: what of them is computed, and what is shown.
import { fireEvent, render, waitFor } from '@testing-library/svelte';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { Turn } from '../src/api/types';
import CopyButton from '../src/components/CopyButton.svelte';
import ShareDialog from '../src/components/ShareDialog.svelte';
import StepView from '../src/components/StepView.svelte';
import Turns from '../src/components/Turns.svelte';
import { bell } from '../src/notify.svelte';
import { readRoute } from '../src/router.svelte';
import { toldSteps } from '../src/run/fold';
import { emptyRun } from '../src/run/model';
import { shownState, titleWord } from '../src/run/state';
import { separatedText, type Table } from '../src/text/table';
import { readTags } from '../src/text/tags';
import { stepsOf } from './fixtures';

afterEach(() => vi.unstubAllGlobals());

const answerWith = (answers: Record<string, unknown>) => {
  const asked: string[] = [];
  vi.stubGlobal('fetch', async (url: string, { method, body }: RequestInit) => {
    asked.push(`${method} ${new URL(url).pathname} ${body ?? ''}`.trim());
    const answer = answers[`${method} ${new URL(url).pathname}`];
    return answer === undefined ? new Response(null, { status: 204 }) : Response.json(answer);
  });
  return asked;
};

test('the addresses of the library and of a share link', () => {
  expect(readRoute('#/runs')).toEqual({ page: 'library' });
  expect(readRoute('#/shared/bjs_1_2')).toEqual({ page: 'shared', token: 'bjs_1_2' });
  expect(readRoute('#/shared')).toEqual({ page: 'unknown' });
});

test('tags are typed with commas between', () => {
  expect(readTags(' sales, 2026,,sales，北京 ')).toEqual(['sales', '2026', '北京']);
  expect(readTags('  ')).toEqual([]);
});

describe('the title of the page says the state', () => {
  const of = (run: object, view: object | null = null) =>
    shownState({ run: { ...emptyRun(), ...run }, view, connection: 'open' } as Parameters<typeof shownState>[0]);
  const start = { task: 't' };
  test.each([
    [{}, null, 'loading', null],
    [{ start }, null, 'running', 'title.running'],
    [{ start, waitsFor: [{}] }, null, 'waits', 'title.waits'],
    [{ start }, { state: 'interrupted' }, 'interrupted', null],
    [{ start, ending: { reason: { kind: 'answered' } } }, null, 'answered', 'title.done'],
    [{ start, ending: { reason: { kind: 'stopped' } } }, null, 'ended', 'title.ended'],
  ])('%j', (run, view, state, word) => {
    expect(of(run, view)).toBe(state);
    expect(titleWord(of(run, view))).toBe(word);
  });
});

describe('copying', () => {
  const table: Table = {
    columns: [
      { name: 'name', dtype: '' },
      { name: 'n', dtype: '' },
    ],
    index: [0, 1],
    rows: [
      ['=HYPERLINK("http://evil.example")', -5],
      ['a\t"b"\nc', null],
    ],
    totalRows: 2,
    totalColumns: 2,
  };
  test('a table, in the order that is shown, and no text of it is a formula', () => {
    expect(separatedText(table, [1, 0], 'index')).toBe(
      'index\tname\tn\n1\t"a\t""b""\nc"\t\n0\t"\'=HYPERLINK(""http://evil.example"")"\t-5',
    );
    expect(separatedText({ ...table, index: null, rows: [['-x', 1]] }, [0], 'index')).toBe("name\tn\n'-x\t1");
  });
  test('a button says that it has copied', async () => {
    const writeText = vi.fn(async () => {});
    vi.stubGlobal('navigator', { ...navigator, language: 'en', clipboard: { writeText } });
    const { getByRole } = render(CopyButton, { label: 'Copy the code', text: () => 'print(42)' });
    await fireEvent.click(getByRole('button', { name: 'Copy the code' }));
    await waitFor(() => expect(getByRole('status').textContent).toBe('Copied'));
    expect(writeText).toHaveBeenCalledWith('print(42)');
  });
});

test('steps without events are as with them', () => {
  const steps = toldSteps(stepsOf('region').steps);
  expect(steps.map((step) => step.number)).toEqual(stepsOf('region').steps.map((step) => step.number));
  expect(steps.every((step) => step.state === 'replied')).toBe(true);
  expect(steps.flatMap((step) => step.calls).some((call) => call.outcome && call.state === 'ended')).toBe(true);
});

test('a step says what it cost, where the price is known', () => {
  const [step] = toldSteps(stepsOf('region').steps);
  if (!step) throw new Error('no step');
  const props = { dialect: undefined, isLast: true, isOver: true, isAnswered: false, line: null, onNear() {} };
  const shown = (cost: number | null) =>
    render(StepView, { ...props, onBranch: null, step: { ...step, tokens: 1234, cost } }).container.textContent;
  expect(shown(0.0021)).toMatch(/1,234 tokens\s+· cost 0\.0021/);
  expect(shown(null)).not.toContain('cost');
});

test('the turns of a conversation: the one beside the run is open, older ones are folded', async () => {
  const turn = (id: string, answer: string | null): Turn =>
    ({ id, task: `Task ${id}`, state: 'answered', model: 'm', created_at: 1, tags: [], answer }) as Turn;
  const turns = [turn('one', 'It is **41**.'), turn('two', null)];
  const { container, getAllByRole, rerender } = render(Turns, { turns, side: 'earlier' });
  const details = [...container.querySelectorAll('details')];
  expect(details.map((one) => one.open)).toEqual([false, true]);
  expect(details[0]?.textContent).toContain('It is 41.');
  expect(details[1]?.textContent).toContain('No answer.');
  expect(getAllByRole('link').map((link) => link.getAttribute('href'))).toContain('#/runs/two');
  // What a reader opens stays open when the turns are loaded again.
  for (const one of details) one.open = !one.open;
  await rerender({ turns: [turn('one', 'It is 42.'), turn('two', null)] });
  expect(details[0]?.textContent).toContain('It is 42.');
  expect(details.map((one) => one.open)).toEqual([true, false]);
});

test('a share link is made, shown once and revoked', async () => {
  HTMLDialogElement.prototype.showModal ??= function (this: HTMLDialogElement) {
    this.open = true;
  };
  const share = { id: 'ab', created_at: 1, key: 'k', step: 2 };
  const asked = answerWith({
    'GET /v1/runs/r/shares': { shares: [share] },
    'POST /v1/runs/r/shares': { ...share, token: 'bjs_ab_cd' },
  });
  const { findByRole, getByLabelText, queryByLabelText } = render(ShareDialog, { id: 'r', steps: [1, 2], open: true });
  await findByRole('button', { name: 'Revoke' });
  await fireEvent.change(getByLabelText('What the link shows'), { target: { value: 'step 2' } });
  await fireEvent.click(await findByRole('button', { name: 'Create link' }));
  await waitFor(() =>
    expect((getByLabelText('Share link') as HTMLInputElement).value).toMatch(/\/#\/shared\/bjs_ab_cd$/),
  );
  expect(asked).toContain('POST /v1/runs/r/shares {"step":2}');
  await fireEvent.click(await findByRole('button', { name: 'Revoke' }));
  await waitFor(() => expect(queryByLabelText('Share link')).toBeNull());
  expect(asked).toContain('DELETE /v1/runs/r/shares/ab');
});

test('nobody is asked to permit notifications who has not turned them on', async () => {
  const told: string[] = [];
  const requestPermission = vi.fn(async () => 'granted');
  class Told {
    static permission = 'default';
    static requestPermission = requestPermission;
    constructor(title: string, { body }: NotificationOptions) {
      told.push(`${title}: ${body}`);
    }
  }
  vi.stubGlobal('Notification', Told);
  vi.spyOn(document, 'hasFocus').mockReturnValue(false);
  bell.say('r', 'waits', 'Sales');
  expect([told.length, requestPermission.mock.calls.length]).toEqual([0, 0]);
  expect(await bell.turn(true)).toBe(true);
  bell.say('r', 'running', 'Sales');
  bell.say('r', 'waits', 'Sales');
  bell.say('r', 'answered', 'Sales');
  expect(told).toEqual(['Waiting · Belljar: Sales', 'Done · Belljar: Sales']);
  // Who looks at the page needs none.
  vi.spyOn(document, 'hasFocus').mockReturnValue(true);
  bell.say('r', 'answered', 'Sales');
  await bell.turn(false);
  vi.spyOn(document, 'hasFocus').mockReturnValue(false);
  bell.say('r', 'answered', 'Sales');
  expect(told).toHaveLength(2);
});
