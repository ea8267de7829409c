import { render, within } from '@testing-library/svelte';
import { describe, expect, test, vi } from 'vitest';
import { createRawSnippet, tick } from 'svelte';
import AnswerCard from '../src/components/AnswerCard.svelte';
import ApprovalCard from '../src/components/ApprovalCard.svelte';
import FileList from '../src/components/FileList.svelte';
import Frame from '../src/components/Frame.svelte';
import Markdown from '../src/components/Markdown.svelte';
import Names from '../src/components/Names.svelte';
import OutcomeView from '../src/components/OutcomeView.svelte';
import RailPart from '../src/components/RailPart.svelte';
import QuestionForm from '../src/components/QuestionForm.svelte';
import TableView from '../src/components/TableView.svelte';
import ToolView from '../src/components/ToolView.svelte';
import UseLine from '../src/components/UseLine.svelte';
import type { CallResult } from '../src/api/types';
import type { Call } from '../src/run/model';
import { readTable } from '../src/text/table';
import { stepsOf } from './fixtures';

describe('E7: what a program shows as HTML or SVG', () => {
  const attack = '<script>top.x=1</script><select><iframe></select><img src=x onerror=alert(1)>';
  test('stands in a frame without any right, with a policy of its own first', () => {
    const { container } = render(Frame, { html: attack });
    const frame = container.querySelector('iframe');
    expect(frame?.getAttribute('sandbox')).toBe('');
    const page = frame?.getAttribute('srcdoc') ?? '';
    expect(page.indexOf("default-src 'none'")).toBeLessThan(page.indexOf('<script>'));
    expect(page).not.toContain('allow-');
    expect(container.querySelectorAll('script, img')).toHaveLength(0);
  });
  test('a drawing is an image inside of the frame', () => {
    const { container } = render(Frame, { svg: '<svg onload="top.x=1"/>' });
    const page = container.querySelector('iframe')?.getAttribute('srcdoc') ?? '';
    expect(page).not.toContain('onload');
    expect(page).toContain('data:image/svg+xml;base64,');
  });
});

describe('formulas', () => {
  const drawn = async (text: string) => {
    const { container } = render(Markdown, { text });
    await vi.waitFor(() => expect(container.querySelector('math, code')).not.toBeNull());
    await import('../src/text/formula');
    await new Promise((resolve) => setTimeout(resolve));
    return container;
  };
  test('are drawn as MathML', async () => {
    const container = await drawn('The mean is $\\frac{a}{b}$.');
    expect(container.querySelector('math mfrac')).not.toBeNull();
    expect(container.textContent).toBe('The mean is ab.');
  });
  test('that cannot be read stay as they were written', async () => {
    const container = await drawn('So $\\frac{a$ is wrong.');
    expect(container.querySelector('math')).toBeNull();
    expect(container.querySelector('code')?.textContent).toBe('\\frac{a');
  });
  test('E8: load and run nothing', async () => {
    const attacks = [
      '\\href{javascript:alert(1)}{x}',
      '\\url{https://evil/}',
      '\\includegraphics{https://evil/a.png}',
      '\\style{background: url(https://evil/)}{x}',
      '\\class{button}{x}',
      '\\id{root}{x}',
      '\\data{a=b}{x}',
      '\\text{<img src=x onerror=alert(1)>}',
      '\\def\\a{\\a\\a}\\a',
      '\\color{red;background:url(https://evil/)}{x}',
      '\\rule{9999em}{9999em}',
      `${'{'.repeat(900)}x${'}'.repeat(900)}`,
      `x^${'2'.repeat(3000)}`,
    ];
    for (const attack of attacks) {
      const container = await drawn(`\\(${attack}\\) $$${attack}$$`);
      expect(
        container.querySelectorAll('a, img, script, iframe, [href], [src], [onerror], .button, #root'),
      ).toHaveLength(0);
      for (const element of container.querySelectorAll('[style]')) {
        expect(element.getAttribute('style')).not.toMatch(/url|position|9999/);
      }
    }
  });
});

test('a restored cell says its cause and the fate of the state', () => {
  const outcome = stepsOf('crash').steps[1]?.calls[0]?.outcome;
  if (!outcome) throw new Error('no outcome');
  const { container } = render(OutcomeView, { outcome });
  expect(container.textContent).toContain('killed by SIGSEGV');
  expect(container.textContent).toContain('checkpoint after cell 1');
});

