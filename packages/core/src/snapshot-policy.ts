/**
 * When a sandbox is snapshotted by itself, what that may cost, and how long the points stay. Each sandbox has its own
 * policy; what it leaves open is its project's, and what that leaves open is the default.
 */

/** One step of the ladder by which history thins out. */
export interface Rung {
  /** It holds for points that are at most so old. */
  readonly forMs: number;
  /** One point is kept per so long; 0: each. A multiple of that of the rung before. */
  readonly everyMs: number;
}

export interface SnapshotPolicy {
  readonly everyMs: number | 'off';
  /** How long user processes may stand still for one. */
  readonly budgetMs: number;
  /** In order of `forMs`. What is older than the last rung goes. */
  readonly retention: readonly Rung[];
  /** Whether its newest point is brought into an archive again and again: that bounds what is lost with its host. */
  readonly archive: RegularArchive | 'off';
}

export interface RegularArchive {
  readonly everyMs: number;
  /** The place that it goes to. */
  readonly location: string;
}

/** Null and absent: what stands above decides. */
export type PolicyChoice = { readonly [K in keyof SnapshotPolicy]?: SnapshotPolicy[K] | null };

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

export const MIN_SNAPSHOT_EVERY_MS = 10_000;
export const MAX_SNAPSHOT_EVERY_MS = HOUR_MS;
export const MIN_SNAPSHOT_BUDGET_MS = 10;
export const MAX_SNAPSHOT_BUDGET_MS = 2_000;
export const MIN_ARCHIVE_EVERY_MS = MINUTE_MS;
export const MAX_ARCHIVE_EVERY_MS = 7 * DAY_MS;
export const MAX_RUNGS = 8;
export const MAX_RETENTION_MS = 366 * DAY_MS;

export const DEFAULT_SNAPSHOT_POLICY: SnapshotPolicy = {
  everyMs: MINUTE_MS,
  budgetMs: 100,
  retention: [
    { forMs: HOUR_MS, everyMs: 0 },
    { forMs: DAY_MS, everyMs: 10 * MINUTE_MS },
    { forMs: 7 * DAY_MS, everyMs: HOUR_MS },
  ],
  archive: 'off',
};

/** `choices` from the nearest (the sandbox's) to the farthest. */
export function policyOf(...choices: readonly PolicyChoice[]): SnapshotPolicy {
  const first = <K extends keyof SnapshotPolicy>(key: K): SnapshotPolicy[K] =>
    choices.map((choice) => choice[key]).find((value) => value !== undefined && value !== null) ??
    DEFAULT_SNAPSHOT_POLICY[key];
  const [everyMs, budgetMs, retention, archive] = [
    first('everyMs'),
    first('budgetMs'),
    first('retention'),
    first('archive'),
  ];
  return { everyMs, budgetMs, retention, archive };
}

/** How often it is snapshotted by itself: often enough for what is archived. */
export function snapshotEveryMs({ everyMs, archive }: SnapshotPolicy): number | 'off' {
  if (archive === 'off') return everyMs;
  const atMost = Math.min(archive.everyMs, MAX_SNAPSHOT_EVERY_MS);
  return everyMs === 'off' ? atMost : Math.min(everyMs, atMost);
}

/** What is wrong with a ladder, or null. */
export function ladderFault(ladder: readonly Rung[]): string | null {
  for (const [index, { forMs, everyMs }] of ladder.entries()) {
    const before = ladder[index - 1];
    if (before === undefined) continue;
    if (forMs <= before.forMs) return 'each rung must reach farther back than the one before';
    if (everyMs < before.everyMs) return 'no rung may keep more than the one before';
    if (before.everyMs > 0 && everyMs % before.everyMs !== 0) {
      return 'everyMs of each rung must be a multiple of that of the one before';
    }
  }
  return null;
}
