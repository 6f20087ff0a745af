/** From one vault through an archive into another: whole, with less work the second time, whatever breaks off. */
import { randomBytes } from 'node:crypto';
import type { ArchiveRef, ExportEvent, SandboxId, SnapshotId } from '@space/core';
import { describe, expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

const PIECE_BYTES = 256 * 1024;

/** Three points of one sandbox: in the second a page of memory has changed, in the third one of the disk, and memory went. */
async function timeline(world: World): Promise<readonly [SnapshotId, SnapshotId, SnapshotId]> {
  const lifeId = await world.boot();
  const first = await world.point(lifeId);
  await world.write(lifeId, 'memory', 5000, randomBytes(4096));
  const second = await world.point(lifeId, { parent: first, state: 'another device state' });
  await world.write(lifeId, 'disk', 2 ** 20, randomBytes(4096));
  await world.write(lifeId, 'memory', PIECE_BYTES, Buffer.alloc(PIECE_BYTES));
  const third = await world.point(lifeId, { parent: second });
  return [first, second, third];
}

async function expectSame(world: World, names: ReadonlyMap<SnapshotId, SnapshotId>): Promise<void> {
  for (const [source, copy] of names) {
    const there = await world.content(world.to, copy);
    expect(there.digests).toEqual((await world.content(world.from, source)).digests);
  }
}

describe('a point', () => {
  it('comes out as it went in, byte for byte, as one of another sandbox', async () => {
    await using world = await makeWorld();
    const point = await world.point(await world.boot());
    const { ref } = await world.export([point]);
    const { names, sandboxId } = await world.import(ref);
    await expectSame(world, names);
    const copy = names.get(point) as SnapshotId;
    const [before, after] = [await world.from.readPoint(point), await world.to.readPoint(copy)];
    expect(after.manifest).toEqual({
      ...before.manifest,
      snapshotId: copy,
      owner: { kind: 'sandbox', sandboxId, lifeId: expect.stringMatching(/^lif_/), generation: 1 },
    });
    expect(after.manifest.owner).not.toMatchObject({ lifeId: (before.manifest.owner as { lifeId: string }).lifeId });
  });

  it('takes no room for what is zeros, and less than it has for what can be packed', async () => {
    await using world = await makeWorld();
    const lifeId = await world.boot();
    await world.write(lifeId, 'memory', 0, Buffer.alloc(2 ** 20));
    await world.write(lifeId, 'disk', 0, Buffer.alloc(2 ** 21));
    await world.write(lifeId, 'memory', 0, Buffer.from('the same again. '.repeat(2 ** 14)));
    const { sentBytes } = await world.export([await world.point(lifeId)]);
    expect(sentBytes).toBeLessThan(5_000);
  });

  it('tells how far it is while it lasts, from nothing to all, also of what is known already', async () => {
    await using world = await makeWorld();
    const points = await timeline(world);
    const shares: number[] = [];
    const onEvent = (event: ExportEvent) => void (event.kind === 'progress' && shares.push(event.progress));
    // As long as nothing can be stored, time passes.
    const held = world.faults.holdNext('archive.put');
    const exporting = world.export(points, null, { onEvent });
    await held.reached;
    await expect.poll(() => shares.length, { interval: 20 }).toBeGreaterThan(1);
    expect(shares.at(-1)).toBeLessThan(1 / 3);
    held.letGo();
    const { ref } = await exporting;
    expect(shares.at(-1)).toBe(1);
    expect(shares).toEqual(shares.toSorted((a, b) => a - b));
    shares.length = 0;
    await world.export(points, ref, { onEvent });
    expect(shares).toEqual([1 / 3, 2 / 3, 1]);
  });

  it('is refused when it is none of the sandbox', async () => {
    await using world = await makeWorld();
    const point = await world.point(await world.boot());
    const another = 'sbx_0000000000000000' as SandboxId;
    await expect(world.export([point], null, { of: another })).rejects.toMatchObject({ code: 'bad_request' });
    expect(world.archive.objects.size).toBe(0);
  });
});

describe('a point of a disk alone', () => {
  it('goes the same way, beside those with memory', async () => {
    await using world = await makeWorld();
    const lifeId = await world.boot();
    const [first] = [await world.point(lifeId)];
    await world.write(lifeId, 'disk', 0, randomBytes(4096));
    const disk = await world.point(lifeId, { parent: first, state: null });
    const last = await world.point(lifeId, { parent: disk });
    const { names } = await world.import((await world.export([first, disk, last])).ref);
    for (const [source, copy] of names) {
      if (source !== disk)
        expect((await world.content(world.to, copy)).digests).toEqual(
          (await world.content(world.from, source)).digests,
        );
    }
    const copied = await world.to.readPoint(names.get(disk) as SnapshotId);
    expect(copied).toMatchObject({ deviceState: null, manifest: { deviceState: null, frozen: false } });
    expect(await world.diskOf(world.to, copied.manifest.snapshotId)).toBe(await world.diskOf(world.from, disk));
  });
});

describe('a timeline', () => {
  it('keeps its points and how they grew from each other', async () => {
    await using world = await makeWorld();
    const points = await timeline(world);
    const { names, index } = await world.import((await world.export(points)).ref);
    await expectSame(world, names);
    const [first, second, third] = points.map((point) => names.get(point));
    const parents = await Promise.all(
      [first, second, third].map(async (copy) => (await world.to.readPoint(copy as SnapshotId)).manifest.parent),
    );
    expect(parents).toEqual([null, first, second]);
    expect(index.head).toBe(points[2]);
  });

  it('is read, sent and written but for what has changed', async () => {
    await using world = await makeWorld();
    const points = await timeline(world);
    const once = await world.export(points.slice(0, 1));
    const whole = await world.export(points, once.ref);
    // A piece of memory, one of the disk; and device states, which are always read.
    expect(whole.readBytes).toBeLessThan(3 * PIECE_BYTES);
    const again = await world.export(points, whole.ref);
    expect(again).toMatchObject({ readBytes: 0, sentBytes: 0 });
    const imported = await world.import(whole.ref);
    await expectSame(world, imported.names);
    const alone = await world.import(once.ref);
    expect(imported.writtenBytes).toBe(alone.writtenBytes + 2 * PIECE_BYTES);
  });

  it('is exported whole when what it was exported to before is gone or damaged', async () => {
    await using world = await makeWorld();
    const points = await timeline(world);
    const { ref } = await world.export(points.slice(0, 1));
    const gone: ArchiveRef = { ...ref, digest: 'f'.repeat(64) as ArchiveRef['digest'] };
    await expectSame(world, (await world.import((await world.export(points, gone)).ref)).names);
    for (const [path, bytes] of world.archive.objects) {
      if (path.includes('/indexes/')) world.archive.objects.set(path, bytes.subarray(1));
    }
    await expectSame(world, (await world.import((await world.export(points, ref)).ref)).names);
  });

  it('is exported whole when the point that it was exported by before is gone from the vault', async () => {
    await using world = await makeWorld();
    const [first, second, third] = await timeline(world);
    const { ref } = await world.export([first]);
    await world.from.deletePoint(first);
    await expectSame(world, (await world.import((await world.export([second, third], ref)).ref)).names);
  });
});

/** Every kind of step of the work, where it comes first, in the middle and last. */
async function stepsOf(world: World, work: () => Promise<unknown>): Promise<readonly (readonly [string, number])[]> {
  const before = world.faults.steps.length;
  await work();
  const counts = Map.groupBy(world.faults.steps.slice(before), (step) => step);
  return [...counts].flatMap(([step, { length }]) => {
    return [...new Set([1, Math.ceil(length / 2), length])].map((nth) => [step, nth] as const);
  });
}

function failAt(world: World, step: string, nth: number): void {
  for (let passed = 1; passed < nth; passed++) world.faults.holdNext(step).letGo();
  world.faults.failNext(step);
}

describe('what breaks off at any step', () => {
  it('of an export, is no archive; repeated it is one, and sends what was missing', async () => {
    await using world = await makeWorld();
    const points = await timeline(world);
    const steps = await stepsOf(world, () => world.export(points));
    const whole = new Set(world.archive.objects.keys());
    expect(new Set(steps.map(([step]) => step)).size).toBeGreaterThanOrEqual(5);
    for (const [step, nth] of steps) {
      world.archive.objects.clear();
      failAt(world, step, nth);
      await expect(world.export(points), `${step} #${nth}`).rejects.toThrow('injected');
      expect(await Array.fromAsync(world.archive.list(world.space, 'indexes'))).toEqual([]);
      const left = new Set(world.archive.objects.keys());
      const sent = world.faults.steps.filter((name) => name === 'archive.put').length;
      await world.export(points);
      expect(new Set(world.archive.objects.keys())).toEqual(whole);
      const putAgain = world.faults.steps.filter((name) => name === 'archive.put').length - sent;
      expect(putAgain, `${step} #${nth}`).toBe(whole.size - left.size);
    }
  });

  it('of an import, leaves whole points or none; repeated it goes on with the next', async () => {
    await using world = await makeWorld();
    const { ref } = await world.export(await timeline(world));
    const steps = await stepsOf(world, () => world.import(ref));
    expect(new Set(steps.map(([step]) => step)).size).toBeGreaterThanOrEqual(4);
    for (const [step, nth] of steps) {
      for (const point of await world.to.points()) await world.to.deletePoint(point);
      const names = new Map<SnapshotId, SnapshotId>();
      failAt(world, step, nth);
      await expect(world.import(ref, names), `${step} #${nth}`).rejects.toThrow('injected');
      expect(await world.listing()).not.toContainEqual(expect.stringMatching(/^staging\/.+/));
      const whole = (await world.to.points()).length;
      const { writtenBytes } = await world.import(ref, names);
      if (whole === 3) expect(writtenBytes).toBe(0);
      expect(await world.to.points()).toHaveLength(3);
      await expectSame(world, names);
    }
  });
});
