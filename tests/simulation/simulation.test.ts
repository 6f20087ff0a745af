/**
 * The whole platform under a seed: thousands of schedules of clients, delays and faults, each judged by what was promised.
 * `SPACE_FULL=1` runs many more; `SPACE_SEED=n` runs others than always. A seed that fails is run again, step by step, by
 * `node tests/simulation/main.ts SEED`, and is kept in `seeds.ts` once its cause is removed.
 */
import { describe, expect, it } from 'vitest';
import { runSchedule, type ScheduleReport } from './schedule.ts';
import { KEPT_SEEDS } from './seeds.ts';

const COUNT = process.env['SPACE_FULL'] === '1' ? 40_000 : 1_000;
const FIRST = Number(process.env['SPACE_SEED'] ?? 1);

function told({ seed, violation }: ScheduleReport): string {
  return `node tests/simulation/main.ts ${seed}: ${violation?.message}`;
}

describe('under any schedule', () => {
  it('seeds that have failed once do not fail again', async () => {
    for (const { seed } of KEPT_SEEDS) {
      const report = await runSchedule(seed);
      expect(report.violation, told(report)).toBeNull();
    }
  });

  it('the same seed gives the same schedule, to the last step', async () => {
    for (const seed of [1, 2, 3]) {
      const [once, again] = [await runSchedule(seed), await runSchedule(seed, { traced: true })];
      expect([again.digest, again.steps]).toEqual([once.digest, once.steps]);
    }
  });

  it('some order explains what everybody was told, nothing is lost, and nothing is left over', {
    timeout: 3_600_000,
  }, async () => {
    let closed = 0;
    for (let seed = FIRST; seed < FIRST + COUNT; seed++) {
      const report = await runSchedule(seed);
      expect(report.violation, told(report)).toBeNull();
      closed += report.closed;
    }
    expect(closed).toBeGreaterThan(COUNT / 4);
  });
});
