import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type ArchivingTrack, archiveOverdueMs, archiveWaitMs } from './archiving.ts';
import { DEFAULT_SNAPSHOT_POLICY, policyOf, snapshotEveryMs } from './snapshot-policy.ts';

const MINUTE = 60_000;
const anyTrack = fc.record({
  triedAtMs: fc.option(fc.nat({ max: 1e12 })),
  tookMs: fc.nat({ max: 100 * MINUTE }),
  failures: fc.nat({ max: 100 }),
});
const anyEvery = fc.integer({ min: MINUTE, max: 1000 * MINUTE });
const fresh: ArchivingTrack = { triedAtMs: 0, tookMs: 0, failures: 0 };

it('is due at once when there was none, and after its interval when there was', () => {
  expect(archiveOverdueMs({ ...fresh, triedAtMs: null }, 10 * MINUTE, 5)).toBe(0);
  expect(archiveOverdueMs(fresh, 10 * MINUTE, 10 * MINUTE - 1)).toBeLessThan(0);
  expect(archiveOverdueMs(fresh, 10 * MINUTE, 12 * MINUTE)).toBe(2 * MINUTE);
});

it('tries a failure again sooner than that, later each time, and never later than its interval', () => {
  const waits = [1, 2, 3, 4, 5, 6, 50].map((failures) => archiveWaitMs({ ...fresh, failures }, 10 * MINUTE));
  expect(waits).toEqual([0.5, 1, 2, 4, 8, 10, 10].map((minutes) => minutes * MINUTE));
});

it('takes no more than half of the time, and is due within it however the clock was set', () => {
  fc.assert(
    fc.property(anyTrack, anyEvery, fc.nat({ max: 1e12 }), (track, everyMs, nowMs) => {
      const waitMs = archiveWaitMs(track, everyMs);
      expect(waitMs).toBeGreaterThanOrEqual(track.tookMs);
      expect(waitMs).toBeLessThanOrEqual(Math.max(everyMs, track.tookMs));
      const isLate = track.triedAtMs === null || track.triedAtMs > nowMs || nowMs - track.triedAtMs >= waitMs;
      expect(archiveOverdueMs(track, everyMs, nowMs) >= 0).toBe(isLate);
    }),
  );
});

it('needs points to archive: they are taken as often, also where the schedule is off', () => {
  const archive = { everyMs: 10 * MINUTE, location: 'default' };
  expect(snapshotEveryMs(DEFAULT_SNAPSHOT_POLICY)).toBe(MINUTE);
  expect(snapshotEveryMs(policyOf({ archive }))).toBe(MINUTE);
  expect(snapshotEveryMs(policyOf({ archive }, { everyMs: 30 * MINUTE }))).toBe(10 * MINUTE);
  expect(snapshotEveryMs(policyOf({ archive, everyMs: 'off' }))).toBe(10 * MINUTE);
  expect(snapshotEveryMs(policyOf({ archive: { ...archive, everyMs: 600 * MINUTE }, everyMs: 'off' }))).toBe(
    60 * MINUTE,
  );
  expect(snapshotEveryMs(policyOf({ archive: 'off', everyMs: 'off' }, { archive }))).toBe('off');
});
