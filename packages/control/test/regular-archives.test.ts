/** Sandboxes are archived by themselves: what is newer than the last archive is all that a dead host takes along. */
import { AppError, type SandboxId } from '@space/core';
import { FakeGateway } from '@space/testkit';
import { describe, expect, it } from 'vitest';
import { ActivityLog } from '../src/activity.ts';
import { Admission } from '../src/admission.ts';
import { ArchiveCollector } from '../src/archive-collector.ts';
import { Nursery } from '../src/birth.ts';
import { Driver } from '../src/driver.ts';
import { Effects } from '../src/effects.ts';
import { Metrics } from '../src/metrics.ts';
import { Network } from '../src/network.ts';
import { RegularArchives } from '../src/regular-archives.ts';
import { Pins } from '../src/timeline.ts';
import { Vaults } from '../src/vaults.ts';
import { World } from './test-world.ts';

const MINUTE = 60_000;
const EVERY = { everyMs: 10 * MINUTE, location: 'default' };
const ignore = () => undefined;

class Archived extends World {
  nowMs = 1_700_000_000_000;
  archives = this.newArchives();

  /** As a new process has them. */
  newArchives(): RegularArchives {
    const clock = { now: () => this.nowMs, monotonicMs: () => this.nowMs };
    const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
    const ports = { node: this.node, records: this.records, chance: this.chance, clock, logger };
    const driver = new Driver(ports, new Metrics(), async () => undefined);
    const admission = new Admission(ports);
    const machinery = {
      ...{ ports, driver, effects: new Effects(ports, admission), nursery: new Nursery(ports, driver, admission) },
      ...{
        pins: new Pins(),
        activity: new ActivityLog(clock),
        network: new Network(ports, new FakeGateway()),
        vaults: new Vaults(ports),
      },
    };
    return new RegularArchives(machinery, new ArchiveCollector(ports));
  }

  async make(archive: typeof EVERY | 'off' | null = EVERY): Promise<SandboxId> {
    this.node.now = () => this.nowMs;
    const { id } = await this.create({ snapshots: { archive } });
    return id as SandboxId;
  }

  async round(minutes = 0): Promise<void> {
    this.nowMs += minutes * MINUTE;
    await this.archives.round(await this.records.allSandboxes());
    await this.archives.settled();
  }

  async archivingOf(id: string) {
    return (await this.get(id)).archiving;
  }

  exports(): number {
    return this.node.faults.steps.filter((step) => step === 'exportPoints').length;
  }

  async events(kind: string) {
    const found = await this.records.events.list({
      ...{ after: null, projectId: this.caller().projectId, organisationId: null, limit: 1000 },
    });
    return found.filter((one) => one.kind === kind);
  }
}

