/** A sandbox moves between installations that share an archive, and lives once, whatever fails on its way. */
import type { Input } from '@space/contract';
import { type AppError, DEFAULT_VAULT } from '@space/core';
import { describe, expect, it } from 'vitest';
import { NO_LEFTOVERS, World } from './test-world.ts';

const PLACE = { location: 'default' } as const;

const move = (world: World, id: string, options: Partial<Input<'moveSandbox'>> = {}) =>
  world.control.moveSandbox(world.caller(), { timeline: true, ...PLACE, ...options, id });
const undo = (world: World, id: string) => world.control.undoMove(world.caller(), { id });
const take = (world: World, archive: string, options: Partial<Input<'importSandbox'>> = {}) =>
  world.control.importSandbox(world.caller(), { archive, as: 'move', boot: false, ...PLACE, ...options });

async function codeOf(call: Promise<unknown>): Promise<string> {
  return await call.then(
    () => 'done',
    (thrown: AppError) => thrown.code ?? thrown.message,
  );
}

/** Two installations that share an archive; the first has a sandbox that has counted to 1 at a snapshot, and to 3. */
async function two() {
  const [here, there] = [new World(), new World()];
  there.node.archives = here.node.archives;
  const { id } = await here.create({ name: 'one', env: { TOKEN: 'secret' }, metadata: { team: 'blue' } });
  await here.count(id);
  const point = await here.snapshot(id);
  await here.count(id, 2);
  return { here, there, id, point };
}

/** Where the sandbox is to be had: running, or startable. */
async function livesIn(worlds: readonly World[], id: string): Promise<number> {
  const states = await Promise.all(worlds.map((world) => world.records.findSandbox(id as never)));
  return states.filter((state) => state !== null && !['moved', 'deleted'].includes(state.settled)).length;
}

