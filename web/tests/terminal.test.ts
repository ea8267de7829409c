import { beforeEach, expect, test, vi } from 'vitest';
import { LiveTerminal } from '../src/terminal.svelte';

const size = { rows: 24, columns: 80 };
const view = { pid: 7, started_at: 100, state: 'running', argv: ['/bin/sh'], timed_out: false };

/** A service with one shell. Events are what its stream has, in one piece for each connection. */
function service({ streams = [] as string[][], commands = [] as unknown[], input = () => Promise.resolve(204) } = {}) {
  const asked: { method: string; path: string; body: unknown; from: string | null }[] = [];
  vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
    const path = new URL(url).pathname.split('/commands')[1] ?? '';
    const method = init.method ?? 'GET';
    const headers = new Headers(init.headers);
    const body = init.body ? (JSON.parse(String(init.body)) as unknown) : null;
    asked.push({ method, path, body, from: headers.get('Last-Event-ID') });
    expect(headers.get('X-Belljar')).toBe('1');
    if (path.endsWith('/events')) {
      const events = streams.shift();
      // The last connection stays open.
      if (!events) return new Promise(() => {});
      return new Response(events.join(''), { headers: { 'Content-Type': 'text/event-stream' } });
    }
    if (path === '' && method === 'GET') return Response.json({ commands });
    if (path === '') return Response.json(view, { status: 201 });
    return new Response(null, { status: await input() });
  });
  const to = (path: string) => asked.filter((one) => one.path === path && one.method === 'POST');
  return { asked, to };
}
const event = (id: number, data: { type: string; [key: string]: unknown }) =>
  `id: ${id}\nevent: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
const output = (text: string, next: number) => event(next, { type: 'output', text, next });
const end = (id: number, how: object) => event(id, { type: 'end', state: 'ended', timed_out: false, ...how });

function make() {
  const shown: string[] = [];
  const live = new LiveTerminal(
    's1',
    { write: (text) => shown.push(text), reset: () => shown.push('<reset>') },
    () => {},
  );
  return { live, shown };
}

beforeEach(() => {
  sessionStorage.clear();
  vi.useRealTimers();
});

test('a shell is started with the size of the screen, shown, and reports its exit code', async () => {
  const { to } = service({ streams: [[output('$ ', 2), output('exit\r\n', 8), end(9, { exit_code: 3 })]] });
  const { live, shown } = make();
  expect(await live.open(size)).toBe(false);
  await vi.waitFor(() => expect(live.state).toBe('ended'));
  expect(shown).toEqual(['$ ', 'exit\r\n']);
  expect(live.end?.exit_code).toBe(3);
  expect(to('')[0]?.body).toMatchObject({ terminal: size });
});

test('a lost connection continues after the last byte, without repeat', async () => {
  vi.useFakeTimers();
  const { asked } = service({
    streams: [
      [output('$ ', 2), output('one', 5)],
      [output('two', 8), end(9, { exit_code: 0 })],
    ],
  });
  const { live, shown } = make();
  await live.open(size);
  await vi.waitFor(() => expect(live.state).toBe('lost'));
  await vi.advanceTimersByTimeAsync(2000);
  await vi.waitFor(() => expect(live.state).toBe('ended'));
  expect(shown).toEqual(['$ ', 'one', 'two']);
  expect(asked.filter((one) => one.path.endsWith('/events')).map((one) => one.from)).toEqual([null, '5']);
});

test('output that is no longer kept clears the screen', async () => {
  service({ streams: [[event(90, { type: 'lost', bytes: 90, next: 90 }), output('new', 93)]] });
  const { live, shown } = make();
  await live.open(size);
  await vi.waitFor(() => expect(shown).toEqual(['<reset>', 'new']));
  live.leave();
});

test('keys arrive in order, one request at a time, Ctrl-C as a byte', async () => {
  const waiting: (() => void)[] = [];
  const { to } = service({ input: () => new Promise((resolve) => waiting.push(() => resolve(204))) });
  const { live } = make();
  await live.open(size);
  for (const key of ['l', 's', '\r', '\u0003']) live.type(key);
  expect(to('/7/input').map((one) => one.body)).toEqual([{ text: 'l' }]);
  waiting.shift()?.();
  await vi.waitFor(() => expect(to('/7/input')).toHaveLength(2));
  expect(to('/7/input')[1]?.body).toEqual({ text: 's\r\u0003' });
  live.leave();
});

test('a paste is cut between characters, and one without end is dropped', async () => {
  const { to } = service();
  const { live } = make();
  await live.open(size);
  const text = 'x' + '😀'.repeat(10_000);
  live.type(text);
  live.type('y'.repeat(2_000_000));
  const sent = () => to('/7/input').map((one) => (one.body as { text: string }).text);
  await vi.waitFor(() => expect(sent().join('')).toBe(text));
  expect(sent().length).toBe(2);
  expect(sent()[0]).toMatch(/😀$/u);
  live.leave();
});

test('only the newest size is sent', async () => {
  const { to } = service();
  const { live } = make();
  await live.open(size);
  for (const rows of [10, 20, 30]) live.resize({ rows, columns: 80 });
  await vi.waitFor(() => expect(to('/7/resize').at(-1)?.body).toEqual({ rows: 30, columns: 80 }));
  expect(to('/7/resize')).toHaveLength(2);
  live.leave();
});

test('after a reload the same shell is found; another one with its process id is not it', async () => {
  service();
  await make().live.open(size);
  const same = service({ commands: [{ ...view, pid: 6 }, view] });
  expect(await make().live.open({ rows: 40, columns: 100 })).toBe(true);
  expect(same.to('')).toEqual([]);
  await vi.waitFor(() => expect(same.to('/7/resize')[0]?.body).toEqual({ rows: 40, columns: 100 }));
  for (const commands of [[{ ...view, state: 'ended' }], [{ ...view, started_at: 200 }], []]) {
    sessionStorage.setItem('belljar.terminal.s1', JSON.stringify({ pid: 7, started_at: 100 }));
    const other = service({ commands });
    expect(await make().live.open(size)).toBe(false);
    expect(other.to('')).toHaveLength(1);
  }
});

test('a refusal is a state, not an endless retry', async () => {
  vi.stubGlobal('fetch', () =>
    Promise.resolve(Response.json({ code: 'command_refused', detail: 'no walls', retry: false }, { status: 409 })),
  );
  const { live } = make();
  expect(await live.open(size)).toBe(false);
  expect(live.state).toBe('failed');
  expect(String(live.problem)).toContain('no walls');
});
