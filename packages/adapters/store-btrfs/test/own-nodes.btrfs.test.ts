/** What a life is given ahead of its next point changes nothing that anybody could see. */
import { randomBytes } from 'node:crypto';
import { open, readFile, stat } from 'node:fs/promises';
import type { LifeId } from '@space/core';
import type { PagesOfLife } from '@space/root-helper';
import { bootLife, newLife, newSnapshot, takePoint } from '@space/testkit/vault-suite';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openVault } from '../src/index.ts';
import { type BtrfsWorld, makeWorld } from './world.ts';

const PAGE = 4096;
const WRITTEN = [1, 5, 9, 100, 101, 300];

let world: BtrfsWorld;
beforeEach(async () => {
  world = await makeWorld();
});
afterEach(() => world?.dispose());

async function write(lifeId: LifeId, pages: readonly number[]): Promise<void> {
  await using memory = await open(world.vault.lifeFiles(lifeId).memory, 'r+');
  for (const page of pages) await memory.write(randomBytes(PAGE), 0, PAGE, page * PAGE);
}

const part = (pages: Omit<PagesOfLife, 'file'>) =>
  world.options.helper.partLife('default', { file: 'memory', ...pages });

it('pages that are as in the point are made its own anew, and are still the same, unchanged, and shared', async () => {
  const { vault } = world;
  const lifeId = await bootLife(vault);
  await write(lifeId, WRITTEN);
  const snapshotId = await takePoint(vault, lifeId);
  const { memory } = vault.lifeFiles(lifeId);
  const [bytes, before] = [await readFile(memory), await stat(memory, { bigint: true })];
  expect(await part({ lifeId, snapshotId, pages: WRITTEN })).toBe(WRITTEN.length);
  const after = await stat(memory, { bigint: true });
  expect([after.ctimeNs, after.mtimeNs, after.size]).toEqual([before.ctimeNs, before.mtimeNs, before.size]);
  expect((await readFile(memory)).equals(bytes)).toBe(true);
  expect(await vault.changed(lifeId)).toMatchObject({ memoryBytes: 0, diskBytes: 0 });
  await vault.checkPoint(snapshotId);

  // It is as good as before for whoever starts from there.
  const inode = before.dev;
  await vault.keepLife(lifeId, snapshotId);
  const next = newLife();
  await vault.createLife(next, { kind: 'point', snapshotId });
  expect((await stat(vault.lifeFiles(next).memory, { bigint: true })).dev).toBe(inode);
});

it('a page that was written to since keeps what was written', async () => {
  const { vault } = world;
  const lifeId = await bootLife(vault);
  await write(lifeId, WRITTEN);
  const snapshotId = await takePoint(vault, lifeId);
  // One of them is on the disk by now, and one is not.
  await write(lifeId, [5]);
  await vault.flush(lifeId);
  await write(lifeId, [100]);
  const bytes = await readFile(vault.lifeFiles(lifeId).memory);
  expect(await part({ lifeId, snapshotId, pages: WRITTEN })).toBe(WRITTEN.length - 2);
  await vault.flush(lifeId);
  expect((await readFile(vault.lifeFiles(lifeId).memory)).equals(bytes)).toBe(true);
  expect(await vault.changed(lifeId)).toMatchObject({ memoryBytes: 2 * PAGE });
});

it('a life, a point or a page that is not there is refused', async () => {
  const lifeId = await bootLife(world.vault);
  const snapshotId = await takePoint(world.vault, lifeId);
  await expect(part({ lifeId: newLife(), snapshotId, pages: [1] })).rejects.toThrow();
  await expect(part({ lifeId, snapshotId: newSnapshot(), pages: [1] })).rejects.toThrow();
  await expect(part({ lifeId, snapshotId, pages: [2 ** 31] })).rejects.toThrow();
});

it('a vault asks for it after each point of a life that goes on, and for none of one that ends', async () => {
  const asked: PagesOfLife[] = [];
  const { helper } = world.options;
  const partLife = async (name: string, pages: PagesOfLife) => {
    expect(await helper.partLife(name, pages)).toBe(pages.pages.length);
    asked.push(pages);
    return pages.pages.length;
  };
  await world.vault.close();
  const { openVault: mount, closeVault } = helper;
  const watched = { openVault: mount.bind(helper), closeVault: closeVault.bind(helper), partLife };
  const vault = await openVault({ ...world.options, helper: watched });
  try {
    const [ends, goesOn] = [await bootLife(vault), await bootLife(vault)];
    for (const lifeId of [ends, goesOn]) {
      await using memory = await open(vault.lifeFiles(lifeId).memory, 'r+');
      await memory.write(randomBytes(PAGE), 0, PAGE, 3 * PAGE);
      await vault.flush(lifeId);
      await vault.changed(lifeId);
    }
    await vault.keepLife(ends, await takePoint(vault, ends));
    const snapshotId = await takePoint(vault, goesOn);
    await expect
      .poll(() => asked, { timeout: 10_000 })
      .toEqual([{ lifeId: goesOn, snapshotId, file: 'memory', pages: [3] }]);
  } finally {
    await vault.close();
  }
});
