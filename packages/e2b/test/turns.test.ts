/** Input that waits for its turn holds memory, so there is a limit on how much of it there is. */
import { expect, it } from 'vitest';
import { Turns } from '../src/envd/turns.ts';

const MIB = 1024 * 1024;
const EXHAUSTED = { code: 8 };

it('one process has so many bytes waiting, and all together so many more; what was taken makes room', async () => {
  const turns = new Turns();
  const gate = Promise.withResolvers<void>();
  const waiting = [8, 8].map((mib) => turns.take('a', mib * MIB, () => gate.promise));
  await expect(turns.take('a', 1, async () => undefined)).rejects.toMatchObject(EXHAUSTED);
  // To close the input is no input.
  waiting.push(turns.take('a', 0, async () => undefined));
  for (let i = 0; i < 7; i++) waiting.push(turns.take(`other ${i}`, 16 * MIB, () => gate.promise));
  await expect(turns.take('one more', 1, async () => undefined)).rejects.toMatchObject(EXHAUSTED);
  gate.resolve();
  await Promise.all(waiting);
  await turns.take('a', 16 * MIB, async () => undefined);
});

it('goes in the order in which it came', async () => {
  const turns = new Turns();
  const seen: number[] = [];
  await Promise.all([1, 2, 3].map((n) => turns.take('a', 1, async () => void seen.push(n))));
  expect(seen).toEqual([1, 2, 3]);
});
