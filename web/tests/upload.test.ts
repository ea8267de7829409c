import { afterEach, describe, expect, test, vi } from 'vitest';
import { upload } from '../src/api/upload';

const MIB = 1 << 20;

/** A service that stores parts; each answer can be replaced. */
function service(instead: (request: { method: string; offset: number; count: number }) => Response | null) {
  const asked: string[] = [];
  let stored = 0;
  let count = 0;
  vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
    const headers = new Headers(init.headers);
    const method = init.method ?? 'GET';
    const offset = Number(headers.get('Upload-Offset'));
    asked.push(method === 'PATCH' ? `PATCH ${offset / MIB}` : method);
    const answer = instead({ method, offset, count: ++count });
    if (answer?.status === 599) {
      // It was cut off after a MiB.
      if (method === 'PATCH') stored += MIB;
      throw new TypeError('network');
    }
    if (answer) return answer;
    if (method === 'POST') {
      expect(atob(headers.get('Upload-Metadata')?.split(' ')[1] ?? '')).toBe('a.csv');
      return new Response(null, { status: 201, headers: { Location: '/v1/sessions/s/uploads/u' } });
    }
    expect(new URL(url).pathname).toBe('/v1/sessions/s/uploads/u');
    if (method === 'PATCH') stored += (init.body as Blob).size;
    return new Response(null, { status: method === 'PATCH' ? 204 : 200, headers: { 'Upload-Offset': String(stored) } });
  });
  return asked;
}

afterEach(() => void vi.useRealTimers());

describe('an upload in parts', () => {
  test('continues after a broken connection, and reports its progress', async () => {
    vi.useFakeTimers();
    const asked = service(({ count }) => (count === 3 ? new Response(null, { status: 599 }) : null));
    const told: number[] = [];
    const done = upload('s', 'a.csv', new Blob([new Uint8Array(20 * MIB)]), (share) => told.push(share));
    await vi.runAllTimersAsync();
    await done;
    expect(asked).toEqual(['POST', 'PATCH 0', 'PATCH 8', 'HEAD', 'PATCH 9', 'PATCH 17']);
    expect(told).toEqual([0, 0.4, 0.45, 0.85, 1]);
  });

  test('ends with what went wrong if the service stays away', async () => {
    vi.useFakeTimers();
    const asked = service(({ count }) => (count > 1 ? new Response(null, { status: 599 }) : null));
    const done = upload('s', 'a.csv', new Blob([new Uint8Array(9 * MIB)]));
    const failed = expect(done).rejects.toMatchObject({ status: 0 });
    await vi.runAllTimersAsync();
    await failed;
    expect(asked.filter((one) => one === 'HEAD').length).toBe(6);
  });

  test('ends at once if it is refused', async () => {
    const refusal = JSON.stringify({ code: 'file_too_large', detail: 'x', retry: false });
    const asked = service(() => new Response(refusal, { status: 413 }));
    await expect(upload('s', 'a.csv', new Blob([new Uint8Array(9 * MIB)]))).rejects.toMatchObject({
      code: 'file_too_large',
    });
    expect(asked).toEqual(['POST']);
  });
});
