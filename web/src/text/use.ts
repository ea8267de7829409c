// What a session uses, from what the service says of it again and again.
import type { SessionView } from '../api/types';

export interface SeenUse {
  memoryBytes: number | null;
  cpuMs: number | null;
  processes: number | null;
  /** CPUs that it kept busy since the look before; nothing until there are two. */
  share: number | null;
  /** When the share was counted last, in milliseconds, and the CPU time of then. */
  since: { at: number; cpuMs: number } | null;
}

/** Looks that are closer together say nothing of the share. */
const LEAST_MS = 500;

/** What is known after another look. Nothing of a session that sleeps or has ended. */
export function seenUse(before: SeenUse | null, view: SessionView, at: number): SeenUse | null {
  const { use } = view;
  if (!use) return null;
  const cpuMs = use.cpu_ms ?? null;
  const seen: SeenUse = {
    memoryBytes: use.memory_bytes ?? null,
    cpuMs,
    processes: use.processes ?? null,
    share: null,
    since: cpuMs === null ? null : { at, cpuMs },
  };
  const since = before?.since;
  // A session that was woken counts from nothing.
  if (cpuMs === null || !since || cpuMs < since.cpuMs) return seen;
  const passed = at - since.at;
  if (passed < LEAST_MS) return { ...seen, share: before.share, since };
  return { ...seen, share: (cpuMs - since.cpuMs) / passed };
}
