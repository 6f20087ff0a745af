/**
 * The promise of retention, said once and checked over random lives: a clock that jumps, sleeps and is set back, pauses of
 * days, rewinds, pins, and policies that change. What was ever taken is remembered beside what is left.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { SnapshotId } from './ids.ts';
import { type AgingPoint, decideRetention, gapLimitMs, nextTime, sandboxTime } from './retention.ts';
import { DEFAULT_SNAPSHOT_POLICY, ladderFault, type Rung } from './snapshot-policy.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const LADDER = DEFAULT_SNAPSHOT_POLICY.retention;
const GAP = gapLimitMs(DEFAULT_SNAPSHOT_POLICY);

interface TakenPoint extends AgingPoint {
  readonly takenAtMs: number;
}

/** A sandbox under a clock that the test holds. */
class History {
  clockMs = Date.UTC(2026, 2, 29, 0, 59);
  /** What passed while the clock went on as it should and the sandbox was at work. */
  ever: TakenPoint[] = [];
  left: TakenPoint[] = [];
  gapMs = GAP;
  /** The latest time at which anything was collected: a clock that is set back brings nothing back. */
  #collectedMs = 0;
  #serial = 0;

  get newest(): TakenPoint | null {
    return this.ever.at(-1) ?? null;
  }

  get nowMs(): number {
    return this.newest === null ? 0 : sandboxTime(this.newest, this.clockMs, this.gapMs);
  }

  take(scheduled: boolean, hold: AgingPoint['hold'] = null, kind: AgingPoint['kind'] = 'memory'): void {
    const id = `snp_${(this.#serial++).toString().padStart(16, '0')}` as SnapshotId;
    const timeMs = nextTime(this.newest, this.clockMs, this.gapMs);
    const point = { id, timeMs, takenAtMs: this.clockMs, scheduled, kind, hold };
    this.ever.push(point);
    this.left.push(point);
  }

  /** Minute by minute. */
  work(minutes: number): void {
    for (let i = 0; i < minutes; i++) {
      this.clockMs += MINUTE;
      this.take(true);
    }
  }

  collect(ladder: readonly Rung[]): void {
    this.#collectedMs = Math.max(this.#collectedMs, this.nowMs);
    const fates = decideRetention(this.left, ladder, this.nowMs);
    this.left = this.left.filter(({ id }) => fates.get(id)?.kind === 'keep');
  }

  /** Of each point that there ever was: it is there, or what the rung that it has reached leaves of it. */
  check(ladder: readonly Rung[]): void {
    const nowMs = Math.max(this.nowMs, this.#collectedMs);
    const ids = new Set(this.left.map(({ id }) => id));
    for (const point of this.ever) {
      if (point.hold !== null) expect(ids).toContain(point.id);
      const slot = (rung: Rung, { timeMs }: AgingPoint) => Math.floor(timeMs / rung.everyMs);
      const rung = ladder.find(({ forMs }) => nowMs - point.timeMs <= forMs);
      if (rung === undefined) continue;
      if (rung.everyMs === 0) expect(ids).toContain(point.id);
      else expect(this.left.some((one) => slot(rung, one) === slot(rung, point))).toBe(true);
    }
    // Nothing is left that no rung and no hold explains: at most one per slot beyond the first rungs.
    const last = ladder.at(-1);
    for (const { timeMs, hold } of this.left) {
      if (hold === null) expect(nowMs - timeMs).toBeLessThanOrEqual((last?.forMs ?? 0) + (last?.everyMs ?? 0));
    }
  }
}

const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('work' as const), minutes: fc.integer({ min: 1, max: 90 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('event' as const),
      hold: fc.constantFrom(null, 'pinned' as const, 'named' as const),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('clock' as const),
      // Set back, an hour of daylight saving, asleep or paused for days, a year ahead.
      byMs: fc.constantFrom(-30 * DAY, -HOUR, -5 * MINUTE, 0, 30_000, HOUR, 5 * DAY, 365 * DAY),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('collect' as const) }) },
);

it('keeps what it promises through any life, and nothing else', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const history = new History();
      for (const one of steps) {
        if (one.kind === 'work') history.work(one.minutes);
        if (one.kind === 'event') history.take(false, one.hold);
        if (one.kind === 'clock') history.clockMs += one.byMs;
        if (one.kind === 'collect') {
          history.collect(LADDER);
          history.check(LADDER);
        }
      }
    }),
    { numRuns: 300 },
  );
});