test('a cell says which isolation it had, if not the usual one', () => {
  const outcome = structuredClone(stepsOf('region').steps[0]?.calls[0]?.outcome);
  if (!outcome) throw new Error('no outcome');
  expect(render(OutcomeView, { outcome }).container.textContent).not.toContain('container');
  outcome.walls = 'container';
  expect(render(OutcomeView, { outcome }).container.textContent).toContain('Ran in a container');
  outcome.walls = 'none';
  expect(render(OutcomeView, { outcome }).container.textContent).toContain('Ran without isolation');
});

test('ten thousand displays are not all drawn', () => {
  const outcome = structuredClone(stepsOf('region').steps[0]?.calls[0]?.outcome);
  if (!outcome) throw new Error('no outcome');
  outcome.displays = Array.from({ length: 10_000 }, () => ({ parts: [{ mime: 'text/html', text: '<b>x</b>' }] }));
  const { container } = render(OutcomeView, { outcome });
  expect(container.querySelectorAll('iframe').length).toBe(30);
  expect(container.textContent).toContain('9970 more');
});

// It stays a plain field here.
vi.mock('../src/components/editor', () => new Promise(() => {}));

describe('L5: an approval', () => {
  const finding = { line: 1, capability: 'network' as const, what: "urlopen('\\u{202e}')" };
  const row = (line: number | undefined, ...parts: { text: string; odd?: boolean }[]) => ({
    ...(line ? { line } : {}),
    parts,
  });
  const shown = {
    findings: [finding],
    remarks: ['1 bidirectional control'],
    rows: [
      row(1, { text: 'x = "' }, { text: '\\u{202e}', odd: true }, { text: 'evil"' }),
      row(2, { text: '⟨40 empty lines⟩', odd: true }),
      row(42, { text: 'print(1)' }),
      row(undefined, { text: '+ 2' }),
    ],
  };
  // What is not in `shown` is not shown, whatever else it says.
  const risk = { findings: [{ ...finding, what: 'UNSEEN\u202e' }], imports: [] };
  const subject = { kind: 'cell' as const, code: 'UNSEEN\u202e', risk };
  const approval = { id: '1.0', step: 1, call: 0, hash: 'abc', subject, shown };
  const asks = (answer: () => Response) => {
    const asked: [string, RequestInit][] = [];
    vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
      asked.push([url, init]);
      return Promise.resolve(answer());
    });
    return asked;
  };
  const rowsOf = (container: HTMLElement) =>
    [...container.querySelectorAll<HTMLElement>('[data-line]')].map((one) => [one.dataset['line'], one.textContent]);

  test('shows what the service says and nothing else, and decides for its bytes', async () => {
    const asked = asks(() => new Response(null, { status: 204 }));
    const { container } = render(ApprovalCard, { run: 'r', approval, onDecided: () => {} });
    expect(rowsOf(container)).toEqual([
      ['1', 'x = "\\u{202e}evil"\n'],
      ['2', '⟨40 empty lines⟩\n'],
      ['42', 'print(1)\n'],
      ['┊', '+ 2\n'],
    ]);
    const odd = [...container.querySelectorAll('.hidden-character')].map((one) => one.textContent);
    expect(odd).toEqual(['\\u{202e}', '⟨40 empty lines⟩']);
    expect(container.querySelector('[role=alert]')?.textContent).toContain('1 bidirectional control');
    expect(container.querySelector('.findings')?.textContent).toContain("urlopen('\\u{202e}')");
    expect(container.textContent).not.toMatch(/UNSEEN|\u202e/);
    within(container).getByText('Run').click();
    await vi.waitFor(() => expect(asked).toHaveLength(1));
    expect(asked[0]?.[0]).toMatch(/v1\/runs\/r\/approvals\/1\.0$/);
    expect(JSON.parse(String(asked[0]?.[1].body))).toEqual({ hash: 'abc', decision: { kind: 'accept' } });
    expect(new Headers(asked[0]?.[1].headers).get('X-Belljar')).toBe('1');
  });

  test('of a call shows its name and arguments as the service says', () => {
    const call = { kind: 'call' as const, number: 1, tool: 'UNSEEN', arguments: { UNSEEN: '\u202e' } };
    const rows = [row(1, { text: '{}' })];
    const { container } = render(ApprovalCard, {
      run: 'r',
      approval: { ...approval, subject: call, shown: { tool: 'm\\u{430}il', findings: [], remarks: [], rows } },
      onDecided: () => {},
    });
    expect(container.textContent).toContain('m\\u{430}il');
    expect(rowsOf(container)).toEqual([['1', '{}\n']]);
    expect(container.textContent).not.toMatch(/UNSEEN|\u202e/);
  });

  test('runs changed code once it was shown', async () => {
    const preview = { shown: { findings: [], remarks: ['1 unusual space'], rows: [row(1, { text: 'y\\u{a0}' })] } };
    const asked = asks(() => Response.json(preview));
    const { container } = render(ApprovalCard, { run: 'r', approval, onDecided: () => {} });
    const { getByText, getByLabelText } = within(container);
    getByText('Edit').click();
    const button = await vi.waitFor(() => getByText<HTMLButtonElement>('Run the edited code'));
    const field = (await vi.waitFor(() => getByLabelText('Edit'))) as HTMLTextAreaElement;
    field.value = 'y\u00a0';
    field.dispatchEvent(new Event('input', { bubbles: true }));
    await vi.waitFor(() => expect(container.textContent).toContain('Checking the edited code'));
    expect(button.disabled).toBe(true);
    await vi.waitFor(() => expect(button.disabled).toBe(false));
    expect(container.querySelector('.added')?.textContent).toContain('y\\u{a0}');
    expect(container.querySelector('[role=alert]')?.textContent).toContain('1 unusual space');
    expect(asked.map(([url]) => url)).toEqual([expect.stringMatching(/approvals\/1\.0\/preview$/)]);
    button.click();
    await vi.waitFor(() => expect(asked).toHaveLength(2));
    expect(JSON.parse(String(asked[1]?.[1].body))).toEqual({
      hash: 'abc',
      decision: { kind: 'edit', code: 'y\u00a0' },
    });
  });
});

