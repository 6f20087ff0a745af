/**
 * What a set time does to a sandbox: two pure functions. Timers of a paused guest do not fire, so the platform wakes it.
 *
 * - `wakeAt` is one instant. It is met, and cleared, when the sandbox is found or made running at or after it; until then
 *   it stands, so that it can neither be lost nor wake twice.
 * - A schedule comes again and again. Each time that is due is claimed once, as a *run*, whoever looks at the same moment.
 *   Of several that were missed only one is made up for.
 *
 * Neither is part of what a rewind puts back, nor of what a fork copies.
 */
import { unreachable } from './errors.ts';
import type { LifecycleState } from './lifecycle.ts';

/** What becomes of a time that was missed: one run as soon as it can be, or none. */
export const CATCH_UPS = ['once', 'skip'] as const;
export type CatchUp = (typeof CATCH_UPS)[number];

/** A time that is looked at so much later was missed: nothing was there to look at it, or the clock was set forward. */
export const MISSED_AFTER_MS = 60_000;

export type Waking =
  /** It is not time, or something else has to end first. */
  | 'wait'
  | 'wake'
  /** It runs: the time can be cleared. */
  | 'met';

export function decideWaking({ settled, operation }: LifecycleState, wakeAtMs: number, nowMs: number): Waking {
  if (nowMs < wakeAtMs || operation !== null) return 'wait';
  switch (settled) {
    case 'running':
      return 'met';
    case 'paused':
      return 'wake';
    // It goes on by itself when there is room.
    case 'out_of_space':
    // What a crash took must be accepted by a person; when one has resumed it, it runs.
    case 'crashed':
    // It runs elsewhere, or comes back paused.
    case 'moved':
    case 'absent':
    case 'deleted':
      return 'wait';
    default:
      return unreachable(settled);
  }
}

export type Firing =
  | 'wait'
  | 'run'
  /** The time was missed, and is not to be made up for. */
  | 'miss'
  /** An earlier run has not ended. */
  | 'skip';

export interface DueSchedule {
  readonly nextRunAtMs: number;
  readonly catchUp: CatchUp;
  readonly hasUnfinishedRun: boolean;
}

export function decideFiring({ nextRunAtMs, catchUp, hasUnfinishedRun }: DueSchedule, nowMs: number): Firing {
  if (nowMs < nextRunAtMs) return 'wait';
  if (catchUp === 'skip' && nowMs - nextRunAtMs > MISSED_AFTER_MS) return 'miss';
  return hasUnfinishedRun ? 'skip' : 'run';
}
