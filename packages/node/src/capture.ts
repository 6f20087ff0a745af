/**
 * The window: how a running VM becomes a point.
 *
 * ```
 *   flush (×2)    freeze ── stop ── device state ── capture ── run ── thaw      commit
 *   VM runs       └──────── user processes stand still ─────────────────┘      VM runs
 *                           └────── vCPUs stand still ───────┘
 * ```
 *
 * What takes long (writing dirty pages out, making the point durable) happens outside the window. The user's processes
 * are frozen inside it, so that in every copy nothing of the user's runs before the copy knows who it is. Where the VM does
 * not go on afterwards, nobody feels how long it stands still: then the freeze comes beside the flush.
 */

import { createHash } from 'node:crypto';
import {
  AppError,
  asAppError,
  type Changed,
  type Clock,
  MANIFEST_FORMAT,
  type PointManifest,
  type SnapshotId,
  type TakenPoint,
  type Tracer,
} from '@space/core';
import type { Life } from './life.ts';
import type { Spares } from './start-life.ts';

const SHORT_FLUSH_MS = 40;

/** What is known of a point before it is taken, of either kind. */
export interface PointPlan {
  readonly snapshotId: SnapshotId;
  readonly owner: PointManifest['owner'];
  readonly parent: SnapshotId | null;
  readonly size: PointManifest['size'];
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly spares: Spares;
  /** Throws when the order was superseded; called before each effect. */
  readonly check: () => void;
}

export interface CapturePlan extends PointPlan {
  /** User processes that do not stand still within this time (e.g. stuck in the kernel) make the capture fail. */
  readonly freezeTimeoutMs: number;
  /** The longest that they may stand still in all; absent: however long it takes. */
  readonly budgetMs?: number;
  /** The VM is to stay stopped afterwards. */
  readonly ending?: boolean;
}

/** A point that is staged and whose VM still stands still. Exactly one of `keepRunning` and `leaveStopped` follows. */
export interface CapturedPoint {
  /** Lets the VM go on, then makes the point durable. */
  keepRunning(): Promise<TakenPoint>;
  /** Makes the point durable; the VM stays stopped. */
  leaveStopped(): Promise<TakenPoint>;
  /** Drops the point and lets the VM go on. */
  undo(): Promise<void>;
}

export async function capture(life: Life, plan: CapturePlan): Promise<CapturedPoint> {
  const { clock, tracer } = plan;
  const phase = <T>(name: string, work: () => Promise<T>): Promise<T> => tracer.span({ name }, work);
  const startedAt = clock.monotonicMs();
  const flushed = flush(life, plan);
  if (plan.ending !== true) await flushed;
  // Until it is waited for below, the freeze may fail first.
  flushed.catch(() => undefined);
  const guest = await life.guest();
  const frozenAt = clock.monotonicMs();
  let changed: Changed | null;
  let stoppedAt: number;
  let deviceState: Uint8Array;
  let takenAt: string;
  try {
    const freezeTimeoutMs = Math.min(plan.freezeTimeoutMs, plan.budgetMs ?? plan.freezeTimeoutMs);
    await phase('freeze', () => guest.freeze(freezeTimeoutMs));
    changed = await flushed;
    stoppedAt = clock.monotonicMs();
    await phase('stop', () => life.vm.stop());
    takenAt = new Date(clock.now()).toISOString();
    deviceState = await phase('device state', () => life.vm.checkpoint());
    checkBudget(plan, clock.monotonicMs() - frozenAt);
    await phase('capture', () => life.vault.capture(life.lifeId, plan.snapshotId));
  } catch (error) {
    // Silent once, its agent is not asked the same way again: the next use opens a fresh channel.
    if (isSilence(error)) life.goOnAtNextUse();
    const causes = [error];
    await goOn(life, plan.snapshotId).catch((later: unknown) => causes.push(later));
    if (error instanceof AppError && error.code === 'over_budget') throw error;
    checkBudget(plan, clock.monotonicMs() - frozenAt, error);
    const detail = `The snapshot of ${life.lifeId} failed: ${causes.map((cause) => asAppError(cause).message).join(' ')}`;
    throw new AppError('snapshot_failed', detail, { cause: error });
  }
  const capturedAt = clock.monotonicMs();

  const commit = async (times: { stoppedMs: number; frozenMs: number }, ending: boolean): Promise<TakenPoint> => {
    try {
      plan.check();
      const manifest = manifestOf(plan, life, { deviceState, takenAt });
      const write = () => life.vault.commit(manifest, deviceState, { ending });
      await phase('commit', () => plan.spares.withSpace(life.vault, write));
    } catch (error) {
      await life.vault.abandon(plan.snapshotId);
      throw error;
    }
    return {
      snapshotId: plan.snapshotId,
      parent: plan.parent,
      takenAt,
      ...times,
      totalMs: clock.monotonicMs() - startedAt,
      changed,
    };
  };

  return {
    async keepRunning() {
      let ranAt = stoppedAt;
      const onRun = () => {
        ranAt = clock.monotonicMs();
      };
      try {
        await phase('go on', () => life.goOn(onRun));
      } catch (error) {
        // Its VM is gone, and there may be no other occasion.
        await life.vault.abandon(plan.snapshotId);
        throw error;
      }
      return commit({ stoppedMs: ranAt - stoppedAt, frozenMs: clock.monotonicMs() - frozenAt }, false);
    },
    leaveStopped: () => commit({ stoppedMs: capturedAt - stoppedAt, frozenMs: capturedAt - frozenAt }, true),
    undo: () => goOn(life, plan.snapshotId),
  };
}

