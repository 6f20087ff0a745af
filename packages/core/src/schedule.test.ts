import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OPERATIONS, SETTLED_STATES } from './lifecycle.ts';
import { CATCH_UPS, decideFiring, decideWaking, MISSED_AFTER_MS } from './schedule.ts';

const anyState = fc.record({
  settled: fc.constantFrom(...SETTLED_STATES),
  operation: fc.constantFrom(null, ...OPERATIONS),
});
const anyTime = fc.integer({ min: 0, max: 2 ** 42 });

describe('a time to wake', () => {
  it('wakes only what is paused and at rest, and never early', () => {
    fc.assert(
      fc.property(anyState, anyTime, anyTime, (state, wakeAtMs, nowMs) => {
        const wakes = decideWaking(state, wakeAtMs, nowMs) === 'wake';
        expect(wakes).toBe(nowMs >= wakeAtMs && state.operation === null && state.settled === 'paused');
      }),
    );
  });

  it('is met by what runs at it or after it, and stands for what crashed', () => {
    const at = (settled: (typeof SETTLED_STATES)[number], nowMs: number) =>
      decideWaking({ settled, operation: null }, 1000, nowMs);
    expect(at('running', 999)).toBe('wait');
    expect(at('running', 1000)).toBe('met');
    expect(at('crashed', 5000)).toBe('wait');
  });
});

describe('a time of a schedule', () => {
  const anyDue = fc.record({
    nextRunAtMs: anyTime,
    catchUp: fc.constantFrom(...CATCH_UPS),
    hasUnfinishedRun: fc.boolean(),
  });

  it('does nothing early, never runs beside an earlier run, and is decided one way or the other once it is due', () => {
    fc.assert(
      fc.property(anyDue, anyTime, (due, nowMs) => {
        const firing = decideFiring(due, nowMs);
        expect(firing === 'wait').toBe(nowMs < due.nextRunAtMs);
        if (due.hasUnfinishedRun) expect(firing).not.toBe('run');
        if (firing === 'miss') expect(due.catchUp).toBe('skip');
      }),
    );
  });

  it('that was missed is made up for once, or not at all, as it says', () => {
    const missed = (catchUp: 'once' | 'skip', lateMs: number) =>
      decideFiring({ nextRunAtMs: 1000, catchUp, hasUnfinishedRun: false }, 1000 + lateMs);
    expect(missed('once', MISSED_AFTER_MS * 100)).toBe('run');
    expect(missed('skip', MISSED_AFTER_MS)).toBe('run');
    expect(missed('skip', MISSED_AFTER_MS + 1)).toBe('miss');
  });
});
