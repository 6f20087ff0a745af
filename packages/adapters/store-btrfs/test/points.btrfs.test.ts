/** Only what verifies is a point. */
import { execFileSync } from 'node:child_process';
import { appendFile, open, readdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type AppError, MANIFEST_FORMAT, type SnapshotId } from '@space/core';
import { bootLife, manifestFor, newLife, newSnapshot, takePoint } from '@space/testkit/vault-suite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isReadOnly } from '../src/btrfs.ts';
import { commitTransaction } from '../src/commits.ts';
import { openVault } from '../src/index.ts';
import { type BtrfsWorld, makeWorld } from './world.ts';

let world: BtrfsWorld;
beforeEach(async () => {
  world = await makeWorld();
});
afterEach(() => world?.dispose());

const place = (snapshotId: SnapshotId, file = '') => join(world.folder, 'mnt/points', snapshotId, file);

async function refusalOf(call: Promise<unknown>): Promise<AppError> {
  return await call.then(
    () => expect.unreachable('the call succeeded'),
    (thrown: AppError) => thrown,
  );
}

describe('a commit', () => {
  it('is made by the call; what comes while one is under way is in the next, together', async () => {
    const root = join(world.folder, 'mnt');
    const isTurned = () => isReadOnly(join(root, 'commits'));
    await commitTransaction(root);
    const before = await isTurned();
    await commitTransaction(root);
    expect(await isTurned()).toBe(!before);
    // The first, and one for all the others.
    await Promise.all(Array.from({ length: 10 }, () => commitTransaction(root)));
    expect(await isTurned()).toBe(!before);
    await Promise.all([commitTransaction(root), commitTransaction(root), commitTransaction(root)]);
    expect(await isTurned()).toBe(!before);
    await commitTransaction(root);
    expect(await isTurned()).toBe(before);
  });
});

describe('a point', () => {
  it('is read-only for everybody, root included', async () => {
    const snapshotId = await takePoint(world.vault, await bootLife(world.vault));
    await expect(writeFile(place(snapshotId, 'memory'), 'x')).rejects.toMatchObject({ code: 'EROFS' });
  });

  it.each([
    [
      'device state was changed',
      (id: SnapshotId) => writeFile(place(id, 'device.state'), 'device state of one instanT'),
      'digest',
    ],
    ['device state was cut', (id: SnapshotId) => truncate(place(id, 'device.state'), 3), 'has 3 bytes'],
    ['memory has another length', (id: SnapshotId) => appendFile(place(id, 'memory'), 'x'), 'memory has'],
    ['manifest is no JSON', (id: SnapshotId) => truncate(place(id, 'manifest.json'), 9), 'cannot be used'],
    ['manifest has a format that never was', (id: SnapshotId) => edit(id, { format: 0 }), 'format'],
    ['manifest has an unknown field', (id: SnapshotId) => edit(id, { extra: 1 }), 'extra'],
    [
      'manifest is that of another',
      (id: SnapshotId) => edit(id, { snapshotId: newSnapshot() }),
      'its manifest is that of',
    ],
    ['processes were not frozen', (id: SnapshotId) => edit(id, { frozen: false }), 'frozen'],
  ])('is bad, and says why, when its %s', async (_, tamper, reason) => {
    const snapshotId = await takePoint(world.vault, await bootLife(world.vault));
    execFileSync('btrfs', ['property', 'set', place(snapshotId), 'ro', 'false']);
    await tamper(snapshotId);
    const refused = await refusalOf(world.vault.readPoint(snapshotId));
    expect(refused).toMatchObject({ code: 'snapshot_bad', message: expect.stringContaining(reason) });
    await world.vault.deletePoint(snapshotId);
  });

  it('of a later version is refused by name, is not called bad, and can be deleted', async () => {
    const snapshotId = await takePoint(world.vault, await bootLife(world.vault));
    execFileSync('btrfs', ['property', 'set', place(snapshotId), 'ro', 'false']);
    await edit(snapshotId, { format: MANIFEST_FORMAT + 1, news: true });
    const code = 'snapshot_unfit';
    expect(await refusalOf(world.vault.readPoint(snapshotId))).toMatchObject({ code, facts: { need: 'format' } });
    expect(await refusalOf(world.vault.checkPoint(snapshotId))).toMatchObject({ code });
    await world.vault.deletePoint(snapshotId);
    expect(await world.vault.points()).toEqual([]);
  });

  it('is not committed when what is given does not fit together', async () => {
    const lifeId = await bootLife(world.vault);
    const snapshotId = newSnapshot();
    await world.vault.capture(lifeId, snapshotId);
    const manifest = manifestFor(snapshotId, Buffer.from('one state'));
    const refused = await refusalOf(world.vault.commit(manifest, Buffer.from('two state')));
    expect(refused.code).toBe('snapshot_failed');
    await world.vault.abandon(snapshotId);
    expect(await world.vault.points()).toEqual([]);
  });
});

