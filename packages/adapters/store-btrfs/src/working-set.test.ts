import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { cachedPages, forgetCached, PAGE_BYTES } from './kernel.ts';
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
  const folder = await mkdtemp('/var/tmp/space-working-set-');
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

it('reads nothing by looking what is cached', async () => {
  const folder = await mkdtemp('/var/tmp/space-working-set-');
  const path = join(folder, 'memory');
  const bytes = 8 * 2 ** 20;
  await writeFile(path, Buffer.alloc(bytes, 1), { flush: true });
  await using memory = await open(path, 'r');
  const cached = () => cachedPages(memory.fd, 0, bytes).reduce((sum, page) => sum + page, 0);
  expect(cached()).toBe(bytes / PAGE_BYTES);
  forgetCached(memory.fd, 0, bytes);
  const left = cached();
  expect(left).toBeLessThan(bytes / PAGE_BYTES / 2);
  await new WorkingSets().learn(path, bytes);
  expect(cached()).toBe(left);
  await rm(folder, { recursive: true });
});
