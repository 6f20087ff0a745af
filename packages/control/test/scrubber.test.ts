/** Snapshots that have rotted are known to be bad before they are needed, under a clock that the test holds. */
import { AppError, type SnapshotId } from '@space/core';
import { expect, it } from 'vitest';
import { Scrubber } from '../src/scrubber.ts';
import { Vaults } from '../src/vaults.ts';
import { World } from './test-world.ts';

const HOUR = 60 * 60_000;
const ignore = () => undefined;

class Scrubbed extends World {
  nowMs = Date.now();
  readonly ports = {
    node: this.node,
    records: this.records,
    chance: this.chance,
    clock: { now: () => this.nowMs, monotonicMs: () => this.nowMs },
    logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
  };
  scrubber = new Scrubber(this.ports, new Vaults(this.ports));

  async after(ms: number): Promise<void> {
    this.nowMs += ms;
    await this.scrubber.round();
  }

  /** Of a running sandbox, oldest first. */
  async snapshots(count: number) {
    const { id } = await this.create();
    const ids: SnapshotId[] = [];
    for (let i = 0; i < count; i++) ids.push((await this.snapshot(id)).id as SnapshotId);
    return { id, ids };
  }

  one(id: string) {
    return this.control.getSnapshot(this.caller(), { id });
  }

  async told() {
    const events = await Array.fromAsync(await this.control.listEvents(this.caller(), { follow: false }));
    return events.flatMap((event) =>
      event.type === 'event' && event.kind === 'snapshot.bad' ? [event.snapshotId] : [],
    );
  }
}

it('checks each once a day, and says when', async () => {
  const world = new Scrubbed();
  const { ids } = await world.snapshots(30);
  await world.after(23 * HOUR);
  expect((await world.one(ids[0] ?? '')).checkedAt).toBeNull();
  await world.after(2 * HOUR);
  const at = new Date(world.nowMs).toISOString();
  for (const id of ids) expect(await world.one(id)).toMatchObject({ state: 'good', checkedAt: at });
  await world.after(23 * HOUR);
  expect((await world.one(ids[0] ?? '')).checkedAt).toBe(at);
});

it('lists what has rotted as bad with the reason, tells of it once, and goes on with the others', async () => {
  const world = new Scrubbed();
  const { id, ids } = await world.snapshots(3);
  const [first, second, third] = ids as [SnapshotId, SnapshotId, SnapshotId];
  world.node.damaged.add(second);
  await world.after(25 * HOUR);
  await world.after(25 * HOUR);
  expect(await world.one(second)).toMatchObject({ state: 'bad', badReason: `The memory of ${second} is damaged.` });
  for (const good of [first, third]) expect(await world.one(good)).toMatchObject({ state: 'good' });
  expect(await world.told()).toEqual([second]);
  await expect(world.rewind(id, second)).rejects.toMatchObject({ code: 'snapshot_bad' });
  await world.rewind(id, first);
});

it('takes nothing for bad that could only not be read now, and puts it behind the others', async () => {
  const world = new Scrubbed();
  const { ids } = await world.snapshots(2);
  world.node.faults.failNext('checkPoint', new AppError('internal', 'too many open files'));
  await world.after(25 * HOUR);
  expect(await world.one(ids[0] ?? '')).toMatchObject({ state: 'good', checkedAt: null });
  expect((await world.one(ids[1] ?? '')).checkedAt).not.toBeNull();
  await world.after(0);
  expect((await world.one(ids[0] ?? '')).checkedAt).not.toBeNull();
});

it('marks what a restore finds bad, and does not when the node only could not be reached', async () => {
  const world = new Scrubbed();
  const { id, ids } = await world.snapshots(2);
  const [first, second] = ids as [SnapshotId, SnapshotId];
  world.node.faults.failNext('rewind', new AppError('node_unavailable', 'away'));
  await expect(world.rewind(id, first)).rejects.toMatchObject({ code: 'node_unavailable' });
  expect(await world.one(first)).toMatchObject({ state: 'good' });
  world.node.damaged.add(second);
  await expect(world.fork(id, 2, second)).rejects.toMatchObject({ code: 'snapshot_bad' });
  expect(await world.one(second)).toMatchObject({ state: 'bad' });
  expect(await world.told()).toEqual([second]);
});

it('ends at once when it is closed', async () => {
  const world = new Scrubbed();
  await world.snapshots(1);
  const held = Promise.withResolvers<void>();
  world.node.checkPoint = () => held.promise;
  const round = world.after(25 * HOUR);
  await Promise.resolve();
  world.scrubber.close();
  await round;
  held.resolve();
});