describe('a question of a cell', () => {
  const question = { number: 1, prompt: 'Name: ', password: false };
  /** The form, what was answered, and what lets an answer arrive. */
  function ask(more: Partial<typeof question> = {}) {
    const answers: (string | null)[] = [];
    const arrivals: (() => void)[] = [];
    const onAnswer = (text: string | null) => {
      answers.push(text);
      return new Promise<void>((resolve) => arrivals.push(resolve));
    };
    const { container } = render(QuestionForm, { question: { ...question, ...more }, onAnswer });
    const field = container.querySelector('input');
    if (!field) throw new Error('no field');
    const buttons = [...container.querySelectorAll('button')];
    return { container, field, buttons, answers, arrive: () => arrivals.shift()?.() };
  }

  test('is answered once, by a line or by the end of input', async () => {
    const { field, buttons, answers, arrive } = ask();
    expect(document.activeElement).toBe(field);
    field.value = ' Zoë ';
    field.dispatchEvent(new Event('input', { bubbles: true }));
    buttons[0]?.click();
    expect(answers).toEqual([' Zoë ']);
    // Until it has arrived, there is no second one.
    await vi.waitFor(() => expect(buttons.map((one) => one.disabled)).toEqual([true, true]));
    buttons[0]?.click();
    buttons[1]?.click();
    arrive();
    await vi.waitFor(() => expect(buttons.map((one) => one.disabled)).toEqual([false, false]));
    buttons[1]?.click();
    expect(answers).toEqual([' Zoë ', null]);
  });

  test('hides a password, and shows a hostile prompt as text', () => {
    const hostile = ask({ password: true, prompt: '\u001b[2J<b>Key</b>\n\u202e'.padEnd(5000, 'x') });
    expect(hostile.field.type).toBe('password');
    expect(hostile.field.autocomplete).toBe('off');
    const label = hostile.container.querySelector('label')?.textContent?.trim() ?? '';
    expect(label).toMatch(/^<b>Key<\/b> \\u\{202e\}x+…$/);
    expect(label.length).toBe(1000);
    expect(hostile.container.querySelector('b')).toBeNull();
    const empty = ask({ prompt: '' }).container;
    expect(within(empty).getByLabelText('The code waits for a line.')).toBeTruthy();
  });
});

