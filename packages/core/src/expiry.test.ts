import { expect, it } from 'vitest';
import { decideExpiry, EXPIRY_ACTIONS } from './expiry.ts';
import { OPERATIONS, SETTLED_STATES } from './lifecycle.ts';

const at = new Date('2026-11-30T12:00:00.000Z');
const rest = (settled: (typeof SETTLED_STATES)[number]) => ({ settled, operation: null });

it('nothing happens before its time, nor while something is under way', () => {
  for (const settled of SETTLED_STATES) {
    for (const action of EXPIRY_ACTIONS) {
      expect(decideExpiry(rest(settled), { at, action }, at.getTime() - 1)).toBe('wait');
      for (const operation of OPERATIONS) {
        expect(decideExpiry({ settled, operation }, { at, action }, at.getTime())).toBe('wait');
      }
    }
  }
});

it.each([
  ['running', 'pause', 'delete'],
  ['out_of_space', 'wait', 'delete'],
  ['paused', 'met', 'delete'],
  ['crashed', 'met', 'delete'],
  ['moved', 'met', 'met'],
  ['absent', 'wait', 'wait'],
  ['deleted', 'wait', 'wait'],
] as const)('at its time one that is %s: pause → %s, delete → %s', (settled, pause, remove) => {
  expect(decideExpiry(rest(settled), { at, action: 'pause' }, at.getTime())).toBe(pause);
  expect(decideExpiry(rest(settled), { at, action: 'delete' }, at.getTime())).toBe(remove);
});
