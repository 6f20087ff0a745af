/** A sandbox leaves for an archive and comes back as another one, on this installation or the next. */
import type { Input } from '@space/contract';
import { type AppError, DEFAULT_PROJECT, newId, type SandboxId } from '@space/core';
import { describe, expect, it } from 'vitest';
import { ArchiveCollector } from '../src/archive-collector.ts';
import { NO_LEFTOVERS, World } from './test-world.ts';

const ignore = () => undefined;

type ExportOptions = Partial<Omit<Input<'exportSandbox'>, 'id'>>;
type ImportOptions = Partial<Omit<Input<'importSandbox'>, 'archive'>>;

const exported = (world: World, id: string, options: ExportOptions = {}) =>
  world.control.exportSandbox(world.caller(), { id, location: 'default', timeline: false, ...options });
const imported = (world: World, archive: string, options: ImportOptions = {}) =>
  world.control.importSandbox(world.caller(), { archive, location: 'default', as: 'copy', boot: false, ...options });

async function refusalOf(call: Promise<unknown>): Promise<AppError> {
  return await call.then(
    () => expect.unreachable('it was done'),
    (thrown: AppError) => thrown,
  );
}

/** Counted to 1 at a snapshot, to 3 now. */
async function counted(world: World) {
  const { id } = await world.create({ env: { TOKEN: 'secret' }, metadata: { team: 'blue' } });
  await world.count(id);
  const point = await world.snapshot(id);
  await world.count(id, 2);
  return { id, point };
}

describe('an export', () => {
  it('of the present takes a snapshot, and the sandbox goes on', async () => {
    const world = new World();
    const { id } = await counted(world);
    const { archive, snapshots } = await exported(world, id);
    await world.count(id);
    expect(await world.exec(id, 'read')).toBe('4');
    const [newest] = await world.timeline(id);
    expect(newest).toMatchObject({ id: snapshots[0], cause: 'archive', pinned: false });
    expect(await world.exec((await imported(world, archive)).id, 'read')).toBe('3');
  });

  it('of a paused sandbox wakes nobody', async () => {
    const world = new World();
    const { id } = await counted(world);
    await world.pause(id);
    const { archive } = await exported(world, id);
    expect(await world.get(id)).toMatchObject({ status: 'paused' });
    expect(await world.exec((await imported(world, archive)).id, 'read')).toBe('3');
  });

  it('of a snapshot or a timeline holds what it says, in order', async () => {
    const world = new World();
    const { id, point } = await counted(world);
    const one = await exported(world, id, { snapshot: point.id });
    expect(one.snapshots).toEqual([point.id]);
    expect(await world.exec((await imported(world, one.archive)).id, 'read')).toBe('1');
    const all = await exported(world, id, { timeline: true, base: one.archive });
    expect(all.snapshots).toHaveLength(2);
    const copy = await imported(world, all.archive);
    const [last, first] = await world.timeline(copy.id);
    expect(last).toMatchObject({ parent: first?.id, sandboxId: copy.id, state: 'good', cause: 'archive' });
    await world.rewind(copy.id, first?.id ?? '');
    expect(await world.exec(copy.id, 'read')).toBe('1');
    expect(await world.exec(id, 'read')).toBe('3');
  });

  it('tells how far it is; given up on the way, it keeps nothing and what it has sent is to be removed', async () => {
    const world = new World();
    const { id, point } = await counted(world);
    await world.snapshot(id);
    const input = { id, location: 'default', timeline: true };
    const events = await Array.fromAsync(world.control.followExport(world.caller(), input));
    expect(events.map((event) => (event.type === 'progress' ? event.progress : event.type))).toEqual([
      1 / 3,
      2 / 3,
      1,
      'exported',
    ]);
    expect(events[0]).toMatchObject({ points: 3, donePoints: 1 });
    expect(await world.records.archives.asked(9)).toEqual([]);
    for await (const event of world.control.followExport(world.caller(), input)) if (event.type === 'progress') break;
    expect(await world.records.archives.asked(9)).toHaveLength(1);
    await world.control.deleteSnapshot(world.caller(), { id: point.id });
  });

  it('keeps what it reads from being deleted, and nothing else up', async () => {
    const world = new World();
    const { id, point } = await counted(world);
    const held = world.node.faults.holdNext('exportPoints');
    const exporting = exported(world, id, { snapshot: point.id });
    await held.reached;
    const removal = world.control.deleteSnapshot(world.caller(), { id: point.id });
    expect((await refusalOf(removal)).code).toBe('snapshot_in_use');
    await world.pause(id);
    held.letGo();
    await exporting;
    await world.control.deleteSnapshot(world.caller(), { id: point.id });
  });

  it('is refused of snapshots and to bases of others, and to places that are not there', async () => {
    const world = new World();
    const { id } = await counted(world);
    const other = await counted(world);
    const codeOf = async (options: ExportOptions) => (await refusalOf(exported(world, id, options))).code;
    expect(await codeOf({ snapshot: other.point.id })).toBe('not_found');
    expect(await codeOf({ base: (await exported(world, other.id)).archive })).toBe('bad_request');
    expect(await codeOf({ location: 'elsewhere' })).toBe('not_found');
  });
});

