/**
 * Takes the points that the schedule asks for. When one is due and whether there is anything to take is core's to say
 * (`cadence.ts`); the point is an ordinary snapshot of the driver, and yields to whatever else goes on.
 *
 * - What takes long, writing out what is dirty, happens before the operation begins: a user's call meanwhile is not held up.
 * - A sandbox that has an operation in flight is left alone, and is due at the next round.
 * - A point is no use of the sandbox: what is idle stays idle.
 * - Where one with memory passes its budget, or cannot be had, one of the disk is taken in its place, and says why.
 * - None is taken when the vault runs short, or when the disk is as it was at the point before; the timeline says so.
 */
import {
  AppError,
  asAppError,
  type Cadence,
  type Changed,
  dueKind,
  type ErrorCode,
  isOfMemoryOnly,
  isUnchanged,
  type NodeCapabilities,
  policyOf,
  type SandboxId,
  type SnapshotKind,
  type SnapshotPolicy,
  snapshotEveryMs,
} from '@space/core';
import type { Collector } from './collector.ts';
import { type HowTaken, NotRunningError } from './effects.ts';
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
  /** When the last point with memory was begun; null: none of this run yet. */
  readonly pointAtMs: number | null;
  /** Whether the last point holds the disk alone, so that one with memory is worth having though nothing changed since. */
  readonly isDegraded: boolean;
}

interface Due {
  readonly sandbox: RecordedSandbox;
  readonly policy: SnapshotPolicy;
  readonly kind: SnapshotKind;
  readonly hasRoom: boolean;
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
      const kind = this.#dueKind(sandbox.id, policy, nowMs);
      if (sandbox.operation !== null || kind === null) continue;
      if (this.#underWay.has(sandbox.id) || this.#underWay.size >= PARALLEL_POINTS) continue;
      capabilities ??= await node.capabilities();
      const hasRoom = hasRoomFor(capabilities, sandbox, running);
      const attempt = this.#attempt({ sandbox, policy, kind, hasRoom })
        .catch((err: unknown) => logger.warn({ sandboxId: sandbox.id, err }, 'a rolling point was not taken'))
        .finally(() => {
          this.#underWay.delete(sandbox.id);
          this.#update(sandbox.id, { tookMs: clock.monotonicMs() - nowMs });
        });
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
      if (this.#tracks.has(id)) continue;
      const memory = { lastAtMs: nowMs, misses: 0, because: null };
      this.#tracks.set(id, { lastAtMs: nowMs, tookMs: 0, misses: 0, memory, pointAtMs: null, isDegraded: false });
    }
  }

  #dueKind(id: SandboxId, policy: SnapshotPolicy, nowMs: number): SnapshotKind | null {
    const track = this.#tracks.get(id);
    return track === undefined ? null : dueKind(track, snapshotEveryMs(policy), nowMs);
  }

  #update(id: SandboxId, changes: Partial<Track>): void {
    const track = this.#tracks.get(id);
    if (track !== undefined) this.#tracks.set(id, { ...track, ...changes });
  }

  async #attempt({ sandbox, policy, kind, hasRoom }: Due): Promise<void> {
    const { ports, activity } = this.#machinery;
    const { id } = sandbox;
    const track = this.#tracks.get(id);
    if (track === undefined) return;
    const lastAtMs = ports.clock.monotonicMs();
    this.#update(id, { lastAtMs });
    const changed = await this.#changed(id);
    const isQuiet = isUnchanged(changed, activity.usedSince(id, track.pointAtMs));
    if (isQuiet && !track.isDegraded) return this.#update(id, { misses: 0 });
    if (!hasRoom) return this.#skip(sandbox, 'insufficient_space');
    const because = kind === 'memory' ? await this.#tryMemory(sandbox, policy, lastAtMs) : track.memory.because;
    if (because === null) return;
    const isAsBefore = changed !== null && changed.diskBytes === 0;
    if (!isOfMemoryOnly(because)) await this.#skip(sandbox, because);
    else if (!isAsBefore) await this.#tryDisk(sandbox, because);
    // Nothing but memory changed, of which none can be kept now.
    else if (!isQuiet) await this.#skip(sandbox, because, { misses: 0 });
  }

  /** Why none was taken; null: one was, or something else came first. */
  async #tryMemory({ id }: RecordedSandbox, { budgetMs }: SnapshotPolicy, lastAtMs: number): Promise<ErrorCode | null> {
    const before = this.#tracks.get(id)?.memory.misses ?? 0;
    const note = (because: ErrorCode | null) => ({ lastAtMs, misses: because === null ? 0 : before + 1, because });
    try {
      const stoodMs = await this.#take(id, { kind: 'memory', budgetMs });
      const memory = note(stoodMs > budgetMs ? 'over_budget' : null);
      this.#update(id, { misses: 0, memory, pointAtMs: lastAtMs, isDegraded: false });
      return null;
    } catch (thrown) {
      const code = missOf(thrown);
      if (code !== null && isOfMemoryOnly(code)) this.#update(id, { memory: note(code) });
      return code;
    }
  }

  async #tryDisk(sandbox: RecordedSandbox, because: ErrorCode): Promise<void> {
    try {
      await this.#take(sandbox.id, { kind: 'disk', because });
      this.#update(sandbox.id, { misses: 0, isDegraded: true });
    } catch (thrown) {
      const code = missOf(thrown);
      if (code !== null) await this.#skip(sandbox, code);
    }
  }

  async #skip(sandbox: RecordedSandbox, code: ErrorCode, changes?: Partial<Track>): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    const misses = (this.#tracks.get(sandbox.id)?.misses ?? 0) + 1;
    this.#update(sandbox.id, changes ?? { misses });
    await records.history.noteSkip(sandbox, { at: new Date(clock.now()), code });
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
  async #take(id: SandboxId, how: HowTaken): Promise<number> {
    const { driver, effects, activity } = this.#machinery;
    const stoodMs = await activity.unused(id, async () => {
      const { sandbox, result } = await driver.perform(id, 'snapshot', effects.unasked('rolling', how));
      if (result === undefined) throw new AppError('internal', 'A snapshot ended without a point.');
      return { epoch: sandbox.epoch, value: result.timings?.frozenMs ?? 0 };
    });
    this.#collector.kick(id);
    return stoodMs;
  }
}

/** Null: something else came first, which is no miss. */
function missOf(thrown: unknown): ErrorCode | null {
  if (thrown instanceof NotRunningError) return null;
  const { code } = asAppError(thrown);
  return CAME_FIRST.includes(code) ? null : code;
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