describe('a sandbox that is archived every ten minutes', () => {
  it('is so with its newest snapshot, and says which, and of when', async () => {
    const world = new Archived();
    const id = await world.make();
    await world.round();
    expect(await world.archivingOf(id)).toBe(null);
    await world.count(id, 3);
    const point = await world.snapshot(id);
    await world.count(id);
    await world.round(1);
    const archiving = await world.archivingOf(id);
    expect(archiving).toMatchObject({ failure: null, last: { snapshotId: point.id, takenAt: point.takenAt } });
    const [event] = await world.events('archive.made');
    expect(event).toMatchObject({ sandboxId: id, snapshotId: point.id, errorCode: null });
    // Its host is lost: another installation has it as it was then.
    const next = new World();
    next.node.archives = world.node.archives;
    const archive = archiving?.last?.archive ?? '';
    const input = { archive, location: 'default', as: 'copy', boot: false } as const;
    const copy = await next.control.importSandbox(next.caller(), input);
    expect(await next.exec(copy.id, 'read')).toBe('3');
  });

  it('is not before its time, nor when there is nothing new, and only then from what changed since', async () => {
    const world = new Archived();
    const id = await world.make();
    await world.snapshot(id);
    await world.round();
    const first = (await world.archivingOf(id))?.last?.archive;
    await world.snapshot(id);
    await world.round(9);
    expect(world.exports()).toBe(1);
    await world.round(1);
    expect(world.exports()).toBe(2);
    const second = (await world.archivingOf(id))?.last?.archive ?? '';
    expect(world.node.archives.orderOf(second)).toMatchObject({ base: first });
    for (let minutes = 0; minutes < 60; minutes++) await world.round(1);
    expect(world.exports()).toBe(2);
    expect((await world.archivingOf(id))?.last?.archive).toBe(second);
  });

  it('is not woken, and nothing waits for it; what is paused is archived as it was paused', async () => {
    const world = new Archived();
    const id = await world.make();
    await world.count(id, 2);
    await world.pause(id);
    const held = world.node.faults.holdNext('exportPoints');
    const round = world.round();
    await held.reached;
    await world.resume(id);
    await world.count(id);
    await world.pause(id);
    held.letGo();
    await round;
    expect(await world.get(id)).toMatchObject({ status: 'paused' });
    expect(await world.archivingOf(id)).toMatchObject({ failure: null });
  });

  it('says why it is not, tells so, and tries again with growing pauses until it is', async () => {
    const world = new Archived();
    const id = await world.make();
    await world.snapshot(id);
    await world.round();
    const before = await world.archivingOf(id);
    await world.snapshot(id);
    world.nowMs += 10 * MINUTE;
    const tries: number[] = [];
    for (let halves = 0; halves < 40; halves++) {
      const so = world.exports();
      world.node.faults.failNext('exportPoints', new AppError('archive_unavailable', 'It is away.'));
      await world.round(0.5);
      if (world.exports() > so) tries.push(halves);
      else world.node.faults.clear('exportPoints');
    }
    expect(tries.slice(0, 5)).toEqual([0, 1, 3, 7, 15]);
    expect(await world.archivingOf(id)).toMatchObject({
      last: before?.last,
      failure: { code: 'archive_unavailable', retry: 'later' },
    });
    expect(await world.events('archive.failed')).toHaveLength(tries.length);
    world.node.faults.clear('exportPoints');
    await world.round(10);
    expect(await world.archivingOf(id)).toMatchObject({ failure: null });
    expect((await world.archivingOf(id))?.last?.archive).not.toBe(before?.last?.archive);
  });

  it('by whichever process: the next one goes on by what is recorded, and a clock that was set back delays nothing', async () => {
    const world = new Archived();
    const id = await world.make();
    await world.snapshot(id);
    await world.round();
    await world.snapshot(id);
    world.archives = world.newArchives();
    await world.round(9);
    expect(world.exports()).toBe(1);
    await world.round(1);
    expect(world.exports()).toBe(2);
    await world.snapshot(id);
    await world.round(-600);
    expect(world.exports()).toBe(3);
  });

  it('does not keep its snapshots longer than it reads them', async () => {
    const world = new Archived();
    const id = await world.make();
    const point = await world.snapshot(id);
    await world.snapshot(id);
    await world.round();
    await world.control.deleteSnapshot(world.caller(), { id: point.id });
    await world.round(20);
    await world.remove(id);
    await world.round(20);
    expect(await world.leftovers()).toMatchObject({ unknownSandboxes: [], inFlight: [] });
  });
});

describe('whether a sandbox is archived', () => {
  it('is its own to say, or its project’s', async () => {
    const world = new Archived();
    const [left, own, off] = [await world.make(null), await world.make(), await world.make('off')];
    for (const id of [left, own, off]) await world.snapshot(id);
    const all = async () => {
      for (let turn = 0; turn < 4; turn++) await world.round();
      return Promise.all([left, own, off].map(async (id) => (await world.archivingOf(id)) !== null));
    };
    expect(await all()).toEqual([false, true, false]);
    const caller = world.caller();
    await world.control.updateProject(caller, { id: caller.projectId, snapshots: { archive: EVERY } });
    expect(await all()).toEqual([true, true, false]);
  });

  it('makes no trouble for others when one cannot be: the longest overdue comes first, and a failure steps back', async () => {
    const world = new Archived();
    const [bad, good] = [await world.make({ ...EVERY, location: 'nowhere' }), await world.make()];
    for (const id of [bad, good]) await world.snapshot(id);
    for (let turn = 0; turn < 3; turn++) await world.round();
    expect(await world.archivingOf(bad)).toMatchObject({ last: null, failure: { code: 'not_found' } });
    expect(await world.archivingOf(good)).toMatchObject({ failure: null });
  });

  it('ends with a move', async () => {
    const world = new Archived();
    const id = await world.make();
    await world.control.moveSandbox(world.caller(), { id, location: 'default', timeline: true });
    const exports = world.exports();
    for (let turn = 0; turn < 3; turn++) await world.round(20);
    expect(world.exports()).toBe(exports);
  });
});
