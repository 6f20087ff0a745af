/**
 * The timeline of a sandbox, as control records it. A node knows for each point which one its life started from; a reader
 * wants to know which came before. So `parent` is the point before it in the sandbox's line, and a generation (a break in
 * the line) begins at the point that it went back to.
 *
 * ```
 *   gen 1   A ── B ── C ── K            K: kept by a rewind to B
 *   gen 2        └── D ── E             D.parent = B
 *   fork             └── F              origin of the fork = D
 * ```
 *
 * A **pause point** (cause `pause`, unnamed) is listed and kept only while it is the head of its sandbox: a later pause,
 * snapshot or rewind supersedes it, and then it is deleted. Naming it, taking a snapshot of the paused sandbox, or
 * rewinding from it keeps it.
 */
import { AppError, type SandboxId, type SnapshotId } from '@space/core';
import type { RecordedSandbox, RecordedSnapshot, Records } from './records.ts';
import { findSnapshot } from './scope.ts';

/** How far back a rewind looks through the lines that a sandbox inherited. */
const MAX_INHERITED = 10_000;

/** Throws `snapshot_bad` with the reason. */
export function checkGood(snapshot: RecordedSnapshot): void {
  if (snapshot.state === 'good') return;
  throw new AppError('snapshot_bad', snapshot.badReason ?? `The snapshot ${snapshot.id} cannot be restored.`);
}

/** The newest point of the line that the sandbox is on, which the next one follows; null: it has none. */
export async function newestInLine(records: Records, sandbox: RecordedSandbox): Promise<SnapshotId | null> {
  return tipOf(sandbox, await records.snapshotsOf(sandbox.id))?.id ?? sandbox.head;
}

/** The point of the present generation that no other follows. By links, not by time: a clock can be set back. */
function tipOf(sandbox: RecordedSandbox, own: readonly RecordedSnapshot[]): RecordedSnapshot | undefined {
  const line = own.filter((point) => point.state === 'good' && point.generation === sandbox.generation);
  const followed = new Set(line.map((point) => point.parent));
  return line.findLast((point) => !followed.has(point.id));
}

/** The snapshot, which must be a point of the sandbox's timeline: its own, or of a line that it inherited. */
export async function findInTimeline(
  records: Records,
  sandbox: RecordedSandbox,
  reference: string,
): Promise<RecordedSnapshot> {
  const snapshot = await findSnapshot(records, sandbox.projectId, reference);
  if (snapshot.sandboxId !== sandbox.id && !(await isInherited(records, sandbox, snapshot))) {
    throw new AppError('not_found', `The snapshot "${reference}" is not in the timeline of ${sandbox.id}.`);
  }
  checkGood(snapshot);
  return snapshot;
}

async function isInherited(records: Records, sandbox: RecordedSandbox, wanted: RecordedSnapshot): Promise<boolean> {
  let at = sandbox.origin;
  for (let steps = 0; at !== null && steps < MAX_INHERITED; steps++) {
    if (at === wanted.id) return true;
    const point: RecordedSnapshot | null = await records.findSnapshot(at);
    at = point?.parent ?? null;
  }
  return false;
}

/** Points that are about to be started from, so that they are not deleted meanwhile. Lost at a restart, as their users are. */
export class Pins {
  readonly #counts = new Map<SnapshotId, number>();

  /** Runs `work` with the point pinned. */
  async hold<T>(id: SnapshotId, work: () => Promise<T>): Promise<T> {
    this.pin(id);
    try {
      return await work();
    } finally {
      this.unpin(id);
    }
  }

  pin(id: SnapshotId): void {
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
  }

  unpin(id: SnapshotId): void {
    const count = (this.#counts.get(id) ?? 1) - 1;
    if (count === 0) this.#counts.delete(id);
    else this.#counts.set(id, count);
  }

  has(id: SnapshotId): boolean {
    return this.#counts.has(id);
  }
}

/** Which of a sandbox's points nothing needs any longer. */
export function supersededPausePoints(
  sandbox: RecordedSandbox,
  own: readonly RecordedSnapshot[],
): readonly RecordedSnapshot[] {
  const tip = tipOf(sandbox, own);
  return own.filter(
    (point) =>
      point.cause === 'pause' &&
      point.state === 'good' &&
      point.name === null &&
      point.id !== sandbox.head &&
      point.id !== tip?.id,
  );
}

/** The points that go with a sandbox: named ones stay, unless nobody was ever told of them. */
export async function mortalPoints(records: Records, sandboxId: SandboxId): Promise<readonly SnapshotId[]> {
  const own = await records.snapshotsOf(sandboxId);
  return own.filter((point) => point.name === null || point.state === 'taking').map((point) => point.id);
}
