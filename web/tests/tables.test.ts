// The whole of a table, which a live session sends page by page.
import { cleanup, fireEvent, render, waitFor, within } from '@testing-library/svelte';
import { afterEach, expect, test, vi } from 'vitest';
import Names from '../src/components/Names.svelte';
import TableBrowser from '../src/components/TableBrowser.svelte';

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const columns = [
  { name: '<b>city</b>', dtype: 'str' },
  { name: 'n', dtype: 'int64' },
];
const page = (more = {}) => ({
  columns,
  index: [0, 1],
  rows: [
    ['Oslo\u202e', 1],
    [null, 2],
  ],
  matching_rows: 250,
  total_rows: 250,
  total_columns: 2,
  ...more,
});
const figures = { count: 2, missing: 0, unique: 2, min: 1, max: 2, mean: 1.5 };

/** A service that answers so; what it was asked, the newest last. */
function service(answer: (path: string) => Response) {
  const asked: { path: string; query: Record<string, string> }[] = [];
  vi.stubGlobal('fetch', (address: string) => {
    const url = new URL(address);
    asked.push({ path: url.pathname, query: Object.fromEntries(url.searchParams) });
    return Promise.resolve(answer(url.pathname));
  });
  return asked;
}
const usual = (path: string) => Response.json(path.endsWith('/statistics') ? figures : page());
const problem = (status: number, code: string) =>
  Response.json({ code, detail: 'in the words of the service', retry: false }, { status });
const props = { session: 's-1', name: 'df', since: 1, busy: false };

test('rows come by pages, sorted and filtered by the session', async () => {
  const asked = service(usual);
  const { container, getByText, getByRole, getByLabelText } = render(TableBrowser, props);
  await waitFor(() => getByText('Rows 1 to 2 of 250'));
  expect(asked).toEqual([{ path: '/v1/sessions/s-1/variables/df/rows', query: { offset: '0', limit: '100' } }]);
  expect(container.querySelector('b')).toBeNull();
  expect(container.querySelector('td')?.textContent).toBe('Oslo\\u{202e}');
  expect([...container.querySelectorAll('td')][2]?.textContent).toBe('–');

  await fireEvent.click(getByText('Next rows'));
  await waitFor(() => expect(asked.at(-1)?.query).toEqual({ offset: '100', limit: '100' }));
  const head = within(getByRole('columnheader', { name: /^n/ }));
  const sort = head.getAllByRole('button')[0] as HTMLElement;
  await fireEvent.click(sort);
  await waitFor(() => expect(asked.at(-1)?.query).toEqual({ offset: '0', limit: '100', sort: '1' }));
  await fireEvent.click(sort);
  const descending = { offset: '0', limit: '100', sort: '1', descending: 'true' };
  await waitFor(() => expect(asked.at(-1)?.query).toEqual(descending));

  await fireEvent.change(getByLabelText('Column'), { target: { value: '1' } });
  await fireEvent.change(getByLabelText('Condition'), { target: { value: 'less' } });
  await fireEvent.input(getByLabelText('Value'), { target: { value: '10' } });
  await fireEvent.click(getByText('Add filter'));
  const filters = JSON.stringify([{ column: 1, operator: 'less', value: '10' }]);
  await waitFor(() => expect(asked.at(-1)?.query).toEqual({ ...descending, filters }));
  await fireEvent.click(head.getByRole('button', { name: 'Statistics of n' }));
  await waitFor(() => getByText('1.5'));
  expect(asked.at(-1)).toEqual({ path: '/v1/sessions/s-1/variables/df/statistics', query: { column: '1', filters } });
  await fireEvent.click(getByRole('button', { name: 'Remove filter: n less than 10' }));
  await waitFor(() => expect(asked.filter((one) => one.path.endsWith('/rows')).at(-1)?.query).toEqual(descending));
});

test('a table that a cell has changed is read again; with other columns, without order and filters', async () => {
  let told: object = page();
  const asked = service(() => Response.json(told));
  const { getByText, getByRole, rerender } = render(TableBrowser, props);
  await waitFor(() => getByText('Rows 1 to 2 of 250'));
  const head = within(getByRole('columnheader', { name: /^n/ }));
  await fireEvent.click(head.getAllByRole('button')[0] as HTMLElement);
  await waitFor(() => expect(asked.at(-1)?.query['sort']).toBe('1'));
  told = page({ total_rows: 300 });
  await rerender({ ...props, since: 2, busy: true });
  await waitFor(() => getByText(/filtered from 300/));
  expect(asked.at(-1)?.query['sort']).toBe('1');
  getByText('A cell is running. The table loads when the cell ends.');
  told = page({ columns: [...columns].reverse(), rows: [[1, 'Oslo']], index: [0], matching_rows: 1, total_rows: 1 });
  await rerender({ ...props, since: 3 });
  await waitFor(() => getByText('Rows 1 to 1 of 1'));
  await waitFor(() => expect(asked.at(-1)?.query).toEqual({ offset: '0', limit: '100' }));
});

test.each([
  [404, 'variable_not_found', 'The variable df no longer exists.'],
  [409, 'not_a_table', 'df is no longer a table.'],
  [400, 'bad_query', /^A filter does not fit its column/],
  [409, 'table_not_read', /in the words of the service/],
])('a refusal is said: %i %s', async (status, code, words) => {
  service(() => problem(status, code));
  const { getByRole, getByText, queryByRole, queryByText } = render(TableBrowser, props);
  const alert = await waitFor(() => getByRole('alert'));
  expect(alert.textContent).toMatch(words);
  expect(queryByText('Loading…')).toBeNull();
  service(usual);
  await fireEvent.click(getByRole('button', { name: 'Show all rows' }));
  await waitFor(() => getByText('Rows 1 to 2 of 250'));
  expect(queryByRole('alert')).toBeNull();
});

test('names of tables can be opened, others not', async () => {
  const opened: string[] = [];
  const names = [
    { name: 'df', type: 'pandas.DataFrame', shape: [3, 2], cell: 1 },
    { name: 'series', type: 'pandas.Series', shape: [3], cell: 1 },
    { name: 'square', type: 'numpy.ndarray', shape: [2, 2], cell: 1 },
    { name: 'line', type: 'numpy.ndarray', shape: [2], cell: 1 },
    { name: 'text', type: 'str', length: 3, cell: 1 },
  ];
  const { getAllByRole } = render(Names, { names, onTable: (name: string) => opened.push(name) });
  const buttons = getAllByRole('button');
  for (const button of buttons) await fireEvent.click(button);
  expect(opened).toEqual(['df', 'series', 'square']);
  expect(buttons[0]?.getAttribute('aria-label')).toBe('3 × 2: Open df as a table');
});
