import fc from 'fast-check';
import { expect, it } from 'vitest';
import { isDue, isUnchanged, QUIET_MEMORY_BYTES, waitMs } from './cadence.ts';
import { DEFAULT_SNAPSHOT_POLICY, policyOf } from './snapshot-policy.ts';

it('is due when its time has passed, and not a moment earlier; never when it is off', () => {
  expect(isDue({ lastAtMs: 5_000, misses: 0 }, 10_000, 14_999)).toBe(false);
  expect(isDue({ lastAtMs: 5_000, misses: 0 }, 10_000, 15_000)).toBe(true);
  expect(isDue({ lastAtMs: 0, misses: 0 }, 'off', Number.MAX_SAFE_INTEGER)).toBe(false);
});

it('waits longer with each further miss, for 15 minutes at most, and never less than the schedule', () => {
  fc.assert(
    fc.property(fc.integer({ min: 10_000, max: 3_600_000 }), fc.nat(100), (everyMs, misses) => {
      expect(waitMs(everyMs, misses)).toBeGreaterThanOrEqual(everyMs);
      expect(waitMs(everyMs, misses + 1)).toBeGreaterThanOrEqual(waitMs(everyMs, misses));
      expect(waitMs(everyMs, misses)).toBeLessThanOrEqual(Math.max(everyMs, 900_000));
    }),
  );
  expect([0, 1, 2, 3].map((misses) => waitMs(60_000, misses))).toEqual([60_000, 60_000, 120_000, 240_000]);
});

it('is unchanged only when nobody used it, its disk is as it was, and its memory nearly', () => {
  const quiet = { diskBytes: 0, memoryBytes: QUIET_MEMORY_BYTES - 1 };
  expect(isUnchanged(quiet, false)).toBe(true);
  expect(isUnchanged(quiet, true)).toBe(false);
  expect(isUnchanged({ ...quiet, diskBytes: 1 }, false)).toBe(false);
  expect(isUnchanged({ ...quiet, memoryBytes: QUIET_MEMORY_BYTES }, false)).toBe(false);
  expect(isUnchanged(null, false)).toBe(false);
});

it('takes from the nearest policy that says something', () => {
  expect(policyOf()).toEqual(DEFAULT_SNAPSHOT_POLICY);
  expect(policyOf({ everyMs: null }, { everyMs: 'off', budgetMs: 50 })).toEqual({
    ...DEFAULT_SNAPSHOT_POLICY,
    everyMs: 'off',
    budgetMs: 50,
  });
});
