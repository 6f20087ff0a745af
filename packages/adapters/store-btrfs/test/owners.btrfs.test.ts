/** Whose the files of a vault are, and what the node can do with them without any privilege. */
import { execFileSync } from 'node:child_process';
import { chmod, chown, mkdtemp, readdir, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LifeId, SnapshotId } from '@space/core';
import { bootLife, takePoint } from '@space/testkit/vault-suite';
import { afterEach, expect, it } from 'vitest';
import { openVault } from '../src/open-vault.ts';
import { endHolders, startHolder } from './child.ts';
import { DEFAULT_BYTES, expectNothingLeft, makeFolder, takeDown, vaultIn } from './world.ts';

const NODE = { uid: 64_123, gid: 64_124 };
const VMM = { uid: 1_900_000_007, gid: 1_900_000_007 };
const BACKING = { kind: 'loop', sizeBytes: DEFAULT_BYTES } as const;
const MEMBERS = { images: 'folder', lives: 'folder', points: 'folder', sandboxes: 'folder', 'vault.json': 'file' };

let folder: string;
afterEach(async () => {
  await endHolders();
  await takeDown(folder);
});

const inVault = (...parts: string[]) => join(folder, 'mnt', ...parts);

async function expectOwner(path: string, owner: { uid: number; gid: number }, mode: number): Promise<void> {
  const { uid, gid, mode: found } = await stat(path);
  expect([path, uid, gid, (found & 0o7777).toString(8)]).toEqual([path, owner.uid, owner.gid, mode.toString(8)]);
}

it('a node without any privilege does everything that a node does with a vault', async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-vault-'));
  await vaultIn(folder, BACKING, { node: NODE });
  const holder = await startHolder(folder, 'all', NODE);
  await holder.kill();
  await expectNothingLeft(folder);
});

/** A vault as an earlier version left it: everything is root's, but for what its VMM had. */
async function olderVault(): Promise<{ lifeId: LifeId; snapshotId: SnapshotId; image: string }> {
  const options = await makeFolder();
  folder = options.folder;
  const vault = await openVault(options);
  const lifeId = await bootLife(vault);
  for (const file of Object.values(vault.lifeFiles(lifeId))) {
    await chown(file, VMM.uid, VMM.gid);
    await chmod(file, 0o600);
  }
  const snapshotId = await takePoint(vault, lifeId);
  const [image = ''] = await readdir(inVault('images'));
  for (const path of [inVault(), inVault('lives')]) await chmod(path, 0o711);
  await vault.close();
  return { lifeId, snapshotId, image };
}

async function expectHandedOver({ lifeId, snapshotId, image }: Awaited<ReturnType<typeof olderVault>>): Promise<void> {
  for (const [name, kind] of Object.entries(MEMBERS)) {
    await expectOwner(inVault(name), NODE, kind === 'folder' ? 0o700 : 0o600);
  }
  for (const place of [inVault('lives', lifeId), inVault('points', snapshotId)]) {
    await expectOwner(place, NODE, 0o700);
    for (const file of ['disk.img', 'memory']) await expectOwner(join(place, file), { ...VMM, gid: NODE.gid }, 0o640);
  }
  await expectOwner(inVault('points', snapshotId, 'manifest.json'), NODE, 0o600);
  await expectOwner(inVault('images', image, 'disk.img'), NODE, 0o640);
  await expect(writeFile(inVault('points', snapshotId, 'new'), '')).rejects.toMatchObject({ code: 'EROFS' });
}

it('a vault of an earlier version is handed over to the node when it is opened, and stays as it is otherwise', async () => {
  const made = await olderVault();
  await vaultIn(folder, BACKING, { node: NODE });
  const holder = await startHolder(folder, 'hold', { ...NODE, helper: 1 });
  await expectHandedOver(made);
  expect(await readdir(inVault('points'))).toContain(made.snapshotId);
  await holder.kill();
});

it('a handover that was interrupted is done again, and what was open is sealed again', async () => {
  const made = await olderVault();
  await vaultIn(folder, BACKING, { node: NODE });
  await (await startHolder(folder, 'hold', { ...NODE, helper: 1 })).kill();
  // As far as it came: the last step was not done, and a point is open that was about to be sealed.
  await chown(inVault('vault.json'), 0, 0);
  await chown(inVault('points', made.snapshotId), 0, 0).catch(() => undefined);
  execFileSync('btrfs', ['property', 'set', inVault('points', made.snapshotId), 'ro', 'false']);
  await chown(inVault('points', made.snapshotId, 'manifest.json'), 0, 0);
  await (await startHolder(folder, 'hold', { ...NODE, helper: 1 })).kill();
  await expectHandedOver(made);
});
