/** What an archive tells of a sandbox, as records: of a copy, or of the sandbox itself, which is taken up as it was. */
import { isDeepStrictEqual } from 'node:util';
import { schemas } from '@space/contract';
import {
  AppError,
  type ArchiveSummary,
  DEFAULT_RUNS,
  gapLimitMs,
  issuesOf,
  MAX_BINDINGS_OF_SANDBOX,
  type MoveFacts,
  nextTime,
  type SnapshotId,
} from '@space/core';
import type { Birth } from './birth.ts';
import type { RecordedSandbox, RecordedSnapshot, Records } from './records.ts';
import { policyFor } from './timeline.ts';

type Settings = Pick<
  Birth,
  'name' | 'env' | 'metadata' | 'pauseAfterMs' | 'wakeAt' | 'runs' | 'publicPorts' | 'snapshotPolicy'
>;

export function factsOf(sandbox: RecordedSandbox, number: number): MoveFacts {
  const { generation, secrets, missingSecrets } = sandbox;
  const named = [...secrets, ...missingSecrets].slice(0, MAX_BINDINGS_OF_SANDBOX);
  return { number, generation, settings: settingsOf(sandbox), secrets: named };
}

function settingsOf({ name, env, metadata, pauseAfterMs, wakeAt, snapshotPolicy, ...more }: RecordedSandbox) {
  const snapshots = Object.fromEntries(Object.entries(snapshotPolicy).filter(([, value]) => value !== undefined));
  const settings = {
    ...{ name, env, metadata, idle: { pauseAfterMs }, wakeAt: wakeAt?.toISOString() ?? null, snapshots },
    // An older platform takes what it knows, and nothing else.
    ...(isDeepStrictEqual(more.runs, DEFAULT_RUNS) ? {} : { runs: more.runs }),
    ...(more.publicPorts ? { publicPorts: true } : {}),
  };
  return settings satisfies MoveFacts['settings'];
}

/** Throws `archive_damaged`: it was written by whoever made the archive. */
export function parseSettings(settings: MoveFacts['settings']): Settings {
  const parsed = schemas.movedSettings.safeParse(settings);
  if (!parsed.success) {
    const why = issuesOf(parsed.error).slice(0, 300);
    throw new AppError('archive_damaged', `What the archive says of the sandbox is not valid: ${why}.`);
  }
  const { name, env, metadata, idle, wakeAt, snapshots, runs = DEFAULT_RUNS, publicPorts = false } = parsed.data;
  const { pauseAfterMs } = idle;
  return {
    name,
    env,
    metadata,
    pauseAfterMs,
    wakeAt: wakeAt === null ? null : new Date(wakeAt),
    runs,
    publicPorts,
    snapshotPolicy: snapshots,
  };
}

export interface Brought {
  readonly summary: ArchiveSummary;
  /** Its points are of disks alone. */
  readonly boot: boolean;
}

/** The points of an archive; `ids` are what they are called here. */
export async function recordsOf(
  records: Records,
  begun: RecordedSandbox,
  { summary: { points }, boot }: Brought,
  ids: readonly SnapshotId[],
): Promise<readonly RecordedSnapshot[]> {
  const limitMs = gapLimitMs(await policyFor(records, begun));
  const { id: sandboxId, projectId, template, vault } = begun;
  const recorded: RecordedSnapshot[] = [];
  for (const [at, { parent, kind, size, takenAt, generation }] of points.entries()) {
    const id = ids[at];
    if (id === undefined) throw new Error('each point has a name');
    const before = recorded.at(-1);
    const instant = new Date(takenAt);
    const place = before === undefined ? null : { timeMs: before.timeMs, takenAtMs: before.takenAt.getTime() };
    recorded.push({
      ...{ id, sandboxId, projectId, generation, template, size, vault, takenAt: instant },
      ...{ name: null, note: null, cause: 'archive', pinned: false, state: 'good', badReason: null },
      ...{ kind: boot ? 'disk' : kind, degraded: null },
      ...{ timings: null, changed: null, checkedAt: null },
      timeMs: nextTime(place, instant.getTime(), limitMs),
      parent: (parent === null ? undefined : ids[parent]) ?? null,
    });
  }
  return recorded;
}

/**
 * What was deleted of it here goes point by point, for minutes: none of it may be taken for what arrives, and be removed afterwards.
 * Throws `operation_in_progress`.
 */
export async function checkRemoved(records: Records, { points }: ArchiveSummary): Promise<void> {
  const here = await records.history.known(points.map(({ snapshotId }) => snapshotId));
  for (const id of here) {
    if ((await records.findSnapshot(id)) !== null) continue;
    throw new AppError('operation_in_progress', 'What was deleted of the sandbox here is still being removed.');
  }
}

/** Of a sandbox that arrives: what is recorded here already stays as it is, and must be its own. */
export async function recordsOfArrival(
  records: Records,
  begun: RecordedSandbox,
  summary: ArchiveSummary,
): Promise<readonly RecordedSnapshot[]> {
  const ids = summary.points.map(({ snapshotId }) => snapshotId);
  const arrived: RecordedSnapshot[] = [];
  for (const point of await recordsOf(records, begun, { summary, boot: false }, ids)) {
    const known = await records.findSnapshot(point.id);
    if (known !== null && known.sandboxId !== begun.id) {
      throw new AppError('archive_damaged', `The archive names ${point.id}, which is a snapshot of another sandbox.`);
    }
    if (known === null) arrived.push(point);
  }
  return arrived;
}
