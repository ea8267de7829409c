import { expect, test } from 'vitest';
import { amountText, quotaChanges, typedAmount, unitOf } from '../src/admin/quota';

test('amounts of quotas are typed and read in units of people', () => {
  expect(amountText('memory_bytes', 512e6, 'en')).toBe('512 MB');
  expect(amountText('cpu_ms', 90_000, 'en')).toBe('1 min 30 s');
  expect(amountText('money_micros', 2_500_000, 'en')).toBe('2.50');
  expect(amountText('tokens', 12_345, 'en')).toBe('12,345');
  expect([typedAmount('disk_bytes', 3e9), unitOf('disk_bytes')]).toEqual([3000, 'mb']);
  expect([typedAmount('sessions', 3), unitOf('sessions')]).toEqual([3, null]);
});

test('only what was changed is sent, and an empty field removes a quota', () => {
  const before = { sessions: 3, memory_bytes: 512e6, tokens: 10 };
  expect(quotaChanges(before, { sessions: 3, memory_bytes: null, tokens: 20, runs: null, money_micros: 0.5 })).toEqual({
    memory_bytes: null,
    tokens: 20,
    money_micros: 500_000,
  });
});