describe('a sandbox that is moved', () => {
  it('never runs again where it was, and lives on elsewhere as it was: id, name, environment, generation, timeline', async () => {
    const { here, there, id, point } = await two();
    const before = await here.get(id);
    const { archive, snapshots } = await move(here, id);
    expect(snapshots).toContain(point.id);
    expect(await here.get(id)).toMatchObject({ status: 'moved', moved: { ...PLACE, archive } });
    for (const use of [() => here.exec(id, 'read'), () => here.resume(id), () => here.fork(id), () => here.pause(id)]) {
      expect(await codeOf(use())).toBe('wrong_state');
    }
    const arrived = await take(there, archive);
    expect(arrived).toMatchObject({ id, name: 'one', status: 'running', generation: before.generation, moved: null });
    expect(await there.get(id)).toMatchObject({ env: { TOKEN: 'secret' }, metadata: { team: 'blue' } });
    expect(await there.exec(id, 'read')).toBe('3');
    expect((await there.timeline(id)).map((one) => one.id)).toEqual(snapshots.toReversed());
    await there.rewind(id, point.id);
    expect(await there.exec(id, 'read')).toBe('1');
    // What was brought there while it still ran is nobody's archive.
    expect((await here.control.listArchives(here.caller(), PLACE)).archives.map((one) => one.archive)).toEqual([
      archive,
    ]);
    for (const world of [here, there]) expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('is taken up by one installation, as often as that one asks, and by no other; not even by who left it', async () => {
    const { here, there, id } = await two();
    const third = new World();
    third.node.archives = here.node.archives;
    const { archive } = await move(here, id);
    const ends = await Promise.all([there, third].map((world) => codeOf(take(world, archive))));
    expect(ends.toSorted()).toEqual(['done', 'move_taken']);
    const [winner, loser] = ends[0] === 'done' ? [there, third] : [third, there];
    await winner.count(id);
    expect(await codeOf(take(loser, archive))).toBe('move_taken');
    expect(await codeOf(undo(here, id))).toBe('move_taken');
    expect((await take(winner, archive)).id).toBe(id);
    expect(await winner.exec(id, 'read')).toBe('4');
    expect(await livesIn([here, there, third], id)).toBe(1);
    expect(loser.node.pointIds()).toEqual([]);
    expect(await loser.leftovers()).toEqual(NO_LEFTOVERS);
    // A copy may be had by anybody.
    expect(await loser.exec((await take(loser, archive, { as: 'copy' })).id, 'read')).toBe('3');
  });

  it('is told to all who ask at once: who move it of one archive, who take it up of one sandbox', async () => {
    const { here, there, id } = await two();
    const held = here.node.faults.holdNext('exportPoints');
    const late = move(here, id);
    await held.reached;
    const { archive } = await move(here, id);
    held.letGo();
    expect((await late).archive).toBe(archive);
    const taken = await Promise.all(Array.from({ length: 3 }, () => take(there, archive)));
    expect(taken.map((one) => one.id)).toEqual([id, id, id]);
    expect(await there.exec(id, 'read')).toBe('3');
    expect(await livesIn([here, there], id)).toBe(1);
  });

  it('is taken back by who left it, by an undo or by an import, and then by nobody else', async () => {
    for (const back of [undo, async (world: World, _: string, archive: string) => take(world, archive)]) {
      const { here, there, id } = await two();
      const { archive } = await move(here, id);
      await back(here, id, archive);
      expect(await here.exec(id, 'read')).toBe('3');
      expect(await codeOf(take(there, archive))).toBe('move_taken');
      expect(await codeOf(undo(here, id))).toBe('wrong_state');
      // And may leave again.
      const again = await move(here, id);
      expect(await there.exec((await take(there, again.archive)).id, 'read')).toBe('3');
      expect(await livesIn([here, there], id)).toBe(1);
    }
  });

  it('comes back by a later move, and an earlier one brings it nowhere again', async () => {
    const { here, there, id } = await two();
    const first = (await move(here, id)).archive;
    await take(there, first);
    await there.count(id);
    const second = (await move(there, id)).archive;
    expect(await codeOf(take(there, first))).toBe('move_taken');
    await take(here, second);
    expect(await here.exec(id, 'read')).toBe('4');
    expect(await codeOf(take(here, first))).toBe('wrong_state');
    const third = (await move(here, id)).archive;
    await take(there, third);
    expect(await codeOf(take(there, first))).toBe('wrong_state');
    expect(await livesIn([here, there], id)).toBe(1);
  });

  it('stays deleted where it was deleted after it came, and comes back where only what it left was', async () => {
    const { here, there, id } = await two();
    const first = (await move(here, id)).archive;
    await here.remove(id);
    expect(await codeOf(undo(here, id))).toBe('not_found');
    await take(there, first);
    const second = (await move(there, id)).archive;
    // Its points are removed here one by one: none may be taken for what arrives, and be removed then.
    expect(await codeOf(take(here, second))).toBe('operation_in_progress');
    for (const point of await here.records.history.doomed(99, new Date(Date.now() + 60_000))) {
      await here.node.deletePoint(DEFAULT_VAULT, point.id);
      await here.records.history.removed(point.id);
    }
    await take(here, second);
    expect(await here.exec(id, 'read')).toBe('3');
    await here.remove(id);
    expect(await codeOf(take(here, second))).toBe('wrong_state');
    expect(await livesIn([here, there], id)).toBe(0);
    expect(await here.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('is not taken up from a copy, by another project, or where it does not fit', async () => {
    const { here, there, id } = await two();
    const copy = (await here.control.exportSandbox(here.caller(), { id, timeline: false, ...PLACE })).archive;
    expect(await codeOf(take(there, copy))).toBe('bad_request');
    const { archive } = await move(here, id);
    there.node.archives.unfit = 'vmmBuild';
    expect(await codeOf(take(there, archive))).toBe('snapshot_unfit');
    there.node.archives.unfit = null;
    const other = await there.control.createProject(there.caller(), { name: 'other' });
    const elsewhere = there.control.importSandbox({ ...there.caller(), projectId: other.id }, inputOf(archive));
    expect((await elsewhere).id).toBe(id);
    expect(await codeOf(take(there, archive))).toBe('wrong_state');
    expect(await livesIn([here, there], id)).toBe(1);
  });
});

function inputOf(archive: string): Input<'importSandbox'> {
  return { archive, as: 'move', boot: false, ...PLACE };
}

const LEAVING = ['exportPoints', 'pause', 'pause done', 'handOver', 'handOver sealed', 'handOver done'];
const COMING = ['readArchive', 'arrive', 'arrive point', 'arrive claimed', 'arrive done', 'start', 'start done'];

describe('a move that breaks off', () => {
  it.each(LEAVING)('by a fault at %s leaves one sandbox; repeated it moves it', async (step) => {
    const { here, there, id } = await two();
    here.node.faults.failNext(step);
    await codeOf(move(here, id));
    const { archive } = await move(here, id);
    expect(await codeOf(here.resume(id))).toBe('wrong_state');
    expect(await there.exec((await take(there, archive)).id, 'read')).toBe('3');
    expect(await livesIn([here, there], id)).toBe(1);
    expect(await here.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it.each(LEAVING)('by a fault at %s can be given up: the sandbox runs on here', async (step) => {
    const { here, id } = await two();
    here.node.faults.failNext(step);
    await codeOf(move(here, id));
    if ((await here.get(id)).status === 'moved') await undo(here, id);
    expect(await here.exec(id, 'read')).toBe('3');
    expect(await here.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it.each(LEAVING)('by the death of the platform at %s ends as what is real; repeated it moves it', async (step) => {
    const { here, there, id } = await two();
    here.node.faults.holdNext(step);
    void move(here, id).catch(() => undefined);
    await reached(here, step);
    const next = new World({ node: here.node, records: here.records });
    await next.control.start();
    const { archive } = await move(next, id);
    expect(await there.exec((await take(there, archive)).id, 'read')).toBe('3');
    expect(await livesIn([next, there], id)).toBe(1);
    await next.control.close();
  });
});

describe('an arrival that breaks off', () => {
  it.each(COMING)('by a fault at %s leaves nothing or the sandbox; repeated it is there', async (step) => {
    const { here, there, id } = await two();
    const { archive } = await move(here, id);
    there.node.faults.failNext(step);
    await codeOf(take(there, archive));
    if ((await livesIn([there], id)) === 0) expect(there.node.pointIds()).toEqual([]);
    expect(await there.exec((await take(there, archive)).id, 'read')).toBe('3');
    expect(await livesIn([here, there], id)).toBe(1);
    expect(await there.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it.each(COMING.slice(1))('by the death of the platform at %s is repeated by the next', async (step) => {
    const { here, there, id } = await two();
    const { archive } = await move(here, id);
    there.node.faults.holdNext(step);
    void take(there, archive).catch(() => undefined);
    await reached(there, step);
    const next = new World({ node: there.node, records: there.records });
    await next.control.start();
    expect(await next.exec((await take(next, archive)).id, 'read')).toBe('3');
    expect(await livesIn([here, next], id)).toBe(1);
    await next.control.close();
  });

  it('before it was claimed, for want of room say, can still be undone at the source', async () => {
    const { here, there, id } = await two();
    const { archive } = await move(here, id);
    there.node.faults.failNext('arrive point', new Error('no space left'));
    await codeOf(take(there, archive));
    await undo(here, id);
    expect(await here.exec(id, 'read')).toBe('3');
    expect(await codeOf(take(there, archive))).toBe('move_taken');
    expect(there.node.pointIds()).toEqual([]);
  });

  it('is ended by a delete', async () => {
    const { here, there, id } = await two();
    const { archive } = await move(here, id);
    const held = there.node.faults.holdNext('arrive point');
    const taking = codeOf(take(there, archive));
    await held.reached;
    const removed = there.remove(id);
    await new Promise((resolve) => setTimeout(resolve, 20));
    held.letGo();
    expect(await taking).toBe('superseded');
    await removed;
    expect(there.node.pointIds()).toEqual([]);
    expect(await there.leftovers()).toEqual(NO_LEFTOVERS);
    expect(await codeOf(undo(here, id))).toBe('done');
  });
});

async function reached(world: World, step: string): Promise<void> {
  await expect.poll(() => world.node.faults.steps.includes(step)).toBe(true);
}
