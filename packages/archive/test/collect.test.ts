/** What no archive names goes, and nothing else, whoever exports, imports or dies meanwhile. */
import { createHash, randomBytes } from 'node:crypto';
import { beginUse, collectSpace, exportPoints, listArchives, removeArchive } from '@space/archive';
import { type ArchiveKey, archivePath, type Clock } from '@space/core';
import { seededChance } from '@space/testkit';
import { describe, expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

const DAY_MS = 24 * 60 * 60_000;
const chance = seededChance(5);

class TestClock implements Clock {
  nowMs = Date.UTC(2026, 0, 1);
  now = () => this.nowMs;
  monotonicMs = () => performance.now();
}

const planOf = ({ archive, space }: World, clock: Clock = new TestClock()) => {
  return { archive, space, clock, chance, lookMs: 5, beatMs: 0, maxWaitMs: 5_000 };
};
const chunksOf = ({ archive }: World) => [...archive.objects.keys()].filter((path) => path.includes('/chunks/'));
const marksOf = ({ archive }: World) => [...archive.objects.keys()].filter((path) => path.includes('/marks/'));

/** Two archives of one sandbox that share most of what they hold. */
async function twoArchives(world: World) {
  const lifeId = await world.boot();
  const first = await world.point(lifeId);
  const one = await world.export([first]);
  await world.write(lifeId, 'memory', 0, randomBytes(4096));
  const second = await world.point(lifeId, { parent: first });
  return { one: one.ref, two: (await world.export([second], one.ref)).ref, second };
}

describe('a collection', () => {
  it('removes what no archive names any more, and what others name is imported as it was', async () => {
    await using world = await makeWorld();
    const { one, two, second } = await twoArchives(world);
    const before = chunksOf(world).length;
    expect(await collectSpace(planOf(world))).toEqual({ removed: 0, kept: before, resisted: 0 });
    await removeArchive(world.archive, one);
    await removeArchive(world.archive, one);
    const collected = await collectSpace(planOf(world));
    expect(collected?.removed).toBeGreaterThan(0);
    expect(chunksOf(world)).toHaveLength(before - (collected?.removed ?? 0));
    const { names } = await world.import(two);
    const copy = names.get(second);
    if (copy === undefined) return expect.unreachable('the point was imported');
    expect((await world.content(world.to, copy)).digests).toEqual((await world.content(world.from, second)).digests);
    await expect(world.import(one)).rejects.toMatchObject({ code: 'not_found' });
    await removeArchive(world.archive, two);
    await collectSpace(planOf(world));
    expect([...world.archive.objects.keys()]).toEqual([]);
  });

  it('leaves alone what an export has sent and not named yet', async () => {
    await using world = await makeWorld();
    const point = await world.point(await world.boot());
    await using use = await beginUse(planOf(world));
    const facts = { sandboxId: world.sandboxId, template: 'base', madeAt: '2026-11-29T18:00:00.000Z', seal: null };
    const limits = {
      vcpus: { min: 1, max: 2 },
      memoryMib: { min: 1, max: 4, step: 1 },
      diskMib: { min: 1, max: 4, step: 1 },
    };
    const plan = { vault: world.from, archive: use.archive, space: world.space, points: [point], base: null, limits };
    for await (const event of exportPoints({ ...plan, ...facts })) {
      const sent = chunksOf(world).length;
      expect(await collectSpace(planOf(world))).toBe(null);
      expect(chunksOf(world)).toHaveLength(sent);
      if (event.kind === 'done') expect(sent).toBeGreaterThan(0);
    }
  });

  it('gives way to who wants to use the archive, who has waited for it, and goes on later', async () => {
    await using world = await makeWorld();
    const { one, two } = await twoArchives(world);
    for (const ref of [one, two]) await removeArchive(world.archive, ref);
    const held = world.faults.holdNext('archive.remove');
    const collecting = collectSpace(planOf(world));
    await held.reached;
    let began = false;
    const using = beginUse(planOf(world)).then((use) => {
      began = true;
      return use;
    });
    while (marksOf(world).length < 2) await new Promise((resolve) => setImmediate(resolve));
    expect(began).toBe(false);
    held.letGo();
    expect(await collecting).toBe(null);
    await (await using)[Symbol.asyncDispose]();
    expect(chunksOf(world).length).toBeGreaterThan(0);
    await collectSpace(planOf(world));
    expect([...world.archive.objects.keys()]).toEqual([]);
  });

  it('reads what archives name before it takes the space, and once it has it, only what came meanwhile', async () => {
    await using world = await makeWorld();
    const { two, second } = await twoArchives(world);
    const held = world.faults.holdNext('archive.put');
    const collecting = collectSpace(planOf(world));
    await held.reached;
    const taken = world.faults.steps.length;
    held.letGo();
    expect(await collecting).toMatchObject({ removed: 0, resisted: 0 });
    const gets = (steps: readonly string[]) => steps.filter((step) => step === 'archive.get').length;
    expect(gets(world.faults.steps.slice(taken))).toBe(0);
    expect((await world.import(two)).names.get(second)).toBeDefined();
  });

  it('keeps the pieces of an archive whose table was missing at first and was sent again meanwhile', async () => {
    await using world = await makeWorld();
    const { two, second } = await twoArchives(world);
    const { objects } = world.archive;
    const whole = new Map(objects);
    // Everything small, tables among it, is away while the indexes are read.
    const small = chunksOf(world).filter((path) => (objects.get(path)?.byteLength ?? 0) < 4096);
    expect(small.length).toBeGreaterThan(0);
    for (const path of small) objects.delete(path);
    const held = world.faults.holdNext('archive.put');
    const collecting = collectSpace(planOf(world));
    await held.reached;
    for (const [path, bytes] of whole) if (small.includes(path)) objects.set(path, bytes);
    held.letGo();
    expect(await collecting).toEqual({ removed: 0, kept: chunksOf(world).length, resisted: 0 });
    expect((await world.import(two)).names.get(second)).toBeDefined();
  });

  it('beside uses that never end gives way to all of them, until it insists: then those who come wait for it, and go on', async () => {
    await using world = await makeWorld();
    const { one, two } = await twoArchives(world);
    for (const ref of [one, two]) await removeArchive(world.archive, ref);
    const stop = new AbortController();
    const isTurn = () => marksOf(world).some((path) => path.includes('/marks/turn-'));
    let begun = 0;
    /** Each ends when the other has begun; or when nobody may begin. */
    const useOnAndOn = async () => {
      while (!stop.signal.aborted) {
        await using _use = await beginUse(planOf(world));
        const own = ++begun;
        while (own === begun && !isTurn() && !stop.signal.aborted)
          await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const users = [useOnAndOn(), useOnAndOn()];
    while (begun < 4) await new Promise((resolve) => setImmediate(resolve));
    for (let times = 0; times < 5; times++) expect(await collectSpace(planOf(world))).toBe(null);
    expect(chunksOf(world).length).toBeGreaterThan(0);
    expect(await collectSpace({ ...planOf(world), insists: true })).toMatchObject({ kept: 0, resisted: 0 });
    expect(chunksOf(world)).toEqual([]);
    const before = begun;
    while (begun < before + 4) await new Promise((resolve) => setImmediate(resolve));
    stop.abort();
    await Promise.all(users);
    expect(marksOf(world)).toEqual([]);
  });

  it('that insists gives up when those who came before do not end, and holds nobody up for longer', async () => {
    await using world = await makeWorld();
    await using _long = await beginUse(planOf(world));
    const insisting = collectSpace({ ...planOf(world), insists: true, maxWaitMs: 50 });
    while (marksOf(world).length < 2) await new Promise((resolve) => setImmediate(resolve));
    const late = beginUse(planOf(world));
    expect(await insisting).toBe(null);
    await (await late)[Symbol.asyncDispose]();
    expect(marksOf(world)).toHaveLength(1);
  });

  it('that was broken off anywhere is done by the next', async () => {
    await using world = await makeWorld();
    const { one, two, second } = await twoArchives(world);
    await removeArchive(world.archive, one);
    const total = world.faults.steps.length;
    await collectSpace(planOf(world, new TestClock()));
    expect(world.faults.steps.length).toBeGreaterThan(total);
    // Each kind of step fails once; what was removed by then is gone, and nothing that is named.
    for (const step of ['archive.list', 'archive.get', 'archive.put', 'archive.has']) {
      const another = await world.export([second], two);
      await removeArchive(world.archive, another.ref);
      world.faults.failNext(step);
      await collectSpace(planOf(world)).catch(() => undefined);
      world.faults.clear(step);
      const clock = new TestClock();
      clock.nowMs += DAY_MS;
      expect(await collectSpace(planOf(world, clock))).not.toBe(null);
    }
    await world.export([second], two);
    await world.import(two);
  });

  it('is not kept from the rest by what cannot be removed', async () => {
    await using world = await makeWorld();
    const { one, two } = await twoArchives(world);
    for (const ref of [one, two]) await removeArchive(world.archive, ref);
    world.faults.failNext('archive.remove');
    expect(await collectSpace(planOf(world))).toMatchObject({ resisted: 1, kept: 0 });
    expect(chunksOf(world)).toHaveLength(1);
    await collectSpace(planOf(world));
    expect(chunksOf(world)).toEqual([]);
  });

  it('keeps everything where an archive may be of a later version', async () => {
    await using world = await makeWorld();
    const { one } = await twoArchives(world);
    await removeArchive(world.archive, one);
    const before = chunksOf(world).length;
    const later = Buffer.from(JSON.stringify({ kind: 'space archive', format: 99 }));
    const digest = createHash('sha256').update(later).digest('hex');
    const key = { kind: 'index', space: world.space, sandboxId: world.sandboxId, digest } as ArchiveKey;
    await world.archive.put(key, later);
    await expect(collectSpace(planOf(world))).rejects.toMatchObject({ code: 'archive_unsupported' });
    expect(chunksOf(world)).toHaveLength(before);
    const listed = await listArchives(world.archive, world.space, { sandboxId: null, limit: 10 });
    expect(listed.find(({ archive }) => archive.endsWith(digest))).toMatchObject({ fault: 'archive_unsupported' });
    expect(archivePath(key)).toContain(digest);
  });
});

describe('a use of an archive', () => {
  it('that a process which died has left holds for a time, and is removed then', async () => {
    await using world = await makeWorld();
    const clock = new TestClock();
    const left = await beginUse(planOf(world, clock));
    clock.nowMs += DAY_MS / 2;
    expect(await collectSpace(planOf(world, clock))).toBe(null);
    clock.nowMs += DAY_MS / 2;
    expect(await collectSpace(planOf(world, clock))).not.toBe(null);
    expect(marksOf(world)).toEqual([]);
    // Its process had only slept: it makes no archive of what may be gone.
    const index = {
      kind: 'index',
      space: world.space,
      sandboxId: world.sandboxId,
      digest: '0'.repeat(64),
    } as ArchiveKey;
    await expect(left.archive.put(index, Buffer.of(1))).rejects.toMatchObject({ code: 'archive_unavailable' });
  });

  it('is not held up for ever by a collection that died', async () => {
    await using world = await makeWorld();
    const clock = new TestClock();
    const held = world.faults.holdNext('archive.list');
    const collecting = collectSpace(planOf(world, clock)).catch(() => undefined);
    await held.reached;
    await world.archive.put(
      { kind: 'mark', space: world.space, name: 'collect-0' },
      Buffer.from(JSON.stringify({ at: clock.now() })),
    );
    const early = beginUse({ ...planOf(world, clock), maxWaitMs: 20 });
    await expect(early).rejects.toMatchObject({ code: 'archive_unavailable' });
    clock.nowMs += 10 * 60_000;
    await (await beginUse(planOf(world, clock)))[Symbol.asyncDispose]();
    held.letGo();
    await collecting;
    expect(marksOf(world)).toEqual([]);
  });
});

describe('a list of archives', () => {
  it('has those of the project, newest first, or of one sandbox, with what is wrong with each', async () => {
    await using world = await makeWorld();
    const { one, two } = await twoArchives(world);
    const all = await listArchives(world.archive, world.space, { sandboxId: null, limit: 10 });
    expect(all).toHaveLength(2);
    expect(all.every(({ fault, points, isMove }) => fault === null && points === 1 && !isMove)).toBe(true);
    const path = [...world.archive.objects.keys()].find((name) => name.endsWith(one.digest)) ?? '';
    world.archive.objects.set(path, Buffer.from('rot'));
    const after = await listArchives(world.archive, world.space, { sandboxId: two.sandboxId, limit: 10 });
    expect(after.map(({ fault }) => fault).sort()).toEqual(['archive_damaged', null]);
    await expect(listArchives(world.archive, world.space, { sandboxId: null, limit: 1 })).rejects.toMatchObject({
      code: 'bad_request',
    });
  });
});
