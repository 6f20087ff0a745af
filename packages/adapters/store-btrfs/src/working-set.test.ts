import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { piecesOf, WorkingSets } from './working-set.ts';

it('parts that lie close together are read in one, and long ones in several', () => {
  const block = 16_384;
  expect(piecesOf([])).toEqual([]);
  expect(piecesOf([0, 1, 3, 6])).toEqual([
    { offset: 0, length: 4 * block },
    { offset: 6 * block, length: block },
  ]);
  expect(piecesOf(Array.from({ length: 20 }, (_, number) => number))).toEqual([
    { offset: 0, length: 16 * block },
    { offset: 16 * block, length: 4 * block },
  ]);
});

it('learns from what is cached, once it is enough', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'space-working-set-'));
  const memory = join(folder, 'memory');
  const sets = new WorkingSets();
  for (const [mib, isEnough] of [
    [1, false],
    [8, true],
  ] as const) {
    await writeFile(memory, Buffer.alloc(mib * 2 ** 20, 1));
    await sets.learn(memory, mib * 2 ** 20);
    expect(sets.knows(mib * 2 ** 20)).toBe(isEnough);
    await sets.readAhead(memory, mib * 2 ** 20);
  }
  await rm(folder, { recursive: true });
});
