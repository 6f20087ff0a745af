import { MEMORY_RESERVED_MS, newId } from '@space/core';
import { seededChance } from '@space/testkit';
import { expect, it } from 'vitest';
import { MemoryBudget } from './memory-budget.ts';

const chance = seededChance(1);

it('frees what nobody took up after a while, and never what a life holds', () => {
  let nowMs = 0;
  const budget = new MemoryBudget(1000, { now: () => 0, monotonicMs: () => nowMs });
  const [taken, left] = [newId('sandbox', chance), newId('sandbox', chance)];
  budget.claim([
    { sandboxId: taken, memoryMib: 400 },
    { sandboxId: left, memoryMib: 400 },
  ]);
  budget.reserve(newId('life', chance), 400, taken);
  const both = budget.promisedMib;
  nowMs = MEMORY_RESERVED_MS - 1;
  expect(budget.promisedMib).toBe(both);
  nowMs = MEMORY_RESERVED_MS;
  expect(budget.promisedMib).toBe(both / 2);
});
