/** Snapshots at the end of commands that were marked so. */
import { AppError } from '@space/core';
import { expect, it } from 'vitest';
import { eventually, World } from './test-world.ts';

const MARKED = { checkpoint: true };

it('takes one before the end of the command is told, and none of a command that is not marked', async () => {
  const world = new World();
  const { id } = await world.create();
  await world.count(id);
  expect(await world.timeline(id)).toEqual([]);
  for await (const event of world.execEvents(id, 'increment', MARKED)) {
    const timeline = await world.timeline(id);
    expect(timeline).toHaveLength(event.kind === 'exited' ? 1 : 0);
  }
  const [point] = await world.timeline(id);
  expect(point).toMatchObject({ cause: 'checkpoint', pinned: false });
  await world.count(id);
  await world.rewind(id, `${point?.id}`);
  expect(await world.exec(id, 'read')).toBe('2');
});

it('takes one also when nobody reads to the end', async () => {
  const world = new World();
  await world.control.start();
  const { id } = await world.create();
  const { processId } = await world.control.startProcess(world.caller(), { id, command: 'forever', ...MARKED });
  await world.control.signalProcess(world.caller(), { id, processId, signal: 'SIGKILL', target: 'tree' });
  const timeline = await eventually(
    () => world.timeline(id),
    (points) => points.length > 0,
  );
  expect(timeline.map(({ cause }) => cause)).toEqual(['checkpoint']);
  await world.control.close();
});

it('says when it could not be taken, and tells the end all the same', async () => {
  const world = new World();
  const { id } = await world.create();
  world.node.faults.failNext('snapshot', new AppError('snapshot_failed', 'no'));
  const events = await Array.fromAsync(world.execEvents(id, 'increment', MARKED));
  expect(events.at(-1)?.kind).toBe('exited');
  const { skipped } = await world.control.getTimeline(world.caller(), { id, limit: 10 });
  expect(skipped.map(({ code }) => code)).toEqual(['snapshot_failed']);
});
