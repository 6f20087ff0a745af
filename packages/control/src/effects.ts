/** What each operation on one sandbox does: found out by `plan`, carried out on the node by `run`. */
import {
  AppError,
  type ErrorCode,
  type Expiry,
  gapLimitMs,
  newId,
  nextTime,
  type StartedLife,
  type TakenPoint,
} from '@space/core';
import type { Admission, Waker } from './admission.ts';
import { succeeded } from './conclude.ts';
import type { Effect, Plan } from './driver.ts';
import type { ControlPorts } from './ports.ts';
import type { OperationCause, RecordedSandbox, RecordedSnapshot, SnapshotCause, StartTimings } from './records.ts';
import { recoveryPoint } from './recovery.ts';
import { findInTimeline, mortalPoints, newestInLine, type PastPoint, policyFor } from './timeline.ts';

/** What a pause keeps: all on disk, memory too; or files only, and the next life boots. */
export type Keep = 'disk' | 'files';

type Label = Pick<RecordedSnapshot, 'name' | 'note'>;
type KeptLabel = Label & Pick<RecordedSnapshot, 'pinned'>;
const UNLABELLED: KeptLabel = { name: null, note: null, pinned: false };

/** With memory, for which a guest may stand still for so long; or of its disk, and why. */
export type HowTaken =
  | { readonly kind: 'memory'; readonly budgetMs?: number }
  | { readonly kind: 'disk'; readonly because: ErrorCode };

/** A use came before the pause. */
export class NotIdleError extends Error {
  override readonly name = 'NotIdleError';
}

/** Its expiry was put off. */
export class NotDueError extends Error {
  override readonly name = 'NotDueError';
}

/** It does not run, so there is no new point to take. */
export class NotRunningError extends Error {
  override readonly name = 'NotRunningError';
}

export class Effects {
  readonly #ports: ControlPorts;
  readonly #admission: Admission;

  constructor(ports: ControlPorts, admission: Admission) {
    this.#ports = ports;
    this.#admission = admission;
  }

  pause(keep: Keep = 'disk'): Effect<void> {
    const kind = keep === 'files' ? 'disk' : 'memory';
    return {
      plan: async (seen) => {
        const { taking, ...plan } = await this.#planTaking(seen, 'pause');
        return { ...plan, taking: { ...taking, kind } };
      },
      run: async (begun, plan) => {
        const taking = takenBy(plan);
        const point = await this.#ports.node.pause({ ...orderOf(begun), snapshotId: taking.id, kind });
        return succeeded(undefined, { changes: { head: taking.id }, points: [completed(taking, point)] });
      },
    };
  }

  /** A pause that begins only if the sandbox is still idle in the driver's turn. */
  pauseIdle(isIdle: (seen: RecordedSandbox) => boolean): Effect<void> {
    const pause = this.pause();
    return {
      ...pause,
      plan: async (seen) => {
        const { input, ...rest } = await pause.plan(seen);
        if (!isIdle(seen)) throw new NotIdleError();
        return { ...rest, input: { ...input, cause: 'idle' } };
      },
    };
  }

  /** What an expiry does, if it is still due in the driver's turn. A pause takes a last point. */
  expire(action: Expiry['action'], isDue: (seen: RecordedSandbox) => boolean): Effect<void> {
    const effect = action === 'delete' ? this.delete() : this.pause(action === 'pause_files' ? 'files' : 'disk');
    return {
      ...effect,
      plan: async (seen) => {
        const { input, ...rest } = await effect.plan(seen);
        if (!isDue(seen)) throw new NotDueError();
        return { ...rest, input: { ...input, cause: 'expiry' } };
      },
    };
  }