it('keeps what any ladder promises, whatever the intervals', () => {
  const ladders = fc
    .array(fc.tuple(fc.integer({ min: 1, max: 600 }), fc.integer({ min: 1, max: 6 })), { minLength: 1, maxLength: 4 })
    .map((rungs): readonly Rung[] => {
      let forMs = 0;
      let everyMs = 0;
      return rungs.map(([minutes, times], index) => {
        forMs += minutes * MINUTE;
        everyMs = index === 0 ? (times - 1) * MINUTE : Math.max(MINUTE, everyMs * times);
        return { forMs, everyMs };
      });
    });
  fc.assert(
    fc.property(ladders, fc.array(fc.integer({ min: 1, max: 120 }), { maxLength: 20 }), (ladder, stretches) => {
      expect(ladderFault(ladder)).toBeNull();
      const history = new History();
      for (const minutes of stretches) {
        history.work(minutes);
        history.collect(ladder);
        history.check(ladder);
      }
    }),
  );
});

it('decides the same when it is asked again, and collects nothing of what it has kept', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 200 * HOUR }), { maxLength: 200 }), (times) => {
      const points = times.map((timeMs, index) => ({
        id: `snp_${index.toString().padStart(16, '0')}` as SnapshotId,
        timeMs,
        scheduled: index % 3 !== 0,
        kind: index % 2 === 0 ? ('memory' as const) : ('disk' as const),
        hold: null,
      }));
      const nowMs = 200 * HOUR;
      const fates = decideRetention(points, LADDER, nowMs);
      const kept = points.filter(({ id }) => fates.get(id)?.kind === 'keep');
      expect(
        decideRetention(kept, LADDER, nowMs)
          .values()
          .every(({ kind }) => kind === 'keep'),
      ).toBe(true);
      expect(decideRetention(points.toReversed(), LADDER, nowMs)).toEqual(fates);
    }),
  );
});

it('leaves the last hour as it was, when the sandbox was paused for five days or its host slept', () => {
  const history = new History();
  history.work(3 * 60);
  const lastHour = history.ever.slice(-55).map(({ id }) => id);
  history.clockMs += 5 * DAY;
  history.collect(LADDER);
  history.take(false);
  history.work(1);
  history.collect(LADDER);
  const ids = history.left.map(({ id }) => id);
  for (const id of lastHour.slice(5)) expect(ids).toContain(id);
});

it('loses nothing to a clock that jumps a year ahead, or back', () => {
  for (const byMs of [365 * DAY, -365 * DAY]) {
    const history = new History();
    history.work(50);
    history.clockMs += byMs;
    history.work(4);
    history.collect(LADDER);
    expect(history.left).toHaveLength(54);
  }
});

it('holds a week of work in some hundred points', () => {
  const history = new History();
  for (let hour = 0; hour < 10 * 24; hour++) {
    history.work(60);
    history.collect(LADDER);
  }
  history.check(LADDER);
  // 60 of the last hour, 6 an hour of a day, one an hour of six days.
  expect(history.left.length).toBeGreaterThanOrEqual(60 + 6 * 23 + 24 * 6);
  expect(history.left.length).toBeLessThanOrEqual(60 + 6 * 24 + 24 * 6 + 20);
});

it('holds each minute of a week when that is asked for', () => {
  const eachMinute = [{ forMs: 7 * DAY, everyMs: 0 }];
  const history = new History();
  history.work(8 * 24 * 60);
  history.collect(eachMinute);
  expect(history.left).toHaveLength(7 * 24 * 60 + 1);
});

it('keeps what a rewind left before what the schedule took', () => {
  const history = new History();
  history.work(5);
  history.clockMs += 1_000;
  history.take(false);
  const kept = history.newest;
  history.work(120);
  history.collect(LADDER);
  expect(history.left.map(({ id }) => id)).toContain(kept?.id);
});

it('keeps what holds memory before what holds the disk alone', () => {
  const history = new History();
  for (let minute = 0; minute < 30; minute++) {
    history.clockMs += MINUTE;
    history.take(true, null, minute % 10 === 5 ? 'memory' : 'disk');
  }
  history.work(120);
  history.collect(LADDER);
  const old = history.left.slice(0, 3);
  expect(old.map(({ kind }) => kind)).toEqual(['memory', 'memory', 'memory']);
});

it.each([
  [
    [
      { forMs: HOUR, everyMs: 0 },
      { forMs: HOUR, everyMs: MINUTE },
    ],
    'farther',
  ],
  [
    [
      { forMs: HOUR, everyMs: MINUTE },
      { forMs: DAY, everyMs: 0 },
    ],
    'more',
  ],
  [
    [
      { forMs: HOUR, everyMs: 4 * MINUTE },
      { forMs: DAY, everyMs: 6 * MINUTE },
    ],
    'multiple',
  ],
])('finds the fault of the ladder %o', (ladder, fault) => {
  expect(ladderFault(ladder)).toContain(fault);
});
