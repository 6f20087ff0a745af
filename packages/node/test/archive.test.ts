/** A sandbox's points through an archive, as orders to a node; also over the link. */
import { DEFAULT_PROJECT, DEFAULT_VAULT, type ExportEvent, newId, type SandboxId, type SnapshotId } from '@space/core';
import { describe, expect, it } from 'vitest';
import { makeWorld, WORLD_KINDS, type World } from './world.ts';

const SIZE = { vcpus: 1, memoryMib: 1, diskMib: 1 };
const PLACE = { location: 'default' };

async function exported(world: World, sandboxId: SandboxId, points: SnapshotId[], base: string | null = null) {
  const order = {
    vault: DEFAULT_VAULT,
    sandboxId,
    ...PLACE,
    projectId: DEFAULT_PROJECT,
    template: 'base',
    points,
    base,
  };
  const events: ExportEvent[] = await Array.fromAsync(world.node.exportPoints(order));
  const last = events.at(-1);
  if (last?.kind !== 'done') return expect.unreachable('the export has no end');
  // In between it says how far it is whenever a while has passed.
  const done = events.flatMap((event) => (event.kind === 'progress' ? [event.donePoints] : []));
  expect(Math.max(...done)).toBe(points.length);
  return { ...PLACE, archive: last.archive };
}

async function imported(world: World, source: { location: string; archive: string }, disksOnly = false) {
  const sandboxId = newId('sandbox', world.chance);
  const { points: found, head } = await world.node.readArchive(source);
  const points = found.map(() => newId('snapshot', world.chance));
  const order = { vault: DEFAULT_VAULT, sandboxId, epoch: world.epoch(), generation: 1, disksOnly, ...source, points };
  await world.node.importPoints(order);
  return { sandboxId, points, head: points[head] as SnapshotId };
}

