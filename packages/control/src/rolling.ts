/**
 * Takes the points that the schedule asks for. When one is due and whether there is anything to take is core's to say
 * (`cadence.ts`); the point is an ordinary snapshot of the driver, and yields to whatever else goes on.
 *
 * - What takes long, writing out what is dirty, happens before the operation begins: a user's call meanwhile is not held up.
 * - A sandbox that has an operation in flight is left alone, and is due at the next round.
 * - A point is no use of the sandbox: what is idle stays idle.
 * - None is taken when the vault runs short, or when the budget would be passed; the timeline says so, and misses in a row
 *   lengthen the wait.
 */
import {
  AppError,
  asAppError,
  type Cadence,
  type Changed,
  type ErrorCode,
  isDue,
  isUnchanged,
  type NodeCapabilities,
  policyOf,
  type SandboxId,
  type SnapshotPolicy,
} from '@space/core';
import type { Collector } from './collector.ts';
import { NotRunningError } from './effects.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';

export const ROLL_EVERY_MS = 2_000;
/** Points at once: each writes a sandbox's dirty memory out. */
const PARALLEL_POINTS = 2;
/** A vault with less than this share free, beyond the memory of what runs, takes no more of them; at most so many bytes. */
const SPARE_SHARE = 0.1;
const MAX_SPARE_BYTES = 4 * 2 ** 30;

/** Something else came first: no miss. */
const CAME_FIRST: readonly ErrorCode[] = [
  'operation_in_progress',
  'superseded',
  'not_found',
  'vm_lost',
  'unavailable',
  'node_unavailable',
];

interface Track extends Cadence {
  /** When the last point was begun; null: none of this run yet. */
  readonly pointAtMs: number | null;
}

export class RollingPoints {
  readonly #machinery: Machinery;
  readonly #collector: Collector;
  readonly #tracks = new Map<SandboxId, Track>();
  readonly #underWay = new Map<SandboxId, Promise<void>>();

  constructor(machinery: Machinery, collector: Collector) {
    this.#machinery = machinery;
    this.#collector = collector;
  }

  /** What is begun here ends by itself; see `settled`. */
  async round(sandboxes: readonly RecordedSandbox[]): Promise<void> {
    const { records, node, clock, logger } = this.#machinery.ports;
    const nowMs = clock.monotonicMs();
    const running = sandboxes.filter(({ settled }) => settled === 'running');
    this.#keepTracksOf(running, nowMs);
    const ofProjects = await records.tenants.snapshotPolicies();
    let capabilities: NodeCapabilities | null = null;
    for (const sandbox of running) {
      const policy = policyOf(sandbox.snapshotPolicy, ofProjects.get(sandbox.projectId) ?? {});
      if (sandbox.operation !== null || !this.#isDue(sandbox.id, policy, nowMs)) continue;
      if (this.#underWay.has(sandbox.id) || this.#underWay.size >= PARALLEL_POINTS) continue;
      capabilities ??= await node.capabilities();
      const hasRoom = hasRoomFor(capabilities, sandbox, running);
      const attempt = this.#attempt(sandbox, policy, hasRoom)
        .catch((err: unknown) => logger.warn({ sandboxId: sandbox.id, err }, 'a rolling point was not taken'))
        .finally(() => this.#underWay.delete(sandbox.id));
      this.#underWay.set(sandbox.id, attempt);
    }
  }

  /** When what is under way has ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  /** The first is due a whole interval after it was seen to run. */
  #keepTracksOf(running: readonly RecordedSandbox[], nowMs: number): void {
    const ids = new Set(running.map(({ id }) => id));
    for (const id of this.#tracks.keys()) if (!ids.has(id)) this.#tracks.delete(id);
    for (const id of ids) {
      if (!this.#tracks.has(id)) this.#tracks.set(id, { lastAtMs: nowMs, misses: 0, pointAtMs: null });
    }
  }

  #isDue(id: SandboxId, { everyMs }: SnapshotPolicy, nowMs: number): boolean {
    const track = this.#tracks.get(id);
    return track !== undefined && isDue(track, everyMs, nowMs);
  }

  async #attempt(sandbox: RecordedSandbox, policy: SnapshotPolicy, hasRoom: boolean): Promise<void> {
    const { ports, activity } = this.#machinery;
    const { id } = sandbox;
    const track = this.#tracks.get(id);
    if (track === undefined) return;
    const lastAtMs = ports.clock.monotonicMs();
    const next = (outcome: Partial<Track>) => {
      if (this.#tracks.has(id)) this.#tracks.set(id, { ...track, lastAtMs, ...outcome });
    };
    next({});
    if (isUnchanged(await this.#changed(id), activity.usedSince(id, track.pointAtMs))) return next({ misses: 0 });
    const skip = async (code: ErrorCode) => {
      next({ misses: track.misses + 1 });
      await ports.records.history.noteSkip(sandbox, { at: new Date(ports.clock.now()), code });
    };
    if (!hasRoom) return skip('insufficient_space');
    try {
      const stoodMs = await this.#take(id, policy.budgetMs);
      next({ misses: stoodMs > policy.budgetMs ? track.misses + 1 : 0, pointAtMs: lastAtMs });
      this.#collector.kick(id);
    } catch (thrown) {
      if (thrown instanceof NotRunningError) return;
      const { code } = asAppError(thrown);
      if (!CAME_FIRST.includes(code)) await skip(code);
    }
  }

  /** Null: that is not known. */
  async #changed(id: SandboxId): Promise<Changed | null> {
    const { node, logger } = this.#machinery.ports;
    try {
      return await node.changed(id);
    } catch (err) {
      logger.warn({ sandboxId: id, err }, 'the changes of a sandbox could not be measured');
      return null;
    }
  }

  /** How long user processes stood still. */
  #take(id: SandboxId, budgetMs: number): Promise<number> {
    const { driver, effects, activity } = this.#machinery;
    return activity.unused(id, async () => {
      const { sandbox, result } = await driver.perform(id, 'snapshot', effects.unasked('rolling', budgetMs));
      if (result === undefined) throw new AppError('internal', 'A snapshot ended without a point.');
      return { epoch: sandbox.epoch, value: result.timings?.frozenMs ?? 0 };
    });
  }
}

/** Guests may rewrite all their memory after a point, so that much is theirs. */
function hasRoomFor(
  { vaults }: NodeCapabilities,
  { vault: name }: RecordedSandbox,
  running: readonly RecordedSandbox[],
): boolean {
  const vault = vaults.find((one) => one.name === name);
  if (vault === undefined) return true;
  const promisedMib = running.filter((one) => one.vault === name).reduce((sum, { size }) => sum + size.memoryMib, 0);
  const spareBytes = Math.min(MAX_SPARE_BYTES, vault.totalBytes * SPARE_SHARE);
  return vault.availableBytes - promisedMib * 2 ** 20 >= spareBytes;
}