  /**
   * Also wake. What stands still for want of space goes on as it is, if there is some. A crashed sandbox goes on from the
   * newest point of its line, or, without one, from its disk.
   */
  resume(cause?: OperationCause): Effect<void> {
    const why = cause === undefined ? {} : { cause };
    return {
      plan: async (seen) => {
        if (seen.settled === 'out_of_space') return { input: why };
        if (seen.settled === 'crashed') {
          return {
            input: {
              ...why,
              from: (await recoveryPoint(this.#ports.records, seen))?.id ?? 'crashed',
              generation: seen.generation + 1,
            },
          };
        }
        if (seen.head === null) throw new AppError('restore_failed', 'The point to resume from is not known.');
        return { input: { ...why, from: seen.head, generation: seen.generation } };
      },
      run: async (begun, { input: { from, generation } }) => {
        if (begun.settled === 'out_of_space') {
          await this.#ports.node.goOn(orderOf(begun));
          return succeeded(undefined);
        }
        if (from === undefined || generation === undefined) throw new Error('a resume has a point and a generation');
        const { template, size } = begun;
        const order = { ...orderOf(begun), from, template, generation, size };
        const waker: Waker = {
          sandboxId: begun.id,
          memoryMib: size.memoryMib,
          organisation: () => this.#ports.records.tenants.organisationOf(begun.projectId),
        };
        const life = await this.#admission.wake(waker, () => this.#ports.node.start(order));
        const changes = { generation, ...(from === 'crashed' ? {} : { head: from }) };
        return succeeded(undefined, { changes, timings: timingsOf(life) });
      },
    };
  }

  /** A resume by a use, of what a use may wake. */
  wake(): Effect<void> {
    const resume = this.resume();
    return {
      ...resume,
      plan: async (seen) => {
        if (seen.settled === 'paused' && !seen.runs.wakeOnUse) {
          const detail = 'The sandbox is paused, and says that only a resume wakes it.';
          throw new AppError('wrong_state', { detail, facts: { sandboxId: seen.id, asleep: true } });
        }
        return resume.plan(seen);
      },
    };
  }

  /**
   * Of a running sandbox: a new point. A paused one is a point already, so that gets the name and the note, and stays
   * when the sandbox goes on.
   */
  snapshot(label: Label): Effect<RecordedSnapshot> {
    const pinned = { ...label, pinned: true };
    return {
      plan: async (seen) => (seen.settled === 'running' ? this.#planTaking(seen, 'snapshot', pinned) : { input: {} }),
      run: async (begun, plan) => {
        if (plan.taking === undefined) {
          const labelled = await this.#labelHead(begun, label);
          return succeeded(labelled, { points: [labelled] });
        }
        const taken = await this.#take(begun, plan.taking);
        return succeeded(taken, { changes: { head: taken.id }, points: [taken] });
      },
    };
  }

  /** A point that nobody asked for now. Throws `NotRunningError`, with nothing begun, when there is nothing to take it of. */
  unasked(cause: 'rolling' | 'checkpoint' | 'approval', how: HowTaken = { kind: 'memory' }): Effect<RecordedSnapshot> {
    return {
      plan: async (seen) => {
        if (seen.settled !== 'running') throw new NotRunningError();
        const { input, taking, ...rest } = await this.#planTaking(seen, cause);
        const degraded = how.kind === 'disk' ? how.because : null;
        return { ...rest, taking: { ...taking, kind: how.kind, degraded }, input: { ...input, cause } };
      },
      run: async (begun, plan) => {
        const taken = await this.#take(begun, takenBy(plan), how.kind === 'memory' ? how.budgetMs : undefined);
        return succeeded(taken, { changes: { head: taken.id }, points: [taken] });
      },
    };
  }

  /** The point that children will start from, or that is exported: that of a paused sandbox, or a new one. */
  presentPoint(cause: 'fork' | 'archive'): Effect<RecordedSnapshot> {
    return {
      plan: async (seen) => (seen.settled === 'running' ? this.#planTaking(seen, cause) : { input: {} }),
      run: async (begun, plan) => {
        const point = plan.taking === undefined ? await this.#headOf(begun) : await this.#take(begun, plan.taking);
        return succeeded(point, { changes: { head: point.id }, points: [point] });
      },
    };
  }

  /** The result is the point that holds the state before it. */
  rewind(to: PastPoint, keepPresent: boolean): Effect<RecordedSnapshot | null> {
    return {
      plan: async (seen) => {
        const target = await findInTimeline(this.#ports, seen, to);
        const next = { from: target.id, generation: seen.generation + 1 };
        if (seen.settled === 'out_of_space' && keepPresent) {
          const detail = 'The sandbox stands still since its vault is nearly full: its present cannot be kept.';
          throw new AppError('out_of_space', detail);
        }
        if (seen.settled !== 'running' || !keepPresent) return { input: next };
        const plan = await this.#planTaking(seen, 'rewind');
        return { ...plan, input: { ...plan.input, ...next } };
      },
      run: async (begun, { taking, input: { from, generation } }) => {
        if (from === undefined || from === 'crashed' || generation === undefined) {
          throw new Error('a rewind has a point and a generation');
        }
        const keepAs = taking?.id ?? null;
        const { kept, life } = await this.#ports.node.rewind({ ...orderOf(begun), to: from, keepAs, generation });
        const before = kept !== null && taking !== undefined ? completed(taking, kept) : await this.#keepPaused(begun);
        return succeeded(before, {
          changes: { head: from, generation },
          timings: timingsOf(life),
          points: before === null ? [] : [before],
          // The VM had ended before the rewind came: the point was never taken.
          dropped: kept === null && taking !== undefined ? [taking.id] : [],
        });
      },
    };
  }

  delete(): Effect<void> {
    return {
      plan: async () => ({ input: {} }),
      run: async (begun) => {
        const doomed = await mortalPoints(this.#ports.records, begun.id);
        // There may be thousands: they are removed one by one, and nobody waits for it.
        await this.#ports.node.destroy({ ...orderOf(begun), points: [] });
        return succeeded(undefined, { doomed });
      },
    };
  }

  async #planTaking(seen: RecordedSandbox, cause: SnapshotCause, label: KeptLabel = UNLABELLED) {
    const { records, clock } = this.#ports;
    const [newest, policy, parent] = await Promise.all([
      records.history.newest(seen.id),
      policyFor(records, seen),
      newestInLine(records, seen),
    ]);
    const before = newest === null ? null : { timeMs: newest.timeMs, takenAtMs: newest.takenAt.getTime() };
    const taking: RecordedSnapshot = {
      id: newId('snapshot', this.#ports.chance),
      sandboxId: seen.id,
      projectId: seen.projectId,
      ...label,
      cause,
      kind: 'memory',
      degraded: null,
      timeMs: nextTime(before, clock.now(), gapLimitMs(policy)),
      parent,
      generation: seen.generation,
      template: seen.template,
      size: seen.size,
      vault: seen.vault,
      state: 'taking',
      badReason: null,
      checkedAt: null,
      takenAt: new Date(clock.now()),
      timings: null,
      changed: null,
    };
    return { input: { takes: taking.id }, taking };
  }

  async #take(begun: RecordedSandbox, taking: RecordedSnapshot, budgetMs?: number): Promise<RecordedSnapshot> {
    const { id: snapshotId, kind } = taking;
    const order = { ...orderOf(begun), snapshotId, kind, ...(budgetMs === undefined ? {} : { budgetMs }) };
    return completed(taking, await this.#ports.node.snapshot(order));
  }

  async #headOf(begun: RecordedSandbox): Promise<RecordedSnapshot> {
    const head = begun.head === null ? null : await this.#ports.records.findSnapshot(begun.head);
    if (head === null) throw new AppError('snapshot_bad', 'The point that the sandbox is paused at is not known.');
    return head;
  }

  async #labelHead(begun: RecordedSandbox, label: Label): Promise<RecordedSnapshot> {
    const head = await this.#headOf(begun);
    if (head.name !== null && label.name !== null && head.name !== label.name) {
      const detail = `The state of a paused sandbox is one snapshot, and it is named "${head.name}" already.`;
      throw new AppError('wrong_state', detail);
    }
    const changes = {
      name: label.name ?? head.name,
      ...(label.note === null ? {} : { note: label.note }),
      pinned: true,
      cause: head.cause === 'pause' ? ('snapshot' as const) : head.cause,
    };
    return (await this.#ports.records.updateSnapshot(head.id, changes)) ?? { ...head, ...changes };
  }

  /** The head of a paused sandbox stays in the timeline when it is rewound, so that this can be undone. */
  async #keepPaused(begun: RecordedSandbox): Promise<RecordedSnapshot | null> {
    if (begun.settled !== 'paused') return null;
    const head = await this.#headOf(begun);
    return head.cause === 'pause' ? { ...head, cause: 'rewind' } : head;
  }
}

function orderOf({ vault, id, epoch }: RecordedSandbox) {
  return { vault, sandboxId: id, epoch };
}

function takenBy(plan: Plan): RecordedSnapshot {
  if (plan.taking === undefined) throw new Error('the operation takes a point');
  return plan.taking;
}

export function timingsOf({ runningMs, readyMs }: StartedLife): StartTimings {
  return { runningMs, readyMs };
}

function completed(taking: RecordedSnapshot, point: TakenPoint): RecordedSnapshot {
  const timings = {
    stoppedMs: toTenths(point.stoppedMs),
    frozenMs: toTenths(point.frozenMs),
    totalMs: toTenths(point.totalMs),
  };
  return { ...taking, state: 'good', takenAt: new Date(point.takenAt), timings, changed: point.changed };
}

/** A clock of the host tells no more. */
function toTenths(milliseconds: number): number {
  return Math.round(milliseconds * 10) / 10;
}
