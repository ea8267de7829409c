// What a page holds of a run that lasts, and of a cell that is run again and again.
import { afterEach, expect, test, vi } from 'vitest';
import { LiveRun } from '../src/run/live.svelte';
import { LiveSession } from '../src/session.svelte';

afterEach(() => vi.unstubAllGlobals());

/** A run of so many steps, as the service tells it: its journal, and its steps in full. */
function told(count: number) {
  const numbers = Array.from({ length: count }, (_, at) => at + 1);
  const events = [
    { kind: 'started', task: 't', model: 'm', dialect: 'fenced_code', budget: {} },
    ...numbers.map((step) => ({ kind: 'asked', step, body: {} })),
    { kind: 'ended', reason: { kind: 'answered' }, answer: 'Done.' },
  ];
  const steps = numbers.map((number) => ({
    number,
    understood: true,
    calls: [{ tool: 'python', arguments: { code: 'x' }, outcome: { cell: number, status: 'success' } }],
  }));
  return {
    view: { id: 'long', events: events.length },
    stream: events
      .map((event, at) => `id: ${at + 1}\nevent: ${event.kind}\ndata: ${JSON.stringify(event)}\n\n`)
      .join(''),
    steps,
  };
}
const stream = (text: string) => new Response(text, { headers: { 'content-type': 'text/event-stream' } });

test('outcomes of steps that were left long ago go, and come again with their step', async () => {
  const run = told(130);
  const asked: number[] = [];
  vi.stubGlobal('fetch', async (url: string) => {
    if (url.endsWith('/events')) return stream(run.stream);
    if (!url.includes('/steps')) return Response.json(run.view);
    const { searchParams } = new URL(url, 'http://x');
    const after = Number(searchParams.get('after'));
    const steps = run.steps.slice(after, after + Number(searchParams.get('limit')));
    asked.push(...steps.map((step) => step.number));
    return Response.json({ steps, more: true });
  });
  const live = new LiveRun('long');
  const held = () => live.run.steps.filter((step) => step.calls[0]?.outcome).map((step) => step.number);
  const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at);
  await vi.waitFor(() => expect(live.run.steps).toHaveLength(130));
  await live.all();
  await vi.waitFor(() => expect(held()).toEqual(numbers(1, 130)));
  // One chunk after the other is scrolled past; 30 steps that are not drawn are held.
  for (let first = 1; first <= 31; first += 10) live.leaveSteps(first, first + 9);
  expect(held()).toEqual(numbers(11, 130));
  // What comes into sight again is not given up with the others.
  live.want(11);
  live.leaveSteps(111, 120);
  expect(held()).toEqual([11, ...numbers(21, 130)]);
  asked.length = 0;
  live.want(3);
  live.want(40);
  await vi.waitFor(() => expect(held()).toEqual([3, 11, ...numbers(21, 130)]));
  expect(asked).toEqual([3]);
  live.leave();
});

test('of a cell that runs again, the page holds the newest output alone', async () => {
  let cell = 0;
  let notebook = { revision: 0, cells: [], hidden: [] };
  const view = { id: 's', state: 'awake', cells: 0, limits: {} };
  vi.stubGlobal('fetch', async (url: string, init: RequestInit = {}) => {
    if (url.endsWith('/notebook')) {
      if (init.method === 'PUT') notebook = { ...JSON.parse(String(init.body)), revision: notebook.revision + 1 };
      return Response.json(init.method === 'PUT' ? { revision: notebook.revision } : notebook);
    }
    if (url.endsWith('/cells') && init.method === 'POST') {
      cell += 1;
      const events = [
        { type: 'started', cell },
        { type: 'output', stream: 'stdout', text: `run ${cell}` },
        { type: 'outcome', cell, status: 'success', transcript: `run ${cell}`, displays: [] },
      ];
      return stream(
        events.map((one, at) => `id: ${at + 1}\nevent: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''),
      );
    }
    if (url.endsWith('/cells')) return Response.json({ cells: [] });
    if (url.endsWith('/files')) return Response.json({ files: [] });
    if (url.endsWith('/s')) return Response.json(view);
    return Response.json([]);
  });
  const live = new LiveSession('s');
  await live.open();
  await live.runNew('print(1)');
  const id = live.entries[0]?.id ?? '';
  await live.run(id, 'print(1)');
  await live.run(id, 'print(1)');
  expect(live.cells.map((one) => [one.cell, one.outcome?.transcript ?? null, one.live.parts])).toEqual([
    [1, null, []],
    [2, null, []],
    [3, 'run 3', []],
  ]);
  expect(live.entries.map((one) => one.execution?.outcome?.transcript)).toEqual(['run 3']);
  live.leave();
});