describe('an import', () => {
  it('is a copy: its id, no environment, no labels; the archive outlives its sandbox and serves another installation', async () => {
    const world = new World();
    const { id } = await counted(world);
    const { archive } = await exported(world, id);
    await world.remove(id);
    const next = new World();
    next.node.archives = world.node.archives;
    const [one, two] = [await imported(next, archive, { name: 'one' }), await imported(next, archive)];
    expect(new Set([id, one.id, two.id]).size).toBe(3);
    expect(one).toMatchObject({ status: 'running', name: 'one', metadata: {} });
    expect(await next.get(one.id)).toMatchObject({ env: {} });
    await next.count(one.id);
    expect(await next.exec(two.id, 'read')).toBe('3');
    await next.remove(one.id);
    expect(await next.exec(two.id, 'read')).toBe('3');
    await next.pause(two.id);
    await next.resume(two.id);
    expect(await next.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('whose memory does not fit is told so before anything is brought, and can be booted', async () => {
    const world = new World();
    const { id } = await counted(world);
    const { archive } = await exported(world, id);
    world.node.archives.unfit = 'vmmBuild';
    const before = world.node.faults.steps.filter((step) => step === 'importPoints').length;
    const refused = await refusalOf(imported(world, archive));
    expect(refused).toMatchObject({ code: 'snapshot_unfit', message: expect.stringContaining('boot') });
    expect(world.node.faults.steps.filter((step) => step === 'importPoints')).toHaveLength(before);
    const copy = await imported(world, archive, { boot: true });
    expect(await world.exec(copy.id, 'read')).toBe('0');
  });

  it.each(['readArchive', 'importPoints', 'importPoints done', 'start', 'start vm', 'start done'])(
    'that fails at %s leaves nothing, and works the next time',
    async (step) => {
      const world = new World();
      const { id } = await counted(world);
      const { archive } = await exported(world, id, { timeline: true });
      const points = world.node.pointIds().length;
      world.node.faults.failNext(step);
      await refusalOf(imported(world, archive));
      expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
      expect(world.node.pointIds()).toHaveLength(points);
      expect(await world.exec((await imported(world, archive)).id, 'read')).toBe('3');
    },
  );

  it('of a damaged archive leaves nothing', async () => {
    const world = new World();
    const { id } = await counted(world);
    const { archive } = await exported(world, id);
    world.node.archives.damaged.add(archive);
    expect((await refusalOf(imported(world, archive))).code).toBe('archive_damaged');
    expect((await world.control.listSandboxes(world.caller(), { limit: 10 })).sandboxes).toHaveLength(1);
  });

  it('that is sent again with its key makes one sandbox', async () => {
    const world = new World();
    const { id } = await counted(world);
    const { archive } = await exported(world, id);
    const caller = { ...world.caller(), idempotencyKey: 'once' };
    const once = () => world.control.importSandbox(caller, { archive, location: 'default', as: 'copy', boot: false });
    expect((await once()).id).toBe((await once()).id);
    expect((await world.control.listSandboxes(world.caller(), { limit: 10 })).sandboxes).toHaveLength(2);
  });

  it('of an archive of another project is for an admin of who runs the installation only', async () => {
    const world = new World();
    const { id } = await counted(world);
    const { archive } = await exported(world, id);
    const elsewhere = archive.replace(/^prj_[^/]+/, newId('project', world.chance));
    const operator = world.caller();
    const strangers = [
      { ...operator.principal, operator: false },
      { ...operator.principal, roles: ['developer'] as const },
      { ...operator.principal, onlyProject: operator.projectId },
    ];
    for (const principal of strangers) {
      const call = world.control.importSandbox(
        { ...operator, principal },
        { archive: elsewhere, location: 'default', as: 'copy', boot: false },
      );
      expect((await refusalOf(call)).code).toBe('not_found');
    }
    const steps = world.node.faults.steps.filter((step) => step === 'readArchive').length;
    // It is looked for, and is not there.
    expect((await refusalOf(imported(world, elsewhere))).code).toBe('not_found');
    expect(world.node.faults.steps.filter((step) => step === 'readArchive')).toHaveLength(steps + 1);
  });

  it('is ended by a delete, and nothing of it stays', async () => {
    const world = new World();
    const { id } = await counted(world);
    const { archive } = await exported(world, id);
    const points = world.node.pointIds().length;
    const held = world.node.faults.holdNext('importPoints');
    const importing = refusalOf(imported(world, archive));
    await held.reached;
    const { sandboxes } = await world.control.listSandboxes(world.caller(), { limit: 10 });
    const coming = sandboxes.find((sandbox) => sandbox.id !== id)?.id as SandboxId;
    const deleted = world.remove(coming);
    await new Promise((resolve) => setTimeout(resolve, 20));
    held.letGo();
    expect((await importing).code).toBe('superseded');
    await deleted;
    expect(world.node.pointIds()).toHaveLength(points);
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });
});

describe('the archives of a project', () => {
  const listed = async (world: World, sandbox?: string) => {
    const asked = sandbox === undefined ? {} : { sandbox: sandbox as SandboxId };
    return (await world.control.listArchives(world.caller(), { location: 'default', ...asked })).archives;
  };
  const deleted = (world: World, archive: string) =>
    world.control.deleteArchive(world.caller(), { location: 'default', archive });

  it('are listed and deleted, also of a sandbox that is gone; what they leave is to be collected from then on', async () => {
    const world = new World();
    const { id } = await counted(world);
    const { archive } = await exported(world, id);
    await world.control.deleteSandbox(world.caller(), { id });
    expect(await listed(world, id)).toMatchObject([{ archive, sandboxId: id, fault: null }]);
    world.node.faults.failNext('removeArchive');
    await expect(deleted(world, archive)).rejects.toThrow();
    expect(await world.records.archives.asked(9)).toHaveLength(1);
    for (let times = 0; times < 2; times++) await deleted(world, archive);
    expect(await listed(world)).toEqual([]);
    expect((await refusalOf(imported(world, archive))).code).toBe('not_found');
  });

  it('of another project are not found', async () => {
    const world = new World();
    const { id } = await counted(world);
    const { archive } = await exported(world, id);
    const elsewhere = archive.replace(/^prj_.{16}/, newId('project', world.chance));
    expect((await refusalOf(deleted(world, elsewhere))).code).toBe('not_found');
    expect(await world.records.archives.asked(9)).toEqual([]);
  });

  it('keep what was moved into one, until the move is undone or the sandbox deleted', async () => {
    const world = new World();
    const { id } = await counted(world);
    const { archive } = await world.control.moveSandbox(world.caller(), { id, location: 'default', timeline: false });
    expect((await refusalOf(deleted(world, archive))).code).toBe('wrong_state');
    const isListed = async () => (await listed(world)).some((one) => one.archive === archive && one.isMove);
    expect(await isListed()).toBe(true);
    await world.control.undoMove(world.caller(), { id });
    await deleted(world, archive);
    expect(await isListed()).toBe(false);
  });
});

const moved = (world: World, id: SandboxId) =>
  world.control.moveSandbox(world.caller(), { id, location: 'default', timeline: false });

describe('the collection of archives', () => {
  it('is asked for before an export begins, and no more when it ends well, so that nothing can be left unknown', async () => {
    const world = new World();
    const { archives } = world.records;
    const { id } = await counted(world);
    const held = world.node.faults.holdNext('exportPoints');
    const exporting = exported(world, id);
    await held.reached;
    expect(await archives.asked(9)).toMatchObject([{ projectId: DEFAULT_PROJECT, location: 'default' }]);
    const besides = exported(world, id);
    held.letGo();
    await Promise.all([exporting, besides]);
    expect(await archives.asked(9)).toEqual([]);
    for (const broken of [exported, moved]) {
      world.node.faults.failNext(broken === moved ? 'handOver' : 'exportPoints', new Error('the storage is away'));
      await expect(broken(world, id)).rejects.toThrow();
      expect(await archives.asked(9)).toHaveLength(1);
      // One that goes well takes back nothing that it has not asked for.
      await exported(world, id);
      expect(await archives.asked(9)).toHaveLength(1);
      for (const one of await archives.asked(9)) await archives.collected(one);
    }
  });

  it('of what is always in use insists after a quarter of an hour, and again after the next, however many exports follow', async () => {
    const world = new World();
    const { node, records, chance } = world;
    let nowMs = Date.now();
    const clock = { now: () => nowMs, monotonicMs: () => nowMs };
    const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
    const collector = new ArchiveCollector({ node, records, chance, clock, logger });
    node.archives.inUse = true;
    const minutes: number[] = [];
    // Each begins before the last has ended, which leaves something.
    let ended = await collector.expect(DEFAULT_PROJECT, 'default');
    for (let minute = 0; minute < 50; minute++) {
      const next = await collector.expect(DEFAULT_PROJECT, 'default');
      await ended(false);
      ended = next;
      const before = node.archives.collections;
      await collector.round();
      await collector.settled();
      if (node.archives.collections > before) minutes.push(minute);
      nowMs += 60_000;
    }
    expect(minutes).toEqual([15, 31, 47]);
    node.archives.inUse = false;
    await ended(true);
    await collector.round();
    await collector.settled();
    expect(await records.archives.asked(9)).toEqual([]);
  });

  it('is done once for what was asked, again when it was in use or failed, and by the next process', async () => {
    const world = new World();
    let nowMs = Date.now();
    const clock = { now: () => nowMs, monotonicMs: () => nowMs };
    const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
    const { node, records, chance } = world;
    const make = () => new ArchiveCollector({ node, records, chance, clock, logger });
    let collector = make();
    const round = async () => {
      nowMs += 10 * 60_000;
      await collector.round();
      await collector.settled();
      return (await records.archives.asked(9)).length;
    };
    const calls = () => node.faults.steps.filter((step) => step === 'collectArchives').length;
    expect(await round()).toBe(0);
    expect(calls()).toBe(0);
    const ended = await collector.expect(DEFAULT_PROJECT, 'default');
    // What is under way here may leave more: before its end, that is not known.
    expect(await round()).toBe(1);
    expect(calls()).toBe(0);
    await ended(false);
    node.archives.inUse = true;
    expect(await round()).toBe(1);
    node.archives.inUse = false;
    node.faults.failNext('collectArchives');
    expect(await round()).toBe(1);
    collector = make();
    expect(await round()).toBe(0);
    expect(calls()).toBe(3);
    expect(await round()).toBe(0);
    expect(calls()).toBe(3);
  });
});
