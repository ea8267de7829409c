import { describe, expect, test, vi } from 'vitest';
import { EventCutter, follow, type StreamEvent } from '../src/api/stream';
import { streamOf } from './fixtures';

const body = (text: string): Response => new Response(text, { status: 200 });
const event = (id: number, kind = 'asked'): string => `id: ${id}\nevent: ${kind}\ndata: {"n":${id}}\n\n`;

describe('cutting a stream into events', () => {
  test('gives the same events in whatever pieces it comes', () => {
    const text = streamOf('region');
    const whole = new EventCutter().push(text);
    for (const size of [1, 7, 1000]) {
      const cutter = new EventCutter();
      const events: StreamEvent[] = [];
      for (let at = 0; at < text.length; at += size) events.push(...cutter.push(text.slice(at, at + size)));
      expect(events).toEqual(whole);
    }
    expect(whole.length).toBeGreaterThan(10);
    const numbers = whole.flatMap((one) => (one.id === null ? [] : [one.id]));
    expect(numbers).toEqual(numbers.map((_, at) => at + 1));
    expect(whole.length).toBeGreaterThan(numbers.length);
  });

  test('knows comments, several lines of data, other line ends and parts without number', () => {
    const events = new EventCutter().push(': alive\n\nevent: cell\r\ndata: a\r\ndata: b\r\n\r\nid: x\ndata: c\n\n');
    expect(events).toEqual([
      { id: null, event: 'cell', data: 'a\nb' },
      { id: null, event: 'message', data: 'c' },
    ]);
  });
});

describe('following a run', () => {
  async function followed(
    answers: (() => Response)[],
    after = 0,
  ): Promise<{ ids: (number | null)[]; asked: string[] }> {
    const asked: string[] = [];
    vi.stubGlobal('fetch', (_: string, init: RequestInit) => {
      asked.push(new Headers(init.headers).get('Last-Event-ID') ?? '');
      const next = answers.shift();
      if (!next) throw new Error('asked too often');
      return Promise.resolve(next());
    });
    const ids: (number | null)[] = [];
    await follow('v1/runs/a/events', {
      after,
      signal: new AbortController().signal,
      isLast: (one) => one.event === 'ended',
      onEvent: (one) => ids.push(one.id),
      wait: () => Promise.resolve(),
    });
    return { ids, asked };
  }

  test('goes on after a lost connection without gap or repeat', async () => {
    const cut = event(1) + event(2) + 'id: 3\nevent: asked\ndata: {"n"';
    const { ids, asked } = await followed([
      () => body(cut),
      () => {
        throw new TypeError('network');
      },
      // A careless service repeats one; it is told once.
      () => body(event(2) + event(3) + 'event: reply\ndata: {}\n\n' + event(4, 'ended')),
    ]);
    expect(ids).toEqual([1, 2, 3, null, 4]);
    expect(asked).toEqual(['', '2', '2']);
  });

  test('does not believe a stream with a gap', async () => {
    const { ids, asked } = await followed([() => body(event(1) + event(3)), () => body(event(2) + event(3, 'ended'))]);
    expect(ids).toEqual([1, 2, 3]);
    expect(asked).toEqual(['', '1']);
  });

  test('stops where it is refused', async () => {
    const problem = { type: '', title: '', status: 404, code: 'run_not_found', detail: '', retry: false };
    const told = vi.fn();
    vi.stubGlobal('fetch', () => Promise.resolve(new Response(JSON.stringify(problem), { status: 404 })));
    await follow('v1/runs/a/events', {
      after: 0,
      signal: new AbortController().signal,
      isLast: () => false,
      onEvent: () => {},
      onProblem: told,
      wait: () => Promise.reject(new Error('it tried again')),
    });
    expect(told).toHaveBeenCalledOnce();
    expect(told.mock.calls[0]?.[0]).toMatchObject({ code: 'run_not_found' });
  });

  test('waits and asks again where the service is full', async () => {
    const full = { type: '', title: '', status: 503, code: 'service_full', detail: '', retry: true };
    const { ids } = await followed([
      () => new Response(JSON.stringify(full), { status: 503 }),
      () => body(event(1, 'ended')),
    ]);
    expect(ids).toEqual([1]);
  });
});
