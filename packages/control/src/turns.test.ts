import { expect, it } from 'vitest';
import { eachInTurn } from './turns.ts';

it('does each step, whatever the others do, and tells the first failure', async () => {
  const done: number[] = [];
  const step =
    (number: number, fails = false) =>
    async () => {
      if (fails) throw new Error(`step ${number}`);
      done.push(number);
    };
  await expect(eachInTurn([step(1), step(2, true), step(3), step(4, true), step(5)])).rejects.toThrow('step 2');
  expect(done).toEqual([1, 3, 5]);
});
