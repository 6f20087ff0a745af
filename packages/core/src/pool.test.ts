import { describe, expect, it } from 'vitest';
import { DEFAULT_VAULT, type VaultName } from './ids.ts';
import { MAX_MEMBERS, nextPoolStep, type PoolKind, type PoolRoom } from './pool.ts';

const MINUTE = 60_000;
const PLENTY: PoolRoom = { budgetMib: 10_000, takenMib: 0, freeMib: 100_000 };

function kind(key: string, has: Partial<PoolKind<string>> = {}): PoolKind<string> {
  return {
    key,
    vault: DEFAULT_VAULT,
    needMib: 500,
    members: 0,
    knownAtMs: 0,
    askedAtMs: [],
    failures: 0,
    failedAtMs: 0,
    ...has,
  };
}

describe('the next step of a pool', () => {
  it('fills what is known, and then leaves it', () => {
    expect(nextPoolStep([kind('a')], PLENTY, 0)).toEqual({ kind: 'fill', key: 'a' });
    expect(nextPoolStep([kind('a', { members: 1 })], PLENTY, 0)).toBeNull();
    expect(nextPoolStep([], PLENTY, 0)).toBeNull();
  });

  it('keeps as many as were asked for of late, up to a limit', () => {
    const asked = (count: number, members: number) => [kind('a', { askedAtMs: Array(count).fill(0), members })];
    expect(nextPoolStep(asked(3, 2), PLENTY, MINUTE)?.kind).toBe('fill');
    expect(nextPoolStep(asked(3, 3), PLENTY, MINUTE)).toBeNull();
    expect(nextPoolStep(asked(50, MAX_MEMBERS), PLENTY, MINUTE)).toBeNull();
  });

  it('gives up what nobody asks for any more, down to one, and after an hour that one too', () => {
    const three = [kind('a', { askedAtMs: [0, 0, 0], members: 3 })];
    expect(nextPoolStep(three, PLENTY, 11 * MINUTE)).toEqual({ kind: 'give_up', key: 'a' });
    const one = [kind('a', { askedAtMs: [0, 0, 0], members: 1 })];
    expect(nextPoolStep(one, PLENTY, 59 * MINUTE)).toBeNull();
    expect(nextPoolStep(one, PLENTY, 61 * MINUTE)).toEqual({ kind: 'give_up', key: 'a' });
    expect(nextPoolStep([kind('a')], PLENTY, 61 * MINUTE)).toBeNull();
  });

  it('begins with what has least, then with what was asked for last', () => {
    const kinds = [
      kind('a', { members: 1, askedAtMs: [1, 9] }),
      kind('b', { askedAtMs: [2] }),
      kind('c', { askedAtMs: [3] }),
    ];
    expect(nextPoolStep(kinds, PLENTY, 10)).toEqual({ kind: 'fill', key: 'c' });
  });

  it('stays within its budget, and fills the smaller where the larger does not fit', () => {
    const kinds = [kind('large', { needMib: 900, askedAtMs: [5] }), kind('small')];
    expect(nextPoolStep(kinds, { ...PLENTY, budgetMib: 1000, takenMib: 300 }, 9)).toEqual({
      kind: 'fill',
      key: 'small',
    });
    expect(nextPoolStep(kinds, { ...PLENTY, budgetMib: 1000, takenMib: 600 }, 9)).toBeNull();
    expect(nextPoolStep(kinds, { ...PLENTY, budgetMib: 0 }, 9)).toBeNull();
  });

  it('is off where memory is short: beside a member there is room for another sandbox of its size', () => {
    expect(nextPoolStep([kind('a')], { ...PLENTY, freeMib: 999 }, 0)).toBeNull();
    expect(nextPoolStep([kind('a')], { ...PLENTY, freeMib: 1000 }, 0)?.kind).toBe('fill');
  });

  it('keeps nothing for a vault that is open and in which nobody creates, where there are others', () => {
    const [own, other] = ['own', 'other'].map((name) => name as VaultName);
    if (own === undefined || other === undefined) throw new Error('there are two');
    const kinds = (...asked: readonly [number[], number[]]) => [
      kind('a', { vault: own, askedAtMs: asked[0] }),
      kind('b', { vault: other, askedAtMs: asked[1] }),
    ];
    expect(nextPoolStep(kinds([], []), PLENTY, 0)).toBeNull();
    expect(nextPoolStep(kinds([], [5]), PLENTY, 9)).toEqual({ kind: 'fill', key: 'b' });
    const idle = [kind('a', { vault: own, members: 1 }), kind('b', { vault: other, members: 1, askedAtMs: [5] })];
    expect(nextPoolStep(idle, PLENTY, 9)).toEqual({ kind: 'give_up', key: 'a' });
    // What nobody has asked for yet is kept in a vault in which other sizes are.
    const sizes = [...kinds([], [5]), kind('c', { vault: other })];
    const had = sizes.map((one) => (one.key === 'b' ? { ...one, members: 1 } : one));
    expect(nextPoolStep(had, PLENTY, 9)).toEqual({ kind: 'fill', key: 'c' });
  });

  it('gives a vault that has none the place of the second of another, and stays so', () => {
    const [busy, late] = ['busy', 'late'].map((name) => name as VaultName);
    if (busy === undefined || late === undefined) throw new Error('there are two');
    const kinds = (members: number, own: number) => [
      kind('a', { vault: busy, askedAtMs: [1, 2, 3, 4], members }),
      kind('b', { vault: late, askedAtMs: [5], members: own }),
    ];
    const room = (members: number) => ({ ...PLENTY, budgetMib: 1500, takenMib: 500 * members });
    expect(nextPoolStep(kinds(3, 0), room(3), 9)).toEqual({ kind: 'give_up', key: 'a' });
    expect(nextPoolStep(kinds(2, 0), room(2), 9)).toEqual({ kind: 'fill', key: 'b' });
    expect(nextPoolStep(kinds(2, 1), room(3), 9)).toBeNull();
    const small = { ...PLENTY, budgetMib: 500, takenMib: 500 };
    expect(nextPoolStep(kinds(1, 0), small, 9)).toBeNull();
  });

  it('tries again what failed, later each time', () => {
    const failed = (failures: number) => [kind('a', { failures, failedAtMs: 0 })];
    expect(nextPoolStep(failed(1), PLENTY, 4_999)).toBeNull();
    expect(nextPoolStep(failed(1), PLENTY, 5_000)?.kind).toBe('fill');
    expect(nextPoolStep(failed(3), PLENTY, 19_999)).toBeNull();
    expect(nextPoolStep(failed(30), PLENTY, 5 * MINUTE)?.kind).toBe('fill');
  });
});