describe.each(WORLD_KINDS)('an archive, memory $memory, reached $reached', (kind) => {
  it('of a timeline gives a sandbox of its own, with the memory of any of its points', async () => {
    await using world = await makeWorld(kind, 100_000, { memoryMib: 0 }, SIZE);
    const source = await world.create();
    await world.run(source, 'set at one');
    const first = await world.snapshot(source);
    await world.run(source, 'set at two');
    const second = await world.snapshot(source);
    const whole = await exported(world, source, [first, second]);
    const copy = await imported(world, whole);
    await world.start(copy.sandboxId, copy.head);
    expect(await world.run(copy.sandboxId, 'get at')).toBe('two');
    await world.rewind(copy.sandboxId, copy.points[0] as SnapshotId);
    expect(await world.run(copy.sandboxId, 'get at')).toBe('one');
    expect(await world.run(source, 'get at')).toBe('two');
    expect(await world.node.pointOwner(DEFAULT_VAULT, copy.head)).toBe(copy.sandboxId);
  });

  it('stands when the sandbox and all its points are gone, also for the next process', async () => {
    await using world = await makeWorld(kind, 100_000, { memoryMib: 0 }, SIZE);
    const source = await world.create();
    await world.run(source, 'set at one');
    const point = await world.snapshot(source);
    const archive = await exported(world, source, [point]);
    await world.destroy(source, [point]);
    await world.restart();
    const copy = await imported(world, archive);
    await world.start(copy.sandboxId, copy.head);
    expect(await world.run(copy.sandboxId, 'get at')).toBe('one');
  });

  it('names what a memory needs that is not here; its disk can be booted', async () => {
    await using world = await makeWorld(kind, 100_000, { memoryMib: 0 }, SIZE);
    const source = await world.create();
    const archive = await exported(world, source, [await world.snapshot(source)]);
    expect(await world.node.readArchive(archive)).toMatchObject({ unfit: null, template: 'base', head: 0 });
    await world.restart('fake-2');
    expect(await world.node.readArchive(archive)).toMatchObject({ unfit: 'vmmBuild' });
    const copy = await imported(world, archive);
    await expect(world.start(copy.sandboxId, copy.head)).rejects.toMatchObject({ code: 'snapshot_unfit' });
    const disk = await imported(world, archive, true);
    await world.start(disk.sandboxId, disk.head);
    expect(await world.node.inspect(DEFAULT_VAULT, disk.sandboxId)).toMatchObject({ real: 'running', head: disk.head });
    expect(await world.run(disk.sandboxId, 'get at')).toBe('');
    await world.snapshot(disk.sandboxId);
  });

  it('is not imported any more once its sandbox was deleted', async () => {
    await using world = await makeWorld(kind, 100_000, { memoryMib: 0 }, SIZE);
    const source = await world.create();
    const archive = await exported(world, source, [await world.snapshot(source)]);
    const held = world.faults.holdNext('vault.write');
    const sandboxId = newId('sandbox', world.chance);
    const points = [newId('snapshot', world.chance)];
    const order = {
      vault: DEFAULT_VAULT,
      sandboxId,
      epoch: world.epoch(),
      generation: 1,
      disksOnly: false,
      ...archive,
      points,
    };
    const refused = expect(world.node.importPoints(order)).rejects.toMatchObject({ code: 'superseded' });
    await held.reached;
    const deleted = world.destroy(sandboxId, points);
    await new Promise((resolve) => setTimeout(resolve, 50));
    held.letGo();
    await refused;
    await deleted;
    expect(await world.node.points(DEFAULT_VAULT)).not.toContain(points[0]);
    expect((await world.leftovers()).staging).toEqual([]);
  });

  it('is listed, removed and collected, and what is under way holds the collection up', async () => {
    await using world = await makeWorld(kind, 100_000, { memoryMib: 0 }, SIZE);
    const source = await world.create();
    const first = await exported(world, source, [await world.snapshot(source)]);
    await world.run(source, 'set at two');
    const second = await exported(world, source, [await world.snapshot(source)]);
    const space = { ...PLACE, projectId: DEFAULT_PROJECT };
    const names = async () => (await world.node.listArchives(space, source)).map(({ archive }) => archive).sort();
    expect(await names()).toEqual([first.archive, second.archive].sort());
    expect(await world.node.listArchives(space, newId('sandbox', world.chance))).toEqual([]);
    await world.node.removeArchive(first);
    expect(await names()).toEqual([second.archive]);
    const held = world.faults.holdNext('vault.write');
    const importing = imported(world, second);
    await held.reached;
    expect(await world.node.collectArchives({ ...space, insists: false })).toBe(null);
    held.letGo();
    const copy = await importing;
    expect(await world.node.collectArchives({ ...space, insists: true })).toMatchObject({ resisted: 0 });
    await world.start(copy.sandboxId, copy.head);
    expect(await world.run(copy.sandboxId, 'get at')).toBe('two');
    const again = await imported(world, second);
    await world.start(again.sandboxId, again.head);
  });

  it('is refused where it cannot be', async () => {
    await using world = await makeWorld(kind, 100_000, { memoryMib: 0 }, SIZE);
    const source = await world.create();
    const point = await world.snapshot(source);
    const archive = await exported(world, source, [point]);
    const codeOf = (call: Promise<unknown>) =>
      call.then(
        () => 'done',
        (thrown: { code: string }) => thrown.code,
      );
    expect(await codeOf(world.node.readArchive({ ...archive, location: 'elsewhere' }))).toBe('not_found');
    for (const name of ['', '../../etc/passwd', `${archive.archive}0`]) {
      expect(await codeOf(world.node.readArchive({ ...archive, archive: name }))).toBe('bad_request');
    }
    expect(
      await codeOf(
        imported(world, { ...archive, archive: archive.archive.replace(/.$/, (last) => (last === '0' ? '1' : '0')) }),
      ),
    ).toBe('not_found');
    expect(await codeOf(exported(world, newId('sandbox', world.chance), [point]))).toBe('bad_request');
    expect((await world.node.capabilities()).archives).toEqual(['default']);
  });
});