describe('what the life of a pause left', () => {
  const livesFolder = () => join(world.folder, 'mnt/lives');

  /** The life, whose VM is dead, as the point. */
  async function paused(): Promise<{ readonly snapshotId: SnapshotId; readonly subvolume: number }> {
    const { vault } = world;
    const lifeId = await bootLife(vault);
    await writeFile(vault.lifeFiles(lifeId).memory, 'x', { flag: 'r+' });
    const subvolume = (await stat(vault.lifeFiles(lifeId).memory)).dev;
    const snapshotId = await takePoint(vault, lifeId);
    await vault.keepLife(lifeId, snapshotId);
    return { snapshotId, subvolume };
  }

  it('is what the next one from there starts with, and then is there no more', async () => {
    const { vault } = world;
    const { snapshotId, subvolume } = await paused();
    const [first, second] = [newLife(), newLife()];
    await vault.createLife(first, { kind: 'point', snapshotId });
    await vault.createLife(second, { kind: 'point', snapshotId });
    expect((await stat(vault.lifeFiles(first).memory)).dev).toBe(subvolume);
    expect((await stat(vault.lifeFiles(second).memory)).dev).not.toBe(subvolume);
    expect((await readdir(livesFolder())).toSorted()).toEqual([first, second].toSorted());
  });

  it('is gone with the point, and after the vault was opened anew', async () => {
    const deleted = await paused();
    await paused();
    expect(await readdir(livesFolder())).toHaveLength(2);
    await world.vault.deletePoint(deleted.snapshotId);
    expect(await readdir(livesFolder())).toHaveLength(1);
    await world.reopen();
    expect(await readdir(livesFolder())).toEqual([]);
  });
});

async function edit(snapshotId: SnapshotId, change: object): Promise<void> {
  const manifest = JSON.parse(await readFile(place(snapshotId, 'manifest.json'), 'utf8'));
  await writeFile(place(snapshotId, 'manifest.json'), JSON.stringify({ ...manifest, ...change }));
}

describe('a block that has rotted', () => {
  const MARK = Buffer.from('a block of memory that will rot on its device'.padEnd(4096, '.'));

  it('makes each point bad that holds it, and no other', async () => {
    const { vault } = world;
    const lifeId = await bootLife(vault);
    const without = await takePoint(vault, lifeId);
    const memory = await open(vault.lifeFiles(lifeId).memory, 'r+');
    await memory.write(MARK, 0, MARK.length, 8192);
    await memory.close();
    const holding = [await takePoint(vault, lifeId), await takePoint(vault, lifeId)];
    for (const id of [without, ...holding]) await vault.checkPoint(id);
    await vault.close();
    await rot(join(world.folder, 'vault.btrfs'));
    const again = await openVault(world.options);
    try {
      await again.checkPoint(without);
      for (const id of holding) {
        expect(await refusalOf(again.checkPoint(id))).toMatchObject({
          code: 'snapshot_bad',
          message: expect.stringMatching(/memory is damaged at byte 8192/),
        });
      }
    } finally {
      await again.close();
    }
  });

  it('does not keep the vault from being closed while a point is read', async () => {
    const { vault } = world;
    const lifeId = await bootLife(vault);
    const memory = await open(vault.lifeFiles(lifeId).memory, 'r+');
    await memory.write(Buffer.alloc(2 ** 20, 1), 0, 2 ** 20, 0);
    await memory.close();
    const check = refusalOf(vault.checkPoint(await takePoint(vault, lifeId)));
    await vault.close();
    expect(await check).toMatchObject({ code: 'unavailable' });
  });

  /** Turns one bit of the mark on the device. */
  async function rot(device: string): Promise<void> {
    const found = execFileSync('grep', ['-abo', '--', MARK.subarray(0, 45).toString(), device], { encoding: 'utf8' });
    const places = found
      .trim()
      .split('\n')
      .map((line) => Number(line.split(':')[0]));
    expect(places).toHaveLength(1);
    await using file = await open(device, 'r+');
    await file.write(Buffer.from('b'), 0, 1, places[0]);
    await file.sync();
  }
});