test('values of an answer point to where they were seen', () => {
  const ending = {
    reason: { kind: 'answered' as const },
    answer: 'It is **42**, or 7.',
    evidence: [
      { value: '42', seen: { kind: 'output' as const, step: 1, cell: 1, line: '42', rounded: false } },
      { value: '7' },
    ],
    artifacts: [],
  };
  const { container } = render(AnswerCard, { ending });
  const seen = container.querySelector<HTMLElement>('.seen');
  expect([seen?.textContent, seen?.title]).toEqual(['42', expect.stringContaining('Printed by cell 1')]);
  expect(container.querySelector('.nowhere')?.textContent).toContain('7');
});

test('a derived value shows its code, inputs, files and line, and gives the focus back', async () => {
  const inputs = [{ name: 'df', cell: 1, code: "df = pd.read_csv('sales.csv')" }];
  const derived = { expression: "df['amount'].sum()", inputs, files: ['sales.csv'] };
  const seen = { kind: 'output' as const, step: 2, cell: 2, line: 'total 4980.0', rounded: false };
  const ending = {
    reason: { kind: 'answered' as const },
    answer: 'The total is 4980.0, the mean 12.',
    evidence: [
      { value: '4980.0', seen: { ...seen, derived } },
      { value: '12', seen: { ...seen, line: 'mean 12' } },
    ],
    artifacts: [],
  };
  const { container } = render(AnswerCard, { ending });
  const value = container.querySelector<HTMLElement>('button.derived');
  expect(value?.textContent).toBe('4980.0');
  expect(container.querySelector('span.seen')?.textContent).toBe('12');
  expect(container.textContent).toContain('2 of 2 values have evidence, 1 derived from code');
  value?.click();
  await tick();
  const shown = container.querySelector<HTMLElement>('.derivation');
  for (const text of ["df['amount'].sum()", 'written by cell 1', "pd.read_csv('sales.csv')", 'total 4980.0']) {
    expect(shown?.textContent).toContain(text);
  }
  expect(document.activeElement?.textContent).toBe('How 4980.0 was computed');
  shown?.querySelector('button')?.click();
  await tick();
  expect(container.querySelector('.derivation')).toBeNull();
  expect(document.activeElement).toBe(value);
});

test('an unverified answer says why, and a last output is not an answer', () => {
  const unverified = {
    reason: { kind: 'unverified' as const, doubts: [{ kind: 'unseen' as const, value: '99887' }] },
    answer: 'The revenue is 99887.',
    evidence: [{ value: '99887' }],
    artifacts: [],
  };
  const shown = render(AnswerCard, { ending: unverified }).container;
  expect(shown.querySelector('h2')?.textContent).toBe('Answer (unverified)');
  expect(shown.querySelector('li')?.textContent).toBe('No output shows 99887.');
  const ended = {
    reason: { kind: 'budget' as const, part: 'seconds' as const },
    last_output: 'row 1',
    evidence: [],
    artifacts: [],
  };
  const other = render(AnswerCard, { ending: ended }).container;
  expect(other.querySelector('h2')?.textContent).toBe('Not answered');
  expect(other.textContent).toContain('Last output (not an answer)');
  expect(other.querySelector('pre')?.textContent).toContain('row 1');
});

test('a table is sorted by a click on a column', async () => {
  const table = readTable(
    JSON.stringify({ columns: [{ name: 'n', dtype: 'int' }], index: null, rows: [[10], [9]], total_rows: 2 }),
  );
  if (!table) throw new Error('no table');
  const { container } = render(TableView, { table });
  const cells = () => [...container.querySelectorAll('td')].map((cell) => cell.textContent);
  expect(cells()).toEqual(['10', '9']);
  container.querySelector('button')?.click();
  await vi.waitFor(() => expect(cells()).toEqual(['9', '10']));
  expect(container.querySelector('th')?.getAttribute('aria-sort')).toBe('ascending');
});

