import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { releaseUid, takeUid, uidOf } from './vmm-uids.ts';

const FIRST = 1_900_000_000;

async function world(count: number) {
  const folder = await mkdtemp(join(tmpdir(), 'uids-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const uids = { first: FIRST, count, registry: join(folder, 'registry') };
  let made = 0;
  return {
    uids,
    async folder() {
      const path = join(folder, `run-${made++}`);
      await mkdir(path);
      return path;
    },
  };
}

it('gives each run folder a uid of its own, recorded in it, also when many ask at once', async () => {
  const { uids, folder } = await world(20);
  const folders = await Promise.all(Array.from({ length: 20 }, folder));
  const taken = await Promise.all(folders.map((path) => takeUid(uids, path)));
  expect(new Set(taken).size).toBe(20);
  expect(await Promise.all(folders.map(uidOf))).toEqual(taken);
  await expect(takeUid(uids, await folder())).rejects.toThrow('All 20 user ids');
});

it('frees a uid with its run folder, even when nobody said so, and not when the folder is renamed', async () => {
  const { uids, folder } = await world(2);
  const [first, second] = [await folder(), await folder()];
  const uid = await takeUid(uids, first);
  await takeUid(uids, second);
  await rename(first, `${first}-renamed`);
  await expect(takeUid(uids, await folder())).rejects.toThrow('in use');
  await rm(`${first}-renamed`, { recursive: true });
  expect(await takeUid(uids, await folder())).toBe(uid);
});

it('uses a uid that was just freed last, and leaves nothing in the registry', async () => {
  const { uids, folder } = await world(3);
  const taken: number[] = [];
  for (let turn = 0; turn < 4; turn++) {
    const path = await folder();
    const uid = await takeUid(uids, path);
    taken.push(uid);
    await rm(path, { recursive: true });
    await releaseUid(uids.registry, uid);
  }
  expect(new Set(taken.slice(0, 3)).size).toBe(3);
  expect(taken[3]).toBe(taken[0]);
  expect(await readdir(uids.registry)).toEqual(['.lock']);
});

it('does not free a uid whose run folder is there', async () => {
  const { uids, folder } = await world(1);
  const uid = await takeUid(uids, await folder());
  await releaseUid(uids.registry, uid);
  await expect(takeUid(uids, await folder())).rejects.toThrow('in use');
});
