import { describe, expect, it } from 'vitest';
import { DEFAULT_RUNS, expiryOfRun } from './runs.ts';

const at = new Date(1_000);
const limited = { limitMs: 500, atLimit: 'delete', wakeOnUse: true } as const;
const later = { at: new Date(9_000), action: 'pause' } as const;

describe('the expiry of a run', () => {
  it.each(['absent', 'paused', 'crashed'] as const)('is the limit after it comes to run from %s', (settled) => {
    const expected = { at: new Date(1_500), action: 'delete' };
    expect(expiryOfRun({ settled, expiry: null, runs: limited }, 'running', at)).toEqual(expected);
  });

  it('stays that which was set', () => {
    expect(expiryOfRun({ settled: 'paused', expiry: later, runs: limited }, 'running', at)).toBeUndefined();
    expect(expiryOfRun({ settled: 'running', expiry: null, runs: limited }, 'running', at)).toBeUndefined();
    expect(expiryOfRun({ settled: 'out_of_space', expiry: null, runs: limited }, 'running', at)).toBeUndefined();
  });

  it('goes with a pause', () => {
    expect(expiryOfRun({ settled: 'running', expiry: later, runs: limited }, 'paused', at)).toBeNull();
    expect(expiryOfRun({ settled: 'paused', expiry: later, runs: limited }, 'paused', at)).toBeUndefined();
  });

  it('is none of ours without a limit', () => {
    expect(expiryOfRun({ settled: 'paused', expiry: null, runs: DEFAULT_RUNS }, 'running', at)).toBeUndefined();
    expect(expiryOfRun({ settled: 'running', expiry: later, runs: DEFAULT_RUNS }, 'paused', at)).toBeUndefined();
  });
});