describe('what a reader opens or closes stays so', () => {
  test('when a preview or another file arrives', async () => {
    const file = (name: string, text: string) => ({
      name,
      size: 1,
      preview: { kind: 'text' as const, text, notes: [] },
      source: { session: 's', path: name },
    });
    const props = { onRemove() {}, onRead() {} };
    const { container, rerender } = render(FileList, { ...props, files: [file('a.txt', 'first')] });
    const first = container.querySelector('details');
    expect(first?.open).toBe(true);
    await rerender({ ...props, files: [file('a.txt', 'second'), file('b.txt', 'other')] });
    const details = [...container.querySelectorAll('details')];
    expect(details[0]?.textContent).toContain('second');
    expect(details.map((one) => one.open)).toEqual([true, false]);
    for (const one of details) one.open = !one.open;
    await rerender({ ...props, files: [file('a.txt', 'third'), file('b.txt', 'other'), file('c.txt', 'last')] });
    expect([...container.querySelectorAll('details')].map((one) => one.open)).toEqual([false, true, false]);
    await rerender({ ...props, files: [file('b.txt', 'alone')] });
    const alone = container.querySelector('details');
    expect([alone?.textContent?.includes('alone'), alone?.open]).toEqual([true, true]);
  });

  test('when the words of a panel change, as with the language; at first it is open where there is room', async () => {
    const children = createRawSnippet(() => ({ render: () => '<p>inside</p>' }));
    for (const matches of [false, true]) {
      vi.stubGlobal('matchMedia', () => ({ matches }));
      const { container, rerender } = render(RailPart, { title: 'Files', children });
      const details = container.querySelector('details');
      if (!details) throw new Error('no details');
      expect(details.open).toBe(matches);
      details.open = !matches;
      await rerender({ title: '文件', children });
      expect([details.querySelector('h2')?.textContent, details.open]).toEqual(['文件', !matches]);
    }
    vi.unstubAllGlobals();
  });

  test('when more of a call arrives; a line that the reader is sent to opens it', async () => {
    const call = (text: string): Call => ({
      index: 0,
      tool: 'search',
      arguments: { words: text },
      state: 'ended',
      approvals: [],
      proposed: null,
      result: { text, failed: text === 'third' } as CallResult,
      told: null,
      outcome: null,
      live: null,
      inner: [],
    });
    const { container, rerender } = render(ToolView, { call: call('first') });
    const details = container.querySelector('details');
    if (!details) throw new Error('no details');
    expect(details.open).toBe(false);
    details.open = true;
    await rerender({ call: call('second') });
    await rerender({ call: call('third') });
    expect([details.textContent?.includes('third'), details.open]).toEqual([true, true]);
    details.open = false;
    await rerender({ call: call('fourth'), line: 'fourth' });
    expect(details.open).toBe(true);
    details.open = false;
    await rerender({ call: call('fourth again'), line: 'fourth' });
    expect(details.open).toBe(false);
    await rerender({ call: call('fourth again'), line: 'again' });
    await rerender({ call: call('fourth again'), line: null });
    expect(details.open).toBe(true);
  });
});

test('a value is shown as text, and a name that comes twice twice', () => {
  const name = { name: 'x', type: 'str', cell: 1, preview: "'<img src=x onerror=alert(1)>\u202e\u001b[2J'" };
  const { container } = render(Names, { names: [name, name, { name: 'f', type: 'function', cell: 1 }] });
  expect(container.querySelectorAll('img')).toHaveLength(0);
  const values = [...container.querySelectorAll('.value')].map((cell) => cell.textContent);
  expect(values).toEqual(Array(2).fill("'<img src=x onerror=alert(1)>\\u{202e}'"));
});

test('what a session uses has a meter with a name and words', () => {
  const use = { memoryBytes: 250_000_000, cpuMs: 1500, processes: null, share: 0.25, since: null };
  const { container } = render(UseLine, { use, limit: 1_000_000_000 });
  const meter = container.querySelector('[role=meter]');
  expect(meter?.getAttribute('aria-label')).toBe('Memory');
  expect(meter?.getAttribute('aria-valuetext')).toBe('250 MB of 1 GB');
  expect(meter?.querySelector('span')?.style.width).toBe('25%');
  expect(container.textContent?.replace(/\s+/g, ' ')).toContain('CPU 25% · 1.5 s in total');
  expect(container.querySelectorAll('li')).toHaveLength(2);
});
