/**
 * What begins and ends the runs of a sandbox: pure. A *run* is the time from when it comes to run until it is paused, or ends. A limit
 * gives each run an expiry of its own, in the transaction that begins it, so that nothing ever runs without an end that should have one.
 */
import type { Expiry } from './expiry.ts';
import { hasVm, type Settled } from './lifecycle.ts';

export interface RunPolicy {
  /** Each run that has no expiry gets one so long after it began; null: none. */
  readonly limitMs: number | null;
  readonly atLimit: Expiry['action'];
  /** Whether a use wakes it when it is paused; else only a resume does, or a time that was set. */
  readonly wakeOnUse: boolean;
}

export const DEFAULT_RUNS: RunPolicy = { limitMs: null, atLimit: 'pause', wakeOnUse: true };

/** As SQL has it, too: 24 days. */
export const MAX_RUN_MS = 24 * 24 * 60 * 60 * 1000;

export function beginsRun(before: Settled, after: Settled): boolean {
  return after === 'running' && !hasVm(before);
}

/** The expiry after an operation has ended; undefined: that which it has. Paused, one of a run with a limit waits for nothing. */
export function expiryOfRun(
  { settled, expiry, runs }: { readonly settled: Settled; readonly expiry: Expiry | null; readonly runs: RunPolicy },
  after: Settled,
  at: Date,
): Expiry | null | undefined {
  const { limitMs, atLimit } = runs;
  if (limitMs === null) return undefined;
  if (after === 'paused' && settled !== 'paused') return null;
  if (!beginsRun(settled, after) || expiry !== null) return undefined;
  return { at: new Date(at.getTime() + limitMs), action: atLimit };
}
