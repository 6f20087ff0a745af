/** Guests that take all the space of a small vault, on real microVMs: none of them dies, and all go on. */
import { execFileSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DEFAULT_VAULT, type SandboxId } from '@space/core';
import { deleteSnapshot, events, Sandbox, type SpaceError, updateSnapshot } from '@space/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

const MIB = 2 ** 20;
const SMALL = { memoryMib: 256, diskMib: 8192 };
/** Rewrites 128 MiB of memory for ever, and counts. */
const REWRITE = `
import os
block = bytearray(128 << 20)
rounds = 0
while True:
    rounds += 1
    for at in range(0, len(block), 4096):
        block[at] = rounds & 255
    open("/dev/shm/next", "w").write(str(rounds))
    os.replace("/dev/shm/next", "/dev/shm/rounds")`;
/** Fills the disk with what is not zero. */
const FILL = 'head -c 8M /dev/urandom > /dev/shm/block; while cat /dev/shm/block; do :; done > filler';

let world: World;
let mine: Sandbox;
let theirs: Sandbox;
let other: World['connection'];
beforeAll(async () => {
  world = await makeWorld(4);
  mine = await world.create({ size: SMALL });
  other = { ...world.connection, apiKey: await otherOrganisation() };
  theirs = await Sandbox.create({ ...other, size: SMALL });
  await theirs.start(['python3', '-c', REWRITE]);
});
afterAll(() => world[Symbol.asyncDispose]());

describe('a vault that guests fill', () => {
  it('lets none of them die: who fills it stands still, then all do, and all go on when there is room', async () => {
    const lives = await Promise.all([mine, theirs].map(lifeOf));
    const { processId } = await mine.start(FILL);
    await host.leave(1600 * MIB);

    // After each snapshot every page that is written needs a block. They are refused before a guest feels anything.
    const refused = await snapshotUntilRefused(theirs);
    expect(['insufficient_space', 'out_of_space']).toContain((refused as SpaceError).code);
    await expect(world.create({ size: SMALL })).rejects.toMatchObject({ code: 'insufficient_space' });
    await becomes(mine, 'out_of_space');
    await expect(mine.run('true')).rejects.toMatchObject({ code: 'out_of_space', status: 507 });
    await expect(mine.pause()).rejects.toMatchObject({ code: 'out_of_space' });
    // Who only computes goes on.
    const computed = await roundsOf(theirs);
    await expect.poll(() => roundsOf(theirs), { timeout: 60_000 }).toBeGreaterThan(computed);

    await host.leave(100 * MIB);
    await becomes(theirs, 'out_of_space');
    await expect(theirs.run('true')).rejects.toMatchObject({ code: 'out_of_space' });
    await expect(theirs.resume()).rejects.toMatchObject({ code: 'out_of_space' });

    await host.giveBack();
    await becomes(theirs, 'running');
    await becomes(mine, 'running');
    const before = await roundsOf(theirs);
    await expect.poll(() => roundsOf(theirs), { timeout: 60_000 }).toBeGreaterThan(before);
    expect(Number((await mine.run('stat -c %s filler')).stdout)).toBeGreaterThan(8 * MIB);
    expect(await Promise.all([mine, theirs].map(lifeOf))).toEqual(lives);
    await mine.kill(processId);
    await mine.run('rm filler; fstrim /', { user: 'root' });
  });

  it('gives up history before a guest, a few points at a time, and keeps the newest; events say why', async () => {
    await theirs.update({ snapshots: { everyMs: 'off' } });
    for (let count = 0; count < 3; count++) await theirs.snapshot();
    const { snapshots } = await theirs.timeline();
    for (const { id } of snapshots) await updateSnapshot(id, { ...other, pinned: false });
    await host.leave(700 * MIB);
    const left = async () => (await theirs.timeline()).snapshots.map(({ id }) => id);
    await expect.poll(left, { timeout: 60_000, interval: 500 }).toEqual([snapshots[0]?.id]);
    await host.giveBack();
    await becomes(theirs, 'running');
    await becomes(mine, 'running');
    const gone: string[] = [];
    for await (const event of events({ ...other, follow: false })) {
      if (event.kind === 'snapshot.deleted' && event.code === 'insufficient_space') gone.push(event.snapshotId ?? '');
    }
    expect(gone.toSorted()).toEqual(
      snapshots
        .slice(1)
        .map(({ id }) => id)
        .toSorted(),
    );
  });

  it('stops in time who writes to memory right after a snapshot, when each page needs a block', async () => {
    await mine.pause();
    const life = await lifeOf(theirs);
    for (let round = 0; round < 3; round++) {
      await snapshotOnceItRuns(theirs);
      await host.leave(300 * MIB);
      await becomes(theirs, 'out_of_space');
      await host.giveBack();
      await becomes(theirs, 'running');
    }
    expect(await lifeOf(theirs)).toBe(life);
  });

  it('deletes what stands still while it is full, and what is left goes on', async () => {
    // Whether the last case cost points depends on who was faster. Waking takes a reserve, and what is deleted comes back in the background.
    for (const { id } of (await theirs.timeline()).snapshots) await deleteSnapshot(id, other);
    await expect.poll(host.available, { timeout: 60_000, interval: 500 }).toBeGreaterThan(1300 * MIB);
    await mine.start(FILL);
    await host.leave(600 * MIB);
    await becomes(mine, 'out_of_space');
    await host.leave(50 * MIB);
    await becomes(theirs, 'out_of_space');
    await mine.delete();
    await host.giveBack();
    await becomes(theirs, 'running');
    const before = await roundsOf(theirs);
    await expect.poll(() => roundsOf(theirs), { timeout: 60_000 }).toBeGreaterThan(before);
    await theirs.pause();
    expect(await roundsOf(theirs)).toBeGreaterThan(before);
  });
});

