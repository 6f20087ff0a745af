/**
 * The window: how a running VM becomes a point.
 *
 * ```
 *   flush (×2)    freeze ── stop ── device state ── seal ── run ── thaw
 *   VM runs       └──────── user processes stand still ──────────────┘
 *                           └────── vCPUs stand still ────┘
 * ```
 *
 * What takes long (writing dirty pages out, and what the file system notes about them) happens outside the window; the seal makes the
 * point, whole and durable, in one transaction. The user's processes
 * are frozen inside it, so that in every copy nothing of the user's runs before the copy knows who it is. Where the VM does
 * not go on afterwards, nobody feels how long it stands still: then the flush comes last, beside the device state and what the seal
 * lays down before the point. A guest that runs waits for each page that is just being written out before it may write to it, and so
 * does its freeze.
 */

import { createHash } from 'node:crypto';
import {
  AppError,
  asAppError,
  type Changed,
  type Clock,
  type ErrorCode,
  MANIFEST_FORMAT,
  type PointManifest,
  type SnapshotId,
  type TakenPoint,
  type Tracer,
} from '@space/core';
import type { Life } from './life.ts';
import type { Spares } from './start-life.ts';

const SHORT_FLUSH_MS = 40;
/** What these say is not that the snapshot is at fault. */
const SAID_AS_IT_IS: ReadonlySet<ErrorCode> = new Set(['over_budget', 'superseded', 'insufficient_space']);

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

/** A point that is there, and whose VM still stands still. Either of the calls, or none when the life ends. */
export interface CapturedPoint {
  /** As it is told of when the VM stays stopped. */
  readonly point: TakenPoint;
  /** Lets the VM go on; when it cannot, the point is removed. */
  keepRunning(): Promise<TakenPoint>;
  /** Lets the VM go on and removes the point. */
  undo(): Promise<void>;
}

/** As a captured point whose VM is not to go on. */
type CapturedFiles = Pick<CapturedPoint, 'point' | 'undo'>;

export async function capture(life: Life, plan: CapturePlan): Promise<CapturedPoint> {
  const { clock, tracer, spares, ending = false } = plan;
  const phase = <T>(name: string, work: () => Promise<T>): Promise<T> => tracer.span({ name }, work);
  const startedAt = clock.monotonicMs();
  // What ends gives more back than its point takes.
  if (!ending) await spares.withSpace(life.vault, () => life.vault.requireRoom(life.lifeId));
  const flushed = ending ? null : await flush(life, plan);
  const guest = await life.guest();
  const frozenAt = clock.monotonicMs();
  let changed: Changed | null = flushed;
  let stoppedAt: number;
  let takenAt: string;
  try {
    const freezeTimeoutMs = Math.min(plan.freezeTimeoutMs, plan.budgetMs ?? plan.freezeTimeoutMs);
    await phase('freeze', () => guest.freeze(freezeTimeoutMs));
    stoppedAt = clock.monotonicMs();
    await phase('stop', () => life.vm.stop());
    takenAt = new Date(clock.now()).toISOString();
    const flushing = ending ? flush(life, plan) : null;
    // Until it is waited for, the checkpoint may fail first.
    flushing?.catch(() => undefined);
    const deviceState = await phase('device state', () => life.vm.checkpoint());
    const ready = async () => {
      if (flushing !== null) changed = await flushing;
      checkBudget(plan, clock.monotonicMs() - frozenAt);
      plan.check();
    };
    const manifest = manifestOf(plan, life, { deviceState, takenAt });
    const seal = () => life.vault.seal(life.lifeId, manifest, deviceState, ready);
    await phase('seal', () => (ending ? spares.withSpace(life.vault, seal) : seal()));
  } catch (error) {
    throw await failureOf(life, plan, frozenAt, error);
  }
  const sealedAt = clock.monotonicMs();
  const { snapshotId, parent } = plan;
  const point = { snapshotId, parent, takenAt, totalMs: sealedAt - startedAt, changed };

  return {
    point: { ...point, stoppedMs: sealedAt - stoppedAt, frozenMs: sealedAt - frozenAt },
    async keepRunning() {
      let ranAt = sealedAt;
      const onRun = () => {
        ranAt = clock.monotonicMs();
      };
      try {
        await phase('go on', () => life.goOn(onRun));
      } catch (error) {
        // Its VM is gone, and there may be no other occasion.
        await life.vault.deletePoint(snapshotId);
        throw error;
      }
      return { ...point, stoppedMs: ranAt - stoppedAt, frozenMs: clock.monotonicMs() - frozenAt };
    },
    undo: () => goOn(life, snapshotId),
  };
}

/** Lets the VM go on after its window failed, and says why it did. */
async function failureOf(life: Life, plan: CapturePlan, frozenAt: number, error: unknown): Promise<unknown> {
  // Silent once, its agent is not asked the same way again: the next use opens a fresh channel.
  if (isSilence(error)) life.goOnAtNextUse();
  const causes = [error];
  await goOn(life, plan.snapshotId).catch((later: unknown) => causes.push(later));
  if (error instanceof AppError && SAID_AS_IT_IS.has(error.code)) return error;
  checkBudget(plan, plan.clock.monotonicMs() - frozenAt, error);
  const detail = `The snapshot of ${life.lifeId} failed: ${causes.map((cause) => asAppError(cause).message).join(' ')}`;
  return new AppError('snapshot_failed', detail, { cause: error });
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

/**
 * A point of the disk whose VM stays stopped: what its programs had written to files when it was asked for is there, since the guest
 * writes that out first.
 */
export async function captureFiles(life: Life, plan: PointPlan, writeOut: () => Promise<void>): Promise<CapturedFiles> {
  await plan.tracer.span({ name: 'write out' }, writeOut);
  plan.check();
  try {
    await life.vm.stop();
    return { point: await captureDisk(life, plan), undo: () => goOn(life, plan.snapshotId) };
  } catch (error) {
    await life.goOn();
    throw error;
  }
}

/** Writes out what is dirty while the guest runs, and says how much has changed; null: that could not be measured. */
async function flush(life: Life, plan: PointPlan & { readonly ending?: boolean }): Promise<Changed | null> {
  const { clock, tracer, check, ending = false } = plan;
  const startedAt = clock.monotonicMs();
  // Beside it, and told for information: that it cannot be measured stops no point.
  const measured = tracer.span({ name: 'count changes' }, () => life.vault.changed(life.lifeId)).catch(() => null);
  await tracer.span({ name: 'flush' }, () => life.vault.flush(life.lifeId, { dataOnly: ending }));
  // What was written meanwhile; after a short flush that is so little that it can be left to the capture. What is costly to note was
  // noted by the flush before: most places that were shared with a point are the life's own by now.
  if (!ending && clock.monotonicMs() - startedAt > SHORT_FLUSH_MS) {
    await tracer.span({ name: 'flush again' }, () => life.vault.flush(life.lifeId, { dataOnly: true }));
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

/** Brings a VM from anywhere in the window back to running, and removes the point where there is one. */
async function goOn(life: Life, snapshotId: SnapshotId): Promise<void> {
  try {
    await life.goOn();
  } finally {
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
