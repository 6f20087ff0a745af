/**
 * Removes the points that nothing holds any more. Which those are is core's to say (`retention.ts`); here they are *doomed*
 * in the sandbox's turn, and then removed from their vaults one by one, at a pace that a guest's writes do not feel.
 *
 * - A point stays while it is named or pinned, while its sandbox would go on from it, and while something starts from it.
 * - What is doomed is found by nobody, and is removed however often that has to be tried; one that resists keeps no other.
 * - Also doomed are points that were asked for and never completed, and those in a vault that no record tells of, once they
 *   have been seen so for a while. A point of a sandbox that the records do not know is left alone.
 * - What lies in a vault that is closed waits until somebody has opened it: nothing is opened for this.
 * - Freed space counts once the vault has it: it is measured there, and never added up here.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { decideRetention, gapLimitMs, type SandboxId, type SnapshotId, sandboxTime, type VaultName } from '@space/core';
import { agingOf, headsOf, inOrder } from './holds.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';
import { policyFor } from './timeline.ts';

/** A sandbox is looked at when anything happened to it, and not more often than this. */
const LOOK_EVERY_MS = 30_000;
/** All are, at least so often: projects change their policies, and time passes. */
const LOOK_AT_LEAST_EVERY_MS = 10 * 60_000;
const REMOVAL_PAUSE_MS = 100;
/**
 * After each removal, in terms of what it took: that is a few milliseconds, or seconds for a point of a guest that rewrites pages all
 * over its memory, during which each `fsync` in the vault waits.
 */
const REST_PER_REMOVAL = 9;
const MAX_REST_MS = 15_000;
const BATCH = 50;
const MIN_RETRY_MS = 5_000;
const MAX_RETRY_MS = 10 * 60_000;
/** How long a point must have been without a record before it is removed. */
const GRACE_MS = 10 * 60_000;

interface Look {
  readonly atMs: number;
  /** Of the sandbox as it was then. */
  readonly updatedAt: Date;
}

export class Collector {
  readonly #machinery: Machinery;
  readonly #removalPauseMs: number;
  readonly #looks = new Map<SandboxId, Look>();
  readonly #due = new Set<SandboxId>();
  /** Points without a record, by when they were first seen. */
  readonly #strays = new Map<SnapshotId, { readonly vault: VaultName; readonly sinceMs: number }>();
  #strayRoundMs: number;
  #working: Promise<void> | null = null;
  readonly #stop = new AbortController();
  /** How many wait for the space, and what ends rests while any does. */
  #hurried = 0;
  #hurry = new AbortController();

  constructor(machinery: Machinery, { removalPauseMs = REMOVAL_PAUSE_MS } = {}) {
    this.#removalPauseMs = removalPauseMs;
    this.#machinery = machinery;
    this.#strayRoundMs = machinery.ports.clock.monotonicMs();
  }

  /** It has a new point: right after a commit is a good time to remove old ones. */
  kick(id: SandboxId): void {
    this.#due.add(id);
    this.#begin();
  }

