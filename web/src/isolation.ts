// The isolation of a new session or run: which tiers there are to choose from.
import type { Me } from './api/types';

/** Those that a request may name. A service without isolation has no other. */
const TIERS = ['container', 'full', 'gvisor'] as const;
export type Tier = (typeof TIERS)[number];

/** The tiers that an environment is offered with, the first of which is shown as chosen; '' is the default environment. */
export function tiersOf(me: Me | null, environment: string): Tier[] {
  const name = environment || (me?.environments[0] ?? '');
  const offered = (me?.isolation ?? []).filter((one) => one.environments.includes(name));
  return offered.flatMap((one) => TIERS.filter((tier) => tier === one.name));
}

/** What a request has: the shown tier, where there is a choice. */
export function asked(tiers: Tier[], chosen: string): { isolation?: Tier } {
  const isolation = tiers.find((tier) => tier === chosen) ?? tiers[0];
  return tiers.length > 1 && isolation ? { isolation } : {};
}
