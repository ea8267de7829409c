// Amounts of quotas as people read and type them: bytes in MB, CPU time in seconds, money in its currency.
import type { Quota } from '../api/admin';
import { bytes, count, duration, money } from '../text/format';

const SCALES: Partial<Record<Quota, number>> = {
  memory_bytes: 1e6,
  disk_bytes: 1e6,
  output_bytes: 1e6,
  egress_bytes: 1e6,
  cpu_ms: 1000,
  money_micros: 1e6,
};

export function amountText(quota: Quota, amount: number, locale: string): string {
  if (quota.endsWith('_bytes')) return bytes(amount, locale);
  if (quota === 'cpu_ms') return duration(amount, locale);
  if (quota === 'money_micros') return money(amount / 1e6, locale);
  return count(amount, locale);
}

/** What is typed for an amount, and back. */
export const typedAmount = (quota: Quota, amount: number): number => amount / (SCALES[quota] ?? 1);
export const readAmount = (quota: Quota, typed: number): number => Math.round(typed * (SCALES[quota] ?? 1));

/** The unit in which it is typed; nothing for a count. */
export function unitOf(quota: Quota): 'mb' | 'seconds' | 'money' | null {
  if (quota.endsWith('_bytes')) return 'mb';
  if (quota === 'cpu_ms') return 'seconds';
  return quota === 'money_micros' ? 'money' : null;
}

/** Changes from the amounts that there are to the typed ones: `null` removes a quota. */
export function quotaChanges(
  before: Partial<Record<Quota, number>>,
  typed: Partial<Record<Quota, number | null>>,
): Partial<Record<Quota, number | null>> {
  const changes: Partial<Record<Quota, number | null>> = {};
  for (const [name, value] of Object.entries(typed)) {
    const quota = name as Quota;
    const amount = value === null || value === undefined ? null : readAmount(quota, value);
    if (amount !== (before[quota] ?? null)) changes[quota] = amount;
  }
  return changes;
}
