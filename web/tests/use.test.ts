import { expect, test } from 'vitest';
import type { SessionView } from '../src/api/types';
import { seenUse } from '../src/text/use';

const view = (use?: SessionView['use']) => ({ use }) as SessionView;

test('the share of CPUs is counted between looks that are far enough apart', () => {
  const first = seenUse(null, view({ memory_bytes: 10, cpu_ms: 100, processes: 2 }), 1000);
  expect(first).toMatchObject({ memoryBytes: 10, cpuMs: 100, processes: 2, share: null });
  const second = seenUse(first, view({ cpu_ms: 1100 }), 3000);
  expect(second).toMatchObject({ memoryBytes: null, processes: null, share: 0.5 });
  const soon = seenUse(second, view({ cpu_ms: 1200 }), 3100);
  expect(soon).toMatchObject({ cpuMs: 1200, share: 0.5 });
  // What was used meanwhile is not lost.
  expect(seenUse(soon, view({ cpu_ms: 3100 }), 5000)?.share).toBe(1);
});

test('a session that sleeps uses nothing, and counts anew when it wakes', () => {
  const before = seenUse(null, view({ cpu_ms: 5000 }), 0);
  expect(seenUse(before, view(), 2000)).toBeNull();
  expect(seenUse(before, view({ cpu_ms: 40 }), 2000)).toMatchObject({ cpuMs: 40, share: null });
  expect(seenUse(before, view({ memory_bytes: 1 }), 2000)).toMatchObject({ cpuMs: null, share: null });
});
