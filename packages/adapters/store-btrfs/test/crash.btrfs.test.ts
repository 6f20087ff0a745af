/** A point is absent or whole, whenever the daemon is killed or the machine loses power. */
import { execFile } from 'node:child_process';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { newId, type SandboxRecord, type SnapshotId } from '@space/core';
import {
  bootLife,
  manifestFor,
  newLife,
  newSnapshot,
  readLife,
  takePoint,
  writeLife,
} from '@space/testkit/vault-suite';
import { afterEach, describe, expect, it } from 'vitest';
import { openVault } from '../src/open-vault.ts';
import { COMMIT_STEPS, SEAL_STEPS } from '../src/steps.ts';
import { runUntilKilled } from './child.ts';
import { expectNothingLeft, makeFolder, makeWorld, type TestVault, takeDown } from './world.ts';

const run = promisify(execFile);
const deviceState = Buffer.from('device state');
let options: TestVault;
afterEach(() => takeDown(options.folder));

/** After which the point is acknowledged. */
const LAST_STEPS: readonly string[] = ['durable', 'sealed'];

describe('a daemon killed in a commit or a seal', () => {
  it.each([...COMMIT_STEPS, ...SEAL_STEPS])(
    'at the step "%s" leaves a whole point or none, and nothing staged',
    async (step) => {
      options = await makeFolder();
      expect(await runUntilKilled(options.folder, step)).toBe('SIGKILL');
      const vault = await openVault(options);
      const points = await vault.points();
      if (LAST_STEPS.includes(step)) expect(points).toHaveLength(1);
      for (const snapshotId of points) {
        expect(Buffer.from((await vault.readPoint(snapshotId)).deviceState ?? [])).toEqual(deviceState);
        await vault.createLife(newLife(), { kind: 'point', snapshotId });
      }
      const [lifeId] = await vault.lives();
      if (lifeId !== undefined) await takePoint(vault, lifeId);
      expect(await vault.points()).toHaveLength(points.length + 1);
      await vault.close();
      await expectNothingLeft(options.folder);
    },
  );
});

function recordOf(head: SnapshotId): SandboxRecord {
  const sandboxId = newId('sandbox', { bytes: (count) => new Uint8Array(count) });
  const size = { vcpus: 1, memoryMib: 2, diskMib: 4 };
  return { format: 1, sandboxId, epoch: 7, generation: 1, size, template: 'base', head, life: null };
}

/** What a power cut at this moment would leave on the disk: direct I/O has no cache in between. */
async function copyBacking(folder: string): Promise<void> {
  await run('cp', ['--sparse=always', join(folder, 'vault.btrfs'), join(folder, 'after-power-cut')]);
}

describe('a machine that loses power', () => {
  it.each([...COMMIT_STEPS, ...SEAL_STEPS])('at the step "%s" has a whole point or none', async (step) => {
    const world = await makeWorld(undefined, async (reached) => {
      if (reached === step) await copyBacking(world.folder);
    });
    options = world.options;
    const lifeId = await bootLife(world.vault);
    const snapshotId = newSnapshot();
    await world.vault.flush(lifeId);
    await writeLife(world.vault, lifeId, 'memory', 'then');
    if (SEAL_STEPS.some((one) => one === step)) {
      // What was written is not flushed: the seal does all of it.
      await world.vault.seal(lifeId, manifestFor(snapshotId, deviceState), deviceState);
    } else {
      await world.vault.flush(lifeId);
      await world.vault.capture(lifeId, snapshotId);
      await world.vault.commit(manifestFor(snapshotId, deviceState), deviceState);
    }
    await world.vault.close();
    await rename(join(world.folder, 'after-power-cut'), join(world.folder, 'vault.btrfs'));

    const vault = await openVault(options);
    const points = await vault.points();
    if (LAST_STEPS.includes(step)) expect(points).toEqual([snapshotId]);
    expect(await vault.lives()).toEqual([lifeId]);
    for (const point of points) {
      expect(Buffer.from((await vault.readPoint(point)).deviceState ?? [])).toEqual(deviceState);
      const child = newLife();
      await vault.createLife(child, { kind: 'point', snapshotId: point });
      expect(await readLife(vault, child, 'memory', 4)).toBe('then');
    }
    await vault.close();
  });

  it('has the life that a record names, which was kept from the life before it, and no life that only was kept', async () => {
    const world = await makeWorld();
    options = world.options;
    const [resumed, paused] = [await bootLife(world.vault), await bootLife(world.vault)];
    const [head, other] = [await takePoint(world.vault, resumed), await takePoint(world.vault, paused)];
    await world.vault.keepLife(resumed, head);
    await world.vault.keepLife(paused, other);
    const lifeId = newLife();
    await world.vault.createLife(lifeId, { kind: 'point', snapshotId: head });
    await world.vault.writeSandbox({ ...recordOf(head), life: lifeId });
    await copyBacking(world.folder);
    await world.vault.close();
    await rename(join(world.folder, 'after-power-cut'), join(world.folder, 'vault.btrfs'));

    const vault = await openVault(options);
    expect((await vault.sandboxes()).records.map(({ life }) => life)).toEqual([lifeId]);
    expect(await vault.lives()).toEqual([lifeId]);
    for (const snapshotId of [head, other]) await vault.createLife(newLife(), { kind: 'point', snapshotId });
    await vault.close();
  });

  it('tells the records that it cannot read apart from those that it can', async () => {
    const world = await makeWorld();
    options = world.options;
    const record = recordOf(await takePoint(world.vault, await bootLife(world.vault)));
    await world.vault.writeSandbox(record);
    const spoilt = newId('sandbox', { bytes: (count) => new Uint8Array(count).fill(1) });
    const file = join(world.folder, 'mnt', 'sandboxes', `${spoilt}.json`);
    await writeFile(file, JSON.stringify(record));
    const { records, damaged } = await world.vault.sandboxes();
    expect(records).toEqual([record]);
    expect(damaged).toMatchObject([{ sandboxId: spoilt, reason: { code: 'record_bad' } }]);
    expect(damaged[0]?.reason.message).toContain(file);
    await world.vault.close();
  });

  it('keeps what was acknowledged: records written, and deletions done', async () => {
    const world = await makeWorld();
    options = world.options;
    const lifeId = await bootLife(world.vault);
    const [deleted, kept] = [await takePoint(world.vault, lifeId), await takePoint(world.vault, lifeId)];
    const record = recordOf(kept);
    await world.vault.writeSandbox(record);
    await world.vault.deletePoint(deleted);
    await world.vault.deleteLife(lifeId);
    await copyBacking(world.folder);
    await world.vault.close();
    await rename(join(world.folder, 'after-power-cut'), join(world.folder, 'vault.btrfs'));

    const vault = await openVault(options);
    expect((await vault.sandboxes()).records).toEqual([record]);
    expect(await vault.points()).toEqual([kept]);
    expect(await vault.lives()).toEqual([]);
    await vault.readPoint(kept);
    await vault.close();
  });
});
