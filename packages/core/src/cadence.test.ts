import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Cadence, dueKind, isUnchanged, QUIET_MEMORY_BYTES, waitMs } from './cadence.ts';
import { DEFAULT_SNAPSHOT_POLICY, policyOf } from './snapshot-policy.ts';

const begun = (lastAtMs: number): Cadence => {
  return { lastAtMs, tookMs: 0, misses: 0, memory: { lastAtMs, misses: 0, because: null } };
};

it('leaves two thirds of the time without a point under way, and takes one within 15 minutes all the same', () => {
  const dueAfterMs = (tookMs: number) => {
    for (let nowMs = 0; ; nowMs += 1_000) if (dueKind({ ...begun(0), tookMs }, 60_000, nowMs) !== null) return nowMs;
  };
  expect([0, 20_000, 25_000, 3_600_000].map(dueAfterMs)).toEqual([60_000, 60_000, 75_000, 900_000]);
});

it('is due when its time has passed, and not a moment earlier; never when it is off', () => {
  expect(dueKind(begun(5_000), 10_000, 14_999)).toBeNull();
  expect(dueKind(begun(5_000), 10_000, 15_000)).toBe('memory');
  expect(dueKind(begun(0), 'off', Number.MAX_SAFE_INTEGER)).toBeNull();
});

it('goes on with points of the disk while it waits longer and longer for one with memory', () => {
  const kinds: (string | null)[] = [];
  let cadence = begun(0);
  for (let minute = 1; minute <= 50; minute++) {
    const nowMs = minute * 60_000;
    const kind = dueKind(cadence, 60_000, nowMs);
    kinds.push(kind);
    const memory = { lastAtMs: nowMs, misses: cadence.memory.misses + 1, because: 'over_budget' as const };
    cadence = { ...cadence, lastAtMs: nowMs, ...(kind === 'memory' ? { memory } : {}) };
  }
  const tried = kinds.flatMap((kind, index) => (kind === 'memory' ? [index + 1] : []));
  expect(tried).toEqual([1, 2, 4, 8, 16, 31, 46]);
  expect(kinds.filter((kind) => kind === null)).toEqual([]);
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
