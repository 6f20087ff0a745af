/** A running microVM goes through an archive and lives on, memory included: as itself by a move, and as another sandbox. */
import {
  DEFAULT_PROJECT,
  DEFAULT_SIZE,
  DEFAULT_VAULT,
  type ExportEvent,
  newId,
  type SandboxId,
  type SnapshotId,
  type VaultName,
} from '@space/core';
import { Sandbox } from '@space/sdk';
import { mountsNaming } from '@space/server';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

const PLACE = { location: 'default' };
/** What the process writes from now on. */
const SAYS_NOW = 'rm -f /tmp/now; until [ -s /tmp/now ]; do sleep 0.1; done; cat /tmp/now';
const chance = { bytes: (count: number) => crypto.getRandomValues(new Uint8Array(count)) };

let world: World;
beforeAll(async () => {
  world = await makeWorld();
});
afterAll(() => world?.[Symbol.asyncDispose]());

it('exports a running sandbox, and imports it with its live processes; the second export reads what has changed', async () => {
  const { node } = world.platform;
  const sandbox = await world.create();
  const size = DEFAULT_SIZE;
  // The marker is in the memory of a process, and nowhere else.
  await sandbox.run(
    `nohup python3 -c "
import time, os
marker = os.urandom(16).hex()
open('/tmp/said', 'w').write(marker)
while True:
    open('/tmp/now', 'w').write(marker); time.sleep(0.2)
" >/dev/null 2>&1 &
until [ -s /tmp/said ]; do sleep 0.1; done`,
  );
  const said = (await sandbox.run('cat /tmp/said; rm /tmp/said')).stdout;
  const point = (await sandbox.snapshot()).id as SnapshotId;
  const exported = async (points: readonly SnapshotId[], base: string | null) => {
    const order = { vault: DEFAULT_VAULT, sandboxId: sandbox.id as SandboxId, ...PLACE, projectId: DEFAULT_PROJECT };
    const events: ExportEvent[] = await Array.fromAsync(
      node.exportPoints({ ...order, template: 'base', points, base }),
    );
    const last = events.at(-1);
    if (last?.kind !== 'done') return expect.unreachable('the export has no end');
    return last;
  };
  const first = await exported([point], null);
  const second = (await sandbox.snapshot()).id as SnapshotId;
  const { archive, readBytes } = await exported([point, second], first.archive);
  expect(readBytes).toBeLessThan(first.readBytes / 4);

  const run = async (id: SandboxId, command: string) => {
    const argv = ['/bin/bash', '-c', command];
    const events = await Array.fromAsync(node.exec(id, { processId: newId('process', chance), argv, env: {} }));
    return events.map((event) => (event.kind === 'output' ? Buffer.from(event.data).toString() : '')).join('');
  };
  const identity = 'cat /etc/hostname /etc/machine-id';
  const before = (await sandbox.run(identity)).stdout;
  const moved = await sandbox.move({ base: archive });
  await expect(sandbox.run('true')).rejects.toMatchObject({ code: 'wrong_state' });
  await sandbox.delete();
  const takenUp = Sandbox.import(moved.archive, { ...world.connection, as: 'move' });
  await expect(takenUp).rejects.toMatchObject({ code: 'wrong_state' });
  // As another installation does: once nothing of it is left here, all comes out of the archive.
  const left = async () => (await node.points(DEFAULT_VAULT)).filter((id) => moved.snapshots.includes(id));
  await expect.poll(left, { timeout: 60_000 }).toEqual([]);
  const itself = { vault: DEFAULT_VAULT, sandboxId: sandbox.id as SandboxId };
  const arrival = { ...PLACE, archive: moved.archive, claimant: 'another installation' };
  const { head, generation } = await node.arrive({ ...itself, epoch: 1000, ...arrival });
  await node.start({ ...itself, epoch: 1001, from: head, generation, template: 'base', size });
  expect(await run(itself.sandboxId, SAYS_NOW)).toBe(said);
  expect(await run(itself.sandboxId, identity)).toBe(before);
  await node.destroy({ ...itself, epoch: 1002, points: moved.snapshots as SnapshotId[] });

  // The copy comes into a vault of its own, which is closed while the other goes on.
  const own = 'archive-test' as VaultName;
  const key = crypto.getRandomValues(new Uint8Array(64));
  const opening = () => ({ vault: own, key: Uint8Array.from(key) });
  await node.createVault({ ...opening(), sizeBytes: 8 * 2 ** 30, token: 'of this test' });
  await node.openVault(opening());
  const sandboxId = newId('sandbox', chance);
  const summary = await node.readArchive({ ...PLACE, archive });
  expect(summary).toMatchObject({ template: 'base', unfit: null, head: 1 });
  const points = summary.points.map(() => newId('snapshot', chance));
  const order = { vault: own, sandboxId, epoch: 1, generation: 1 };
  await node.importPoints({ ...order, ...PLACE, archive, points, disksOnly: false });
  await node.start({ ...order, epoch: 2, from: points[1] as SnapshotId, template: 'base', size });
  expect(await run(sandboxId, SAYS_NOW)).toBe(said);
  expect((await run(sandboxId, 'cat /etc/hostname')).trim()).toBe(sandboxId.replace('_', '-'));

  await expect(node.closeVault({ vault: own, endLives: false })).rejects.toMatchObject({ code: 'vault_in_use' });
  const pausedAt = newId('snapshot', chance);
  await node.pause({ ...order, epoch: 3, snapshotId: pausedAt });
  await node.closeVault({ vault: own, endLives: false });
  expect(await mountsNaming(`${world.config.dataDir}/vaults/${own}`)).toEqual([]);
  await expect(node.inspect(own, sandboxId)).rejects.toMatchObject({ code: 'vault_closed' });
  await expect(node.openVault({ vault: own, key: crypto.getRandomValues(new Uint8Array(64)) })).rejects.toMatchObject({
    code: 'vault_key_wrong',
  });
  await node.openVault(opening());
  expect(await node.inspect(own, sandboxId)).toMatchObject({ real: 'paused', head: pausedAt });
  await node.start({ ...order, epoch: 4, from: pausedAt, template: 'base', size });
  expect(await run(sandboxId, SAYS_NOW)).toBe(said);
  // What runs in it is ended, and nothing is left of it but what lies in it.
  await node.closeVault({ vault: own, endLives: true });
  expect(await mountsNaming(`${world.config.dataDir}/vaults/${own}`)).toEqual([]);
  await node.removeVault(own);
});
