import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { APPROVAL_STATES, APPROVAL_STEPS, type ApprovalState, afterStep, statesBefore } from './approval-life.ts';

const state = fc.constantFrom(...APPROVAL_STATES);
const steps = fc.array(fc.constantFrom(...APPROVAL_STEPS), { maxLength: 30 });

describe('an approval', () => {
  it('is decided once and used once, whatever comes in whatever order', () => {
    fc.assert(
      fc.property(steps, (tried) => {
        let now: ApprovalState = 'pending';
        const done: string[] = [];
        for (const step of tried) {
          const next = afterStep(now, step);
          if (next === null) continue;
          done.push(step);
          now = next;
        }
        const count = (step: string) => done.filter((one) => one === step).length;
        expect(count('approve') + count('deny')).toBeLessThanOrEqual(1);
        expect(count('use') - count('release')).toBeLessThanOrEqual(1);
        if (count('use') > 0) expect(done[0]).toBe('approve');
        if (now === 'used') expect(done.at(-1)).toBe('use');
      }),
    );
  });

  it('that was denied, has expired or is void stays so', () => {
    for (const end of ['denied', 'expired', 'void'] as const) {
      for (const step of APPROVAL_STEPS) expect(afterStep(end, step)).toBeNull();
    }
  });

  it('that was used can only be given back by who knows that nothing was sent', () => {
    expect(APPROVAL_STEPS.filter((step) => afterStep('used', step) !== null)).toEqual(['release']);
  });

  it('that waits or was approved ends by itself, so that nothing waits for ever', () => {
    for (const open of ['pending', 'approved'] as const) expect(afterStep(open, 'expire')).toBe('expired');
    expect(statesBefore('void')).toEqual(['pending', 'approved']);
  });

  it('says of each step when it can happen, as the table does', () => {
    fc.assert(
      fc.property(state, fc.constantFrom(...APPROVAL_STEPS), (one, step) => {
        expect(statesBefore(step).includes(one)).toBe(afterStep(one, step) !== null);
      }),
    );
  });
});
