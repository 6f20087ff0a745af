import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Activity, isIdle, type Observation, observe, WORK_CPU_PERCENT } from './idle.ts';

const FRESH: Activity = { busyAtMs: 0, openUses: 0 };
const AFTER_MS = 10_000;

const kinds = fc.oneof(
  fc.constantFrom({ kind: 'use_began' as const }, { kind: 'use_ended' as const }, { kind: 'busy' as const }),
  fc
    .option(fc.double({ min: 0, max: 400, noNaN: true }))
    .map((cpuPercent) => ({ kind: 'sampled' as const, cpuPercent })),
);
/** What is seen over a time in which the clock goes on. */
const histories = fc.array(fc.tuple(fc.integer({ min: 0, max: 20_000 }), kinds), { maxLength: 50 }).map((steps) => {
  let atMs = 0;
  return steps.map(([passMs, step]): Observation => {
    atMs += passMs;
    return { ...step, atMs };
  });
});
const nowOf = (history: readonly Observation[]) => history.at(-1)?.atMs ?? 0;
const after = (history: readonly Observation[]) => history.reduce(observe, FRESH);

it('is idle once the time has passed without use or work, and not a moment earlier', () => {
  const used = after([
    { kind: 'use_began', atMs: 1_000 },
    { kind: 'use_ended', atMs: 5_000 },
  ]);
  expect(isIdle(used, AFTER_MS, 14_999)).toBe(false);
  expect(isIdle(used, AFTER_MS, 15_000)).toBe(true);
});

it('is busy over a window with work, and over one that nothing is known of', () => {
  for (const cpuPercent of [WORK_CPU_PERCENT, 100, null]) {
    const seen = after([{ kind: 'sampled', cpuPercent, atMs: 9_000 }]);
    expect(isIdle(seen, AFTER_MS, 18_999)).toBe(false);
    expect(isIdle(seen, AFTER_MS, 19_000)).toBe(true);
  }
  expect(isIdle(after([{ kind: 'sampled', cpuPercent: WORK_CPU_PERCENT - 0.1, atMs: 9_000 }]), AFTER_MS, 10_000)).toBe(
    true,
  );
});

it('is never idle while a use is open, however long, and never without a time', () => {
  fc.assert(
    fc.property(histories, fc.nat(), (history, laterMs) => {
      const activity = after(history);
      const opened = observe(activity, { kind: 'use_began', atMs: nowOf(history) });
      expect(isIdle(opened, AFTER_MS, nowOf(history) + laterMs)).toBe(false);
      expect(isIdle(activity, null, nowOf(history) + laterMs)).toBe(false);
    }),
  );
});

it('becomes idle after whatever was seen, once all uses have ended and the time has passed', () => {
  fc.assert(
    fc.property(histories, (history) => {
      let activity = after(history);
      const atMs = nowOf(history);
      while (activity.openUses > 0) activity = observe(activity, { kind: 'use_ended', atMs });
      expect(isIdle(activity, AFTER_MS, atMs + AFTER_MS)).toBe(true);
    }),
  );
});

it('stays idle as time goes on, and whatever is seen never makes it more idle', () => {
  fc.assert(
    fc.property(histories, kinds, fc.nat(), (history, step, laterMs) => {
      const activity = after(history);
      const atMs = nowOf(history);
      if (isIdle(activity, AFTER_MS, atMs)) expect(isIdle(activity, AFTER_MS, atMs + laterMs)).toBe(true);
      const next = observe(activity, { ...step, atMs });
      if (activity.openUses === 0 && isIdle(next, AFTER_MS, atMs)) expect(isIdle(activity, AFTER_MS, atMs)).toBe(true);
    }),
  );
});
