/** The schedule of points and their retention, on a node that fakes nothing but the guest, under a clock that the test holds. */
import { setTimeout } from 'node:timers/promises';
import {
  AppError,
  DEFAULT_PROJECT,
  DEFAULT_VAULT,
  QUIET_MEMORY_BYTES,
  type SandboxId,
  type SnapshotId,
} from '@space/core';
import { FakeGateway } from '@space/testkit';
import { describe, expect, it } from 'vitest';
import { ActivityLog } from '../src/activity.ts';
import { Admission } from '../src/admission.ts';
import { Nursery } from '../src/birth.ts';
import { Collector } from '../src/collector.ts';
import { Driver } from '../src/driver.ts';
import { Effects } from '../src/effects.ts';
import { LifecycleUseCases } from '../src/lifecycle-use-cases.ts';
import { Metrics } from '../src/metrics.ts';
import { Network } from '../src/network.ts';
import { Relief } from '../src/relief.ts';
import { RollingPoints } from '../src/rolling.ts';
import { Pins } from '../src/timeline.ts';
import { Vaults } from '../src/vaults.ts';
import { eventually, NO_LEFTOVERS, World } from './test-world.ts';

const MINUTE = 60_000;
const ignore = () => undefined;

class Rolling extends World {
  nowMs = 1_700_000_000_000;
  readonly ports = {
    node: this.node,
    records: this.records,
    chance: this.chance,
    clock: { now: () => this.nowMs, monotonicMs: () => this.nowMs },
    logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
  };
  readonly driver = new Driver(this.ports, new Metrics(), async () => undefined);
  readonly activity = new ActivityLog(this.ports.clock);
  readonly pins = new Pins();
  readonly #admission = new Admission(this.ports);
  readonly #machinery = {
    ports: this.ports,
    driver: this.driver,
    effects: new Effects(this.ports, this.#admission),
    nursery: new Nursery(this.ports, this.driver, this.#admission),
    pins: this.pins,
    activity: this.activity,
    network: new Network(this.ports, new FakeGateway()),
    vaults: new Vaults(this.ports),
  };
  readonly sandboxes = new LifecycleUseCases(this.#machinery);
  readonly collector = new Collector(this.#machinery, { removalPauseMs: 0 });
  readonly rolling = new RollingPoints(this.#machinery, this.collector);
  readonly relief = new Relief(this.#machinery, this.collector, { lookMs: 1 });

  constructor() {
    super();
    this.node.now = () => this.nowMs;
  }

  async make(input: Parameters<World['create']>[0] = {}): Promise<SandboxId> {
    const { id } = await this.create(input);
    await this.pass(0);
    return id as SandboxId;
  }

  /** Lets time pass, then does what is done at intervals. */
  async pass(ms: number): Promise<void> {
    this.nowMs += ms;
    await this.rolling.round(await this.records.allSandboxes());
    await this.rolling.settled();
    this.collector.round(await this.records.allSandboxes());
    await this.collector.settled();
  }

  /** So many minutes in which the sandbox changes. */
  async work(id: SandboxId, minutes: number): Promise<void> {
    for (let i = 0; i < minutes; i++) {
      this.node.write(id, QUIET_MEMORY_BYTES);
      await this.pass(MINUTE);
    }
  }

  kinds = async (id: string) => (await this.timeline(id)).map(({ kind }) => kind);
  causes = async (id: string) => (await this.timeline(id)).map(({ cause }) => cause);
  skipped = async (id: string) =>
    (await this.control.getTimeline(this.caller(), { id, limit: 10 })).skipped.map(({ code }) => code);
}

describe('a schedule', () => {
  it('takes a point of what has changed, each minute, and none of what has not', async () => {
    const world = new Rolling();
    const id = await world.make();
    await world.work(id, 3);
    for (let i = 0; i < 10; i++) await world.pass(MINUTE);
    expect(await world.causes(id)).toEqual(['rolling', 'rolling', 'rolling']);
    const [newest, before] = await world.timeline(id);
    expect(newest).toMatchObject({ parent: before?.id, pinned: false, changed: { memoryBytes: QUIET_MEMORY_BYTES } });
    world.activity.begin(id)();
    await world.pass(MINUTE);
    expect(await world.causes(id)).toHaveLength(4);
  });

  it('is that of the sandbox, else of its project, else each minute; and can be off', async () => {
    const world = new Rolling();
    const own = await world.make({ snapshots: { everyMs: 10_000 } });
    const off = await world.make({ snapshots: { everyMs: 'off' } });
    const plain = await world.make();
    await world.records.tenants.updateProject(DEFAULT_PROJECT, { snapshotPolicy: { everyMs: 30_000 } });
    for (let i = 0; i < 6; i++) {
      for (const id of [own, off, plain]) world.node.write(id, QUIET_MEMORY_BYTES);
      await world.pass(10_000);
    }
    expect((await world.causes(own)).length).toBe(6);
    expect((await world.causes(plain)).length).toBe(2);
    expect(await world.causes(off)).toEqual([]);
  });

  it.each(['over_budget', 'snapshot_failed', 'agent_lost'] as const)(
    'takes one of the disk where one with memory is %s, and tries memory less and less often',
    async (code) => {
      const world = new Rolling();
      const id = await world.make();
      const minutes = async (count: number, failing: boolean) => {
        for (let i = 0; i < count; i++) {
          if (failing) world.node.faults.failNext('snapshot', new AppError(code, 'too slow'));
          world.node.write(id, QUIET_MEMORY_BYTES, 4096);
          await world.pass(MINUTE);
        }
      };
      await minutes(2, true);
      // Foreseen: it is not tried again at once.
      await minutes(1, false);
      expect(await world.kinds(id)).toEqual(['disk', 'disk', 'disk']);
      const [last] = await world.timeline(id);
      expect(last).toMatchObject({ kind: 'disk', degraded: code, timings: { stoppedMs: 0, frozenMs: 0 } });
      expect((await world.get(id)).status).toBe('running');
      await minutes(1, false);
      expect(await world.kinds(id)).toEqual(['memory', 'disk', 'disk', 'disk']);
      expect((await world.timeline(id))[0]).toMatchObject({ degraded: null });
      await minutes(1, false);
      expect((await world.kinds(id))[0]).toBe('memory');
      expect(await world.skipped(id)).toEqual([]);
      expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
    },
  );

  it('takes one with memory again as soon as it can, though nothing changed since the one of the disk', async () => {
    const world = new Rolling();
    const id = await world.make();
    world.node.faults.failNext('snapshot', new AppError('over_budget', 'too slow'));
    world.node.write(id, 0, 4096);
    await world.pass(MINUTE);
    for (let i = 0; i < 5; i++) await world.pass(MINUTE);
    expect(await world.kinds(id)).toEqual(['memory', 'disk']);
  });

  it('says that it took none, where one of the disk would be the point before it again, or fails', async () => {
    const world = new Rolling();
    const id = await world.make();
    world.node.faults.failNext('snapshot', new AppError('over_budget', 'too slow'));
    await world.work(id, 1);
    expect(await world.kinds(id)).toEqual([]);
    expect(await world.skipped(id)).toEqual(['over_budget']);
    world.node.faults.failNext('snapshot', new AppError('over_budget', 'too slow'));
    world.node.faults.failNext('snapshot', new AppError('insufficient_space', 'full'));
    world.node.write(id, 0, 4096);
    await world.pass(MINUTE);
    expect(await world.skipped(id)).toEqual(['insufficient_space', 'over_budget']);
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('goes on with the disk, when what it took with memory had passed the budget', async () => {
    const world = new Rolling();
    const id = await world.make({ snapshots: { budgetMs: 100 } });
    world.node.frozenMs = 150;
    for (let i = 0; i < 4; i++) {
      world.node.write(id, QUIET_MEMORY_BYTES, 4096);
      await world.pass(MINUTE);
    }
    expect(await world.kinds(id)).toEqual(['memory', 'disk', 'memory', 'memory']);
  });

  it('goes on from the disk as it was left, where the newest point holds no more than that', async () => {
    const world = new Rolling();
    const id = await world.make();
    await world.control.start();
    await world.exec(id, 'echo then > /f');
    world.node.faults.failNext('snapshot', new AppError('over_budget', 'too slow'));
    world.node.write(id, 0, 4096);
    await world.pass(MINUTE);
    const [point] = await world.timeline(id);
    await world.exec(id, 'echo late > /f');
    world.node.crash(id);
    await eventually(
      () => world.get(id),
      ({ status }) => status === 'crashed',
    );
    await world.resume(id);
    expect(await world.exec(id, 'cat /f')).toBe('late');
    if (point === undefined) throw new Error('no point was taken');
    await world.rewind(id, point.id);
    expect(await world.exec(id, 'cat /f')).toBe('then');
  });

  it('takes none when the vault runs short, and says so', async () => {
    const world = new Rolling();
    const id = await world.make();
    const [vault] = (await world.node.capabilities()).vaults;
    world.node.availableBytes = (vault?.totalBytes ?? 0) / 20;
    await world.work(id, 1);
    expect(await world.causes(id)).toEqual([]);
    expect(await world.skipped(id)).toEqual(['insufficient_space']);
  });

  it('takes none of a sandbox that has an operation in flight, and makes no call fail', async () => {
    const world = new Rolling();
    const id = await world.make();
    world.node.write(id, QUIET_MEMORY_BYTES);
    const held = world.node.faults.holdNext('snapshot');
    world.nowMs += MINUTE;
    await world.rolling.round(await world.records.allSandboxes());
    await held.reached;
    const pausing = world.sandboxes.pauseSandbox(world.gated(), { id });
    expect(await world.exec(id, 'read')).toBe('0');
    held.letGo();
    expect((await pausing).status).toBe('paused');
    await world.rolling.settled();
    expect(await world.causes(id)).toEqual(['pause', 'rolling']);
    await world.pass(10 * MINUTE);
    expect(await world.causes(id)).toHaveLength(2);
  });

  it('is no use of the sandbox', async () => {
    const world = new Rolling();
    const id = await world.make({ idle: { pauseAfterMs: 150_000 } });
    for (let i = 0; i < 16; i++) {
      world.node.write(id, QUIET_MEMORY_BYTES);
      await world.pass(10_000);
      for (const one of await world.records.allSandboxes()) {
        world.activity.sampled(one, { at: new Date(), cpuPercent: 3, memoryBytes: 0, diskBytes: 0, outgoingBytes: 0 });
      }
    }
    expect((await world.causes(id)).length).toBeGreaterThan(1);
    const [sandbox] = await world.records.allSandboxes();
    expect(sandbox && world.activity.isIdle(sandbox)).toBe(true);
  });
});

describe('retention', () => {
  it('thins out what grows old, and removes it from the vault', async () => {
    const world = new Rolling();
    const id = await world.make();
    await world.work(id, 180);
    const timeline = await world.control.getTimeline(world.caller(), { id, limit: 1000 });
    expect(timeline.snapshots.length).toBeGreaterThan(60 + 11);
    expect(timeline.snapshots.length).toBeLessThan(60 + 15);
    expect(new Set(world.node.pointIds())).toEqual(new Set(timeline.snapshots.map((point) => point.id)));
    // Each still tells the one before it.
    for (const [index, { parent }] of timeline.snapshots.entries()) {
      expect(parent).toBe(timeline.snapshots[index + 1]?.id ?? null);
    }
  }, 60_000);

  it('keeps what is pinned or named, and what the sandbox is paused at', async () => {
    const world = new Rolling();
    const id = await world.make();
    await world.work(id, 2);
    const asked = await world.snapshot(id);
    const early = (await world.timeline(id)).at(-1);
    await world.control.updateSnapshot(world.caller(), { id: `${early?.id}`, name: 'early', note: 'why' });
    const { head } = await world.pause(id);
    const snapshots = { retention: [{ forMs: 1, everyMs: 0 }] };
    await world.control.updateSandbox(world.caller(), { id, snapshots });
    await world.pass(60 * MINUTE);
    const left = await world.timeline(id);
    expect(left.map((point) => point.id)).toEqual([head, asked.id, early?.id].filter((one) => one !== undefined));
    await world.control.updateSnapshot(world.caller(), { id: asked.id, pinned: false });
    await world.pass(60 * MINUTE);
    expect((await world.timeline(id)).map((point) => point.id)).toEqual([head, early?.id]);
    await world.resume(id);
    expect(await world.exec(id, 'read')).toBe('0');
  });

  it('is not blocked by a point that cannot be removed, and comes back to it', async () => {
    const world = new Rolling();
    const id = await world.make({ snapshots: { retention: [{ forMs: 1, everyMs: 0 }] } });
    await world.work(id, 3);
    world.node.faults.failNext('deletePoint');
    await world.pass(10 * MINUTE);
    await world.pass(MINUTE);
    expect(world.node.pointIds()).toHaveLength(1);
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('rests after a removal that took long, unless somebody waits for the space', async () => {
    const world = new Rolling();
    const id = await world.make();
    await world.work(id, 3);
    const [, ...older] = (await world.timeline(id)).map((point) => point.id as SnapshotId);
    await world.records.history.doom(older, new Date(world.nowMs));
    const slow = world.node.faults.holdNext('deletePoint');
    world.collector.round(await world.records.allSandboxes());
    await slow.reached;
    world.nowMs += 1_000;
    slow.letGo();
    const ended = world.collector.settled().then(() => 'ended');
    expect(await Promise.race([ended, setTimeout(100, 'resting')])).toBe('resting');
    expect(world.node.pointIds()).toHaveLength(2);
    await world.collector.removeNow();
    expect(world.node.pointIds()).toHaveLength(1);
  });

  it('goes on after a crash where it was cut short', async () => {
    const world = new Rolling();
    const id = await world.make();
    await world.work(id, 3);
    const [, second] = await world.timeline(id);
    await world.records.history.doom([second?.id as SnapshotId], new Date(world.nowMs));
    await expect(world.control.getSnapshot(world.caller(), { id: `${second?.id}` })).rejects.toMatchObject({
      code: 'not_found',
    });
    expect(world.node.pointIds()).toHaveLength(3);
    await world.pass(1);
    expect(world.node.pointIds()).toHaveLength(2);
  });

  it('waits with a point that something starts from', async () => {
    const world = new Rolling();
    const id = await world.make();
    await world.work(id, 2);
    const [, first] = await world.timeline(id);
    const point = first?.id as SnapshotId;
    world.pins.pin(point);
    await world.records.history.doom([point], new Date(world.nowMs));
    await world.pass(1);
    expect(world.node.pointIds()).toContain(point);
    world.pins.unpin(point);
    await world.pass(1);
    expect(world.node.pointIds()).not.toContain(point);
  });

  it('removes a point that no record tells of, once that has been so for a while, and nothing of an unknown sandbox', async () => {
    const world = new Rolling();
    const id = await world.make({ snapshots: { everyMs: 'off' } });
    const { epoch, vault } = await world.node.inspect(DEFAULT_VAULT, id);
    const stray = 'snp_00000000000stray' as SnapshotId;
    await world.node.snapshot({ vault, sandboxId: id, epoch, snapshotId: stray });
    const unknown = 'sbx_0000000000000000' as SandboxId;
    const start = { vault, sandboxId: unknown, epoch: 1, from: stray, template: 'base', generation: 1 };
    await world.node.start({ ...start, size: { vcpus: 1, memoryMib: 512, diskMib: 8192 } });
    const left = 'snp_0000000000000eft' as SnapshotId;
    await world.node.snapshot({ vault, sandboxId: unknown, epoch: 1, snapshotId: left });
    await world.pass(11 * MINUTE);
    expect(world.node.pointIds()).toContain(stray);
    await world.pass(11 * MINUTE);
    expect(world.node.pointIds()).toEqual([left]);
  });
});

describe('a time', () => {
  it('is rewound to, and forked from: the newest point at or before it', async () => {
    const world = new Rolling();
    const id = await world.make();
    for (let i = 1; i <= 5; i++) {
      await world.count(id);
      await world.work(id, 1);
    }
    const rewind = (to: { agoMs: number } | { at: string }) =>
      world.sandboxes.rewindSandbox(world.gated(), { id, to, keepPresent: true });
    const { kept } = await rewind({ agoMs: 2 * MINUTE + 1 });
    expect(await world.exec(id, 'read')).toBe('2');
    const at = new Date(world.nowMs - 4 * MINUTE).toISOString();
    const [fork] = await world.sandboxes.forkSandbox(world.gated(), { id, count: 1, from: { at } });
    if (fork === undefined || 'error' in fork) throw new Error('no fork');
    expect(await world.exec(fork.sandbox.id, 'read')).toBe('1');
    const timeline = await world.control.getTimeline(world.caller(), { id, limit: 100 });
    expect(timeline.forks).toEqual([
      { sandboxId: fork.sandbox.id, name: null, from: fork.sandbox.forkedFrom?.snapshotId },
    ]);
    await world.rewind(id, `${kept?.id}`);
    expect(await world.exec(id, 'read')).toBe('5');
    await expect(rewind({ agoMs: 60 * MINUTE })).rejects.toMatchObject({ code: 'not_found' });
    await expect(rewind({ at: new Date(world.nowMs + 1).toISOString() })).rejects.toMatchObject({
      code: 'bad_request',
    });
  });

  it('before a fork was made is one of the line that it inherited', async () => {
    const world = new Rolling();
    const id = await world.make();
    await world.count(id);
    await world.work(id, 1);
    await world.count(id);
    await world.work(id, 1);
    const [fork] = await world.sandboxes.forkSandbox(world.gated(), { id, count: 1 });
    if (fork === undefined || 'error' in fork) throw new Error('no fork');
    world.nowMs += MINUTE;
    const input = { id: fork.sandbox.id, to: { agoMs: MINUTE }, keepPresent: true };
    await world.sandboxes.rewindSandbox(world.gated(), input);
    expect(await world.exec(fork.sandbox.id, 'read')).toBe('2');
    await world.sandboxes.rewindSandbox(world.gated(), { ...input, to: { agoMs: 2 * MINUTE } });
    expect(await world.exec(fork.sandbox.id, 'read')).toBe('1');
  });
});

describe('a vault that runs short', () => {
  const short = (world: Rolling) => world.relief.begin(DEFAULT_VAULT, world.node.availableBytes);

  it('gives up the oldest points, a few at a time, and says why; never what is pinned, named, or the last', async () => {
    const world = new Rolling();
    const id = await world.make();
    await world.work(id, 3);
    const pinned = await world.snapshot(id);
    const named = await world.snapshot(id, 'kept');
    await world.work(id, 10);
    const before = (await world.timeline(id)).map((point) => point.id);
    await short(world);
    const after = (await world.timeline(id)).map((point) => point.id);
    expect(before.length - after.length).toBe(8);
    expect(after.slice(0, 5)).toEqual(before.slice(0, 5));
    expect(after).toEqual(expect.arrayContaining([pinned.id, named.id]));
    expect(world.node.pointIds()).toHaveLength(after.length);
    await short(world);
    await short(world);
    expect((await world.timeline(id)).map((point) => point.id)).toEqual([before[0], named.id, pinned.id]);
    const events = await world.records.events.list({
      ...{ after: null, projectId: DEFAULT_PROJECT, organisationId: null, limit: 100 },
    });
    const told = events.filter(({ kind }) => kind === 'snapshot.deleted');
    expect(told.map(({ errorCode }) => errorCode)).toEqual(told.map(() => 'insufficient_space'));
    expect(told).toHaveLength(12);
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('takes from who holds the most, and from nobody who has an operation in flight', async () => {
    const world = new Rolling();
    const [heavy, light, busy] = [await world.make(), await world.make(), await world.make()];
    for (let i = 0; i < 5; i++) {
      for (const id of [light, busy]) world.node.write(id, QUIET_MEMORY_BYTES);
      world.node.write(heavy, 100 * QUIET_MEMORY_BYTES);
      // Two points at once.
      for (const wait of [MINUTE, 2_000]) await world.pass(wait);
    }
    const held = world.node.faults.holdNext('snapshot');
    const snapshot = world.snapshot(busy);
    await held.reached;
    await short(world);
    expect(await world.kinds(heavy)).toHaveLength(1);
    expect((await world.kinds(light)).length).toBeGreaterThan(1);
    expect(world.node.pointIds().length).toBeGreaterThan(0);
    held.letGo();
    await snapshot;
    expect((await world.kinds(busy)).length).toBeGreaterThanOrEqual(6);
  });

  it('waits until the vault has it, and shares a round among all news of one shortage', async () => {
    const world = new Rolling();
    const id = await world.make();
    await world.work(id, 20);
    world.node.bytesPerPoint = 2 ** 20;
    const wasBytes = world.node.availableBytes;
    const round = short(world);
    expect(short(world)).toBe(round);
    await round;
    expect(world.node.availableBytes - wasBytes).toBe(8 * 2 ** 20);
    expect(await world.kinds(id)).toHaveLength(12);
  });

  it('is met by control when the node tells of it', async () => {
    const world = new Rolling();
    const id = await world.make();
    await world.work(id, 3);
    await world.control.start();
    world.node.tellShort();
    await eventually(
      () => world.kinds(id),
      ({ length }) => length === 1,
    );
  });
});