/**
 * A point of the disk alone, of one instant as a power cut would leave it. Nothing stands still for it, and the agent is
 * not asked: so it can be had of a guest whose processes cannot be frozen in time, or whose agent is silent.
 */
export async function captureDisk(life: Life, plan: PointPlan): Promise<TakenPoint> {
  const { snapshotId, parent, clock, tracer } = plan;
  const startedAt = clock.monotonicMs();
  const changed = await flush(life, plan);
  const takenAt = new Date(clock.now()).toISOString();
  try {
    await tracer.span({ name: 'capture' }, () => life.vault.capture(life.lifeId, snapshotId));
    plan.check();
    const manifest = manifestOf(plan, life, { deviceState: null, takenAt });
    const write = () => life.vault.commit(manifest, null);
    await tracer.span({ name: 'commit' }, () => plan.spares.withSpace(life.vault, write));
  } catch (error) {
    await life.vault.abandon(snapshotId);
    throw error;
  }
  return { snapshotId, parent, takenAt, stoppedMs: 0, frozenMs: 0, totalMs: clock.monotonicMs() - startedAt, changed };
}

/** Writes out what is dirty while the guest runs, and says how much has changed; null: that could not be measured. */
async function flush(life: Life, plan: PointPlan & { readonly ending?: boolean }): Promise<Changed | null> {
  const { clock, tracer, check, ending = false } = plan;
  const startedAt = clock.monotonicMs();
  // Beside it, and told for information: that it cannot be measured stops no point.
  const measured = life.vault.changed(life.lifeId).catch(() => null);
  await tracer.span({ name: 'flush' }, () => life.vault.flush(life.lifeId, { ending }));
  // What was written meanwhile; after a short flush that is so little that it can be left to the capture.
  if (!ending && clock.monotonicMs() - startedAt > SHORT_FLUSH_MS) {
    await tracer.span({ name: 'flush again' }, () => life.vault.flush(life.lifeId));
  }
  const changed = await measured;
  check();
  return changed;
}

/** Throws `over_budget`. What is left of the window is one metadata operation. */
function checkBudget({ budgetMs }: CapturePlan, stoodMs: number, cause?: unknown): void {
  if (budgetMs === undefined || stoodMs <= budgetMs) return;
  const stood = Math.round(stoodMs);
  const detail = `The sandbox had stood still for ${stood} ms of its budget of ${budgetMs} ms before the point was taken.`;
  const options = cause === undefined ? undefined : { cause };
  throw new AppError('over_budget', { detail, facts: { budgetMs, stoodMs: stood } }, options);
}

/** Brings a VM from anywhere in the window back to running and removes the point, staged or committed. */
async function goOn(life: Life, snapshotId: SnapshotId): Promise<void> {
  try {
    await life.goOn();
  } finally {
    await life.vault.abandon(snapshotId);
    await life.vault.deletePoint(snapshotId);
  }
}

function isSilence(error: unknown): boolean {
  return error instanceof AppError && error.code === 'agent_lost';
}

function manifestOf(
  plan: PointPlan,
  { lifeId, vm }: Life,
  { deviceState, takenAt }: { readonly deviceState: Uint8Array | null; readonly takenAt: string },
): PointManifest {
  const owner = plan.owner.kind === 'sandbox' ? { ...plan.owner, lifeId } : plan.owner;
  return {
    format: MANIFEST_FORMAT,
    snapshotId: plan.snapshotId,
    owner,
    parent: plan.parent,
    size: plan.size,
    machine: vm.machine,
    deviceState:
      deviceState === null
        ? null
        : { sha256: createHash('sha256').update(deviceState).digest('hex'), sizeBytes: deviceState.length },
    frozen: deviceState !== null,
    takenAt,
  };
}
