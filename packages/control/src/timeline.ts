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
 * Every point has its place in the sandbox's own time, in which none comes before an earlier one: so the tip of a line is
 * its newest point, whatever the clock said.
 */
import { AppError, policyOf, type SandboxId, type SnapshotId, type SnapshotPolicy } from '@space/core';
import type { ControlPorts } from './ports.ts';
import type { RecordedSandbox, RecordedSnapshot, Records } from './records.ts';
import { findSnapshot } from './scope.ts';

/** How far back a rewind looks through the lines that a sandbox inherited. */
const MAX_INHERITED = 10_000;

/** Throws `snapshot_bad` with the reason. */
function checkGood(snapshot: RecordedSnapshot): void {
  if (snapshot.state === 'good') return;
  throw new AppError('snapshot_bad', snapshot.badReason ?? `The snapshot ${snapshot.id} cannot be restored.`);
}

/** The newest point of the line that the sandbox is on, which the next one follows; null: it has none. */
export async function newestInLine({ history }: Records, sandbox: RecordedSandbox): Promise<SnapshotId | null> {
  return (await history.tip(sandbox.id, sandbox.generation))?.id ?? sandbox.head;
}

/** The policy that holds for the sandbox now. */
export async function policyFor(records: Records, sandbox: RecordedSandbox): Promise<SnapshotPolicy> {
  const ofProjects = await records.tenants.snapshotPolicies(sandbox.projectId);
  return policyOf(sandbox.snapshotPolicy, ofProjects.get(sandbox.projectId) ?? {});
}

/** A past point as a caller names it; see `pastPoint` of the contract. */
export type PastPoint = string | { readonly at: string } | { readonly agoMs: number };

/** The snapshot, which must be a point of the sandbox's timeline: its own, or of a line that it inherited. */
export async function findInTimeline(
  { records, clock }: Pick<ControlPorts, 'records' | 'clock'>,
  sandbox: RecordedSandbox,
  wanted: PastPoint,
): Promise<RecordedSnapshot> {
  if (typeof wanted !== 'string') {
    return findAt(records, sandbox, new Date('at' in wanted ? wanted.at : clock.now() - wanted.agoMs), clock.now());
  }
  const snapshot = await findSnapshot(records, sandbox.projectId, wanted);
  if (snapshot.sandboxId !== sandbox.id && !(await isInherited(records, sandbox, snapshot))) {
    throw new AppError('not_found', `The snapshot "${wanted}" is not in the timeline of ${sandbox.id}.`);
  }
  checkGood(snapshot);
  return snapshot;
}

/** The newest point at a time, whichever line it is on; before the sandbox was, that of the line which it inherited. */
async function findAt(records: Records, sandbox: RecordedSandbox, at: Date, nowMs: number): Promise<RecordedSnapshot> {
  if (at.getTime() > nowMs) throw new AppError('bad_request', `${at.toISOString()} is not past yet.`);
  const own = await records.history.newestAt(sandbox.id, at);
  if (own !== null) return own;
  for await (const point of inherited(records, sandbox)) {
    if (point.takenAt <= at && point.state === 'good') return point;
  }
  throw new AppError('not_found', `There is no snapshot of ${sandbox.id} from ${at.toISOString()} or before.`);
}

async function* inherited(records: Records, sandbox: RecordedSandbox): AsyncGenerator<RecordedSnapshot, void> {
  let at = sandbox.origin;
  for (let steps = 0; at !== null && steps < MAX_INHERITED; steps++) {
    const point: RecordedSnapshot | null = await records.findSnapshot(at);
    if (point === null) return;
    yield point;
    at = point.parent;
  }
}

async function isInherited(records: Records, sandbox: RecordedSandbox, wanted: RecordedSnapshot): Promise<boolean> {
  for await (const point of inherited(records, sandbox)) if (point.id === wanted.id) return true;
  return false;
}

/** Points that are about to be started from, so that they are not deleted meanwhile. Lost at a restart, as their users are. */
export class Pins {
  readonly #counts = new Map<SnapshotId, number>();

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

  all(): readonly SnapshotId[] {
    return [...this.#counts.keys()];
  }
}

/** Finds a point, pins it, and looks whether it is still there. */
export async function pinned(pins: Pins, find: () => Promise<RecordedSnapshot>): Promise<RecordedSnapshot> {
  const { id } = await find();
  pins.pin(id);
  try {
    const still = await find();
    checkGood(still);
    return still;
  } catch (thrown) {
    pins.unpin(id);
    throw thrown;
  }
}

/** The points that go with a sandbox: named ones stay, unless nobody was ever told of them. */
export async function mortalPoints(records: Records, sandboxId: SandboxId): Promise<readonly SnapshotId[]> {
  const own = await records.snapshotsOf(sandboxId);
  return own.filter((point) => point.name === null || point.state === 'taking').map((point) => point.id);
}
