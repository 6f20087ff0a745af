/**
 * When the next point of a running sandbox is due, of which kind, and whether there is anything to take: pure functions over
 * what is seen of it from outside.
 *
 * A point with memory stops the guest for a moment. Where that cannot be short enough, the schedule goes on with points of the
 * disk, for which nothing stops, and memory is tried again after a wait that doubles with each further miss.
 *
 * Everything else about a point happens while the guest runs, and costs the disk time, which all feel that share it. Of a guest that rewrites
 * pages all over its memory it grows with each point, since its files fall into ever smaller pieces. So no more than a third of the
 * time goes into it: what took 20 seconds is followed by the next after a minute at the earliest. Less would be too little on a busy
 * machine, on which each point takes long, though it costs nobody more.
 */
import type { ErrorCode } from './errors.ts';
import type { SnapshotKind } from './manifest.ts';

/** What was rewritten since a point, in bytes that are new on disk. */
export interface Changed {
  readonly diskBytes: number;
  readonly memoryBytes: number;
  /** In how many pieces both lie on disk: the more, the more each point costs. Absent: that is not known. */
  readonly extents?: number;
}

/** On a clock that never goes back. */
export interface Cadence {
  /** When the last point, or the last attempt at one, began, */
  readonly lastAtMs: number;
  /** and how long it took in all. */
  readonly tookMs: number;
  /** Attempts in a row that took none of either kind, since they failed. */
  readonly misses: number;
  readonly memory: {
    /** The last attempt at one with memory. */
    readonly lastAtMs: number;
    /** Of these in a row, those that failed or passed their budget, */
    readonly misses: number;
    /** and why the last one did; null: it did not. */
    readonly because: ErrorCode | null;
  };
}

/** A host that is always slow still gets a point now and then: what an attempt costs is bounded by its budget. */
const MAX_BACK_OFF_MS = 15 * 60_000;
const MAX_DOUBLINGS = 10;
const POINTS_SHARE_OF_TIME = 1 / 3;

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

/** Null: none is. */
export function dueKind(cadence: Cadence, everyMs: number | 'off', nowMs: number): SnapshotKind | null {
  const { lastAtMs, tookMs, misses, memory } = cadence;
  if (everyMs === 'off') return null;
  const restMs = Math.min(MAX_BACK_OFF_MS, tookMs / POINTS_SHARE_OF_TIME);
  if (nowMs - lastAtMs < Math.max(restMs, waitMs(everyMs, misses))) return null;
  const isWaiting = memory.misses > 0 && nowMs - memory.lastAtMs < waitMs(everyMs, memory.misses);
  return isWaiting ? 'disk' : 'memory';
}

/**
 * What keeps a point with memory from being taken and says nothing about one of the disk: no time in which the guest may stand
 * still, processes that do not stand still, an agent that is silent.
 */
const OF_MEMORY_ONLY: readonly ErrorCode[] = ['over_budget', 'snapshot_failed', 'agent_lost'];

export function isOfMemoryOnly(code: ErrorCode): boolean {
  return OF_MEMORY_ONLY.includes(code);
}

/** `changed` null: it could not be measured, which counts as a change. */
export function isUnchanged(changed: Changed | null, usedSince: boolean): boolean {
  return !usedSince && changed !== null && changed.diskBytes === 0 && changed.memoryBytes < QUIET_MEMORY_BYTES;
}