/** A stop that was decided before there was room again may still come; it goes on by itself. */
async function snapshotOnceItRuns(sandbox: Sandbox): Promise<void> {
  const end = () =>
    sandbox.snapshot().then(
      () => 'ok',
      ({ code }: SpaceError) => code,
    );
  await expect.poll(end, { timeout: 20_000, interval: 200 }).toBe('ok');
}

/** What somebody else on the machine does with the space of the vault. */
const host = {
  path: () => join(world.config.dataDir, 'vaults/default/mnt/taken'),
  available: async () => (await world.platform.node.capabilities()).vaults[0]?.availableBytes ?? 0,
  /** Takes what is there but so much; reserved as a file's blocks are, at once. */
  async leave(bytes: number): Promise<void> {
    const size = async () => Number(execFileSync('stat', ['-c', '%s', host.path()], { encoding: 'utf8' }));
    execFileSync('touch', [host.path()]);
    const take = Math.floor((await host.available()) - bytes);
    if (take > 0) execFileSync('fallocate', ['-l', String((await size()) + take), host.path()]);
  },
  async giveBack(): Promise<void> {
    await rm(host.path());
    execFileSync('sync', ['--file-system', join(world.config.dataDir, 'vaults/default/mnt')]);
  },
};

async function lifeOf(sandbox: Sandbox) {
  return (await world.platform.node.inspect(DEFAULT_VAULT, sandbox.id as SandboxId)).life;
}

async function roundsOf(sandbox: Sandbox): Promise<number> {
  return Number((await sandbox.run('cat /dev/shm/rounds')).stdout);
}

async function becomes(sandbox: Sandbox, status: string): Promise<void> {
  await expect.poll(async () => (await sandbox.refresh()).status, { timeout: 120_000, interval: 200 }).toBe(status);
}

async function snapshotUntilRefused(sandbox: Sandbox): Promise<unknown> {
  for (let count = 0; count < 100; count++) {
    try {
      await sandbox.snapshot();
    } catch (thrown) {
      return thrown;
    }
  }
  throw new Error('a hundred snapshots found room');
}

/** The key of an admin of an organisation of its own. */
async function otherOrganisation(): Promise<string> {
  const { baseUrl, apiKey } = world.connection;
  const response = await fetch(`${baseUrl}/v1/organisations`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'other' }),
  });
  return ((await response.json()) as { key: { secretKey: string } }).key.secretKey;
}