  /** Looks at whom it is time to look at. */
  round(sandboxes: readonly RecordedSandbox[]): void {
    const nowMs = this.#machinery.ports.clock.monotonicMs();
    const ids = new Set(sandboxes.map(({ id }) => id));
    for (const id of this.#looks.keys()) if (!ids.has(id)) this.#looks.delete(id);
    for (const { id, updatedAt } of sandboxes) {
      const look = this.#looks.get(id);
      const isNews = look?.updatedAt.getTime() !== updatedAt.getTime();
      if (isNews || nowMs - look.atMs >= LOOK_AT_LEAST_EVERY_MS) this.#due.add(id);
    }
    this.#begin();
  }

  /** Removes what was doomed until now, without resting. */
  async removeNow(): Promise<void> {
    this.#hurried += 1;
    this.#hurry.abort();
    try {
      // What is under way may have looked before.
      await this.#working;
      this.#begin();
      await this.#working;
    } finally {
      this.#hurried -= 1;
      if (this.#hurried === 0) this.#hurry = new AbortController();
    }
  }

  /** When what is under way has ended. */
  async settled(): Promise<void> {
    await this.#working;
  }

  /** What is left is gone on with by the next process. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#working;
  }

  #begin(): void {
    if (this.#stop.signal.aborted) return;
    this.#working ??= this.#work()
      .catch((err: unknown) => this.#machinery.ports.logger.warn({ err }, 'points are left to be removed'))
      .finally(() => {
        this.#working = null;
      });
  }

  async #work(): Promise<void> {
    await this.#lookAtDue();
    await this.#findStrays();
    await this.#removeDoomed();
  }

  async #lookAtDue(): Promise<void> {
    const nowMs = this.#machinery.ports.clock.monotonicMs();
    const isRipe = (id: SandboxId) => nowMs - (this.#looks.get(id)?.atMs ?? Number.NEGATIVE_INFINITY) >= LOOK_EVERY_MS;
    const ripe = [...this.#due].filter(isRipe);
    if (ripe.length === 0) return;
    const all = await this.#machinery.ports.records.allSandboxes();
    const heads = headsOf(all);
    for (const id of ripe) {
      this.#due.delete(id);
      await this.#safely(id, () => this.#look(id, heads));
    }
  }

  /** One bad item does not keep the others from their turn. */
  async #safely(id: SandboxId | SnapshotId | VaultName, work: () => Promise<void>): Promise<void> {
    if (this.#stop.signal.aborted) return;
    await work().catch((err: unknown) => this.#machinery.ports.logger.warn({ id, err }, 'a collection failed'));
  }

  /** In the sandbox's turn, so that no operation that needs a point begins meanwhile. */
  #look(id: SandboxId, heads: ReadonlySet<SnapshotId>): Promise<void> {
    const { ports, driver, pins } = this.#machinery;
    const { records, clock } = ports;
    return driver.exclusively(id, async () => {
      const sandbox = await records.findSandbox(id);
      if (sandbox === null || sandbox.settled === 'deleted' || sandbox.operation !== null) return;
      this.#looks.set(id, { atMs: clock.monotonicMs(), updatedAt: sandbox.updatedAt });
      const points = inOrder(await records.history.aging(id));
      const newest = points.at(-1);
      if (newest === undefined) return;
      const policy = await policyFor(records, sandbox);
      const before = { timeMs: newest.timeMs, takenAtMs: newest.takenAt.getTime() };
      const nowMs = sandboxTime(before, clock.now(), gapLimitMs(policy));
      const aging = agingOf(sandbox, points, { heads, pins });
      const fates = decideRetention(aging, policy.retention, nowMs);
      const going = points.filter((point) => fates.get(point.id)?.kind === 'collect').map((point) => point.id);
      if (going.length > 0) await records.history.doom(going, new Date(clock.now()));
    });
  }

  async #removeDoomed(): Promise<void> {
    const { ports, pins, vaults } = this.#machinery;
    const { records, clock } = ports;
    for (;;) {
      // What starts from one now, or exports it, was found before it was doomed: it waits, and nobody behind it does.
      const free = await records.history.doomed(BATCH, new Date(clock.now()), {
        except: pins.all(),
        // Those of a vault that is closed go when somebody has opened it.
        among: await vaults.opened(),
      });
      for (const { id, vault, attempts } of free) {
        if (this.#stop.signal.aborted) return;
        if (pins.has(id)) continue;
        const startedAtMs = clock.monotonicMs();
        await this.#remove(id, vault, attempts);
        await this.#rest(clock.monotonicMs() - startedAtMs);
      }
      if (free.length < BATCH) return;
    }
  }

  /** Not while somebody waits for the space. */
  async #rest(tookMs: number): Promise<void> {
    const restMs = Math.max(this.#removalPauseMs, Math.min(MAX_REST_MS, tookMs * REST_PER_REMOVAL));
    const signal = AbortSignal.any([this.#stop.signal, this.#hurry.signal]);
    await sleep(restMs, undefined, { signal }).catch(() => undefined);
  }

  async #remove(id: SnapshotId, vault: VaultName, attempts: number): Promise<void> {
    const { records, node, clock, logger } = this.#machinery.ports;
    try {
      await node.deletePoint(vault, id);
    } catch (err) {
      const waitMs = Math.min(MAX_RETRY_MS, MIN_RETRY_MS * 2 ** Math.min(attempts, 10));
      logger.warn({ snapshotId: id, attempts, err }, 'a point could not be removed yet');
      await records.history.resisted(id, new Date(clock.now() + waitMs));
      return;
    }
    await records.history.removed(id);
  }

  /** Now and then: what an operation that was cut short has left. */
  async #findStrays(): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#strayRoundMs < GRACE_MS) return;
    this.#strayRoundMs = nowMs;
    const at = new Date(clock.now());
    await records.history.doom(await records.history.abandoned(new Date(at.getTime() - GRACE_MS), BATCH), at);
    for (const vault of await this.#machinery.vaults.opened())
      await this.#safely(vault, () => this.#findStraysIn(vault, nowMs, at));
  }

  async #findStraysIn(vault: VaultName, nowMs: number, at: Date): Promise<void> {
    const { records, node } = this.#machinery.ports;
    const found = await node.points(vault);
    const known = await records.history.known(found);
    const strays = new Set(found.filter((id) => !known.has(id)));
    for (const [id, stray] of this.#strays) if (stray.vault === vault && !strays.has(id)) this.#strays.delete(id);
    for (const id of strays) {
      const { sinceMs } = this.#strays.get(id) ?? { sinceMs: nowMs };
      this.#strays.set(id, { vault, sinceMs });
      if (nowMs - sinceMs >= GRACE_MS) await this.#safely(id, () => this.#endStray(vault, id, at));
    }
  }

  async #endStray(vault: VaultName, id: SnapshotId, at: Date): Promise<void> {
    const { records, node, logger } = this.#machinery.ports;
    const owner = await node.pointOwner(vault, id);
    // Null: the ready snapshot of a template.
    if (owner === null) return;
    const sandbox = await records.findSandbox(owner);
    // It may be an import's, which records its points when all are there.
    if (sandbox !== null && sandbox.operation !== null) return;
    if (sandbox === null) {
      logger.warn({ snapshotId: id, sandboxId: owner }, 'a point of an unknown sandbox is left alone');
      return;
    }
    await records.history.doomUnknown(vault, id, at);
  }
}
