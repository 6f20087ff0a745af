/**
 * When a sandbox is idle: two pure functions. `observe` takes in what is seen of a sandbox, `isIdle` decides.
 *
 * A sandbox is *busy* while a use of it is open (a call that reaches into it, a stream, a watch), at each change of its
 * lifecycle, and over each window in which its VMM took more than `WORK_CPU_PERCENT` of a processor. A window that nothing
 * is known of counts as busy: what cannot be seen is never taken for idle.
 */
import { unreachable } from './errors.ts';

export const DEFAULT_PAUSE_AFTER_MS = 10 * 60 * 1000;
export const MIN_PAUSE_AFTER_MS = 10_000;
export const MAX_PAUSE_AFTER_MS = 7 * 24 * 60 * 60 * 1000;

/**
 * Measured over windows of 10 s under emulation, on a machine with other load: a guest that waits takes 4 to 5 % of a
 * processor, one with a single busy loop 80 to 86 %. Hardware virtualisation only widens the gap.
 */
export const WORK_CPU_PERCENT = 20;

export interface Activity {
  /** When it was last known to be busy, on a clock that never goes back. */
  readonly busyAtMs: number;
  readonly openUses: number;
}

export type Observation = { readonly atMs: number } & (
  | { readonly kind: 'use_began' | 'use_ended' }
  /** A lifecycle operation began or ended, or something in it asks to be kept awake. */
  | { readonly kind: 'busy' }
  /** The end of a window; null: nothing is known of it. */
  | { readonly kind: 'sampled'; readonly cpuPercent: number | null }
);

export function observe(activity: Activity, seen: Observation): Activity {
  const busy = { ...activity, busyAtMs: Math.max(activity.busyAtMs, seen.atMs) };
  switch (seen.kind) {
    case 'use_began':
      return { ...busy, openUses: activity.openUses + 1 };
    case 'use_ended':
      return { ...busy, openUses: Math.max(0, activity.openUses - 1) };
    case 'busy':
      return busy;
    case 'sampled':
      return seen.cpuPercent === null || seen.cpuPercent >= WORK_CPU_PERCENT ? busy : activity;
    default:
      return unreachable(seen);
  }
}

/** `pauseAfterMs` null: never. */
export function isIdle({ busyAtMs, openUses }: Activity, pauseAfterMs: number | null, nowMs: number): boolean {
  return pauseAfterMs !== null && openUses === 0 && nowMs - busyAtMs >= pauseAfterMs;
}
