/**
 * When the next point of a running sandbox is due, and whether there is anything to take: pure functions over what is seen
 * of it from outside.
 */

/** What was rewritten since a point, in bytes that are new on disk. */
export interface Changed {
  readonly diskBytes: number;
  readonly memoryBytes: number;
}

/** On a clock that never goes back. */
export interface Cadence {
  /** The last point, or the last attempt at one. */
  readonly lastAtMs: number;
  /** Attempts in a row that failed or passed their budget. */
  readonly misses: number;
}

/** A host that is always slow still gets a point now and then: what an attempt costs is bounded by its budget. */
const MAX_BACK_OFF_MS = 15 * 60_000;
const MAX_DOUBLINGS = 10;

/**
 * What a guest in which nothing runs rewrites by itself, with room to spare. Below it, with nothing written to the disk and
 * no use of the sandbox, a sandbox counts as unchanged.
 */
export const QUIET_MEMORY_BYTES = 4 * 1024 * 1024;

/** One miss is bad luck; each further one in a row doubles the wait, up to 15 minutes. */
export function waitMs(everyMs: number, misses: number): number {
  const doublings = Math.min(Math.max(0, misses - 1), MAX_DOUBLINGS);
  return Math.max(everyMs, Math.min(MAX_BACK_OFF_MS, everyMs * 2 ** doublings));
}

export function isDue({ lastAtMs, misses }: Cadence, everyMs: number | 'off', nowMs: number): boolean {
  return everyMs !== 'off' && nowMs - lastAtMs >= waitMs(everyMs, misses);
}

/** `changed` null: it could not be measured, which counts as a change. */
export function isUnchanged(changed: Changed | null, usedSince: boolean): boolean {
  return !usedSince && changed !== null && changed.diskBytes === 0 && changed.memoryBytes < QUIET_MEMORY_BYTES;
}
