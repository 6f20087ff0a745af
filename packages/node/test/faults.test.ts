/**
 * A fault at each step of each order. After it: the sandbox is what it was or what was asked, never in between; the same
 * order, repeated, works; nothing is left over.
 */
import { AppError, DEFAULT_VAULT, type SandboxId, type SnapshotId } from '@space/core';
import { describe, expect, it } from 'vitest';
import { expectClean, ORDERS, type Order, skip, stepsOf } from './each-step.ts';
import { makeWorld, WORLD_KINDS, type World } from './world.ts';

describe.each(WORLD_KINDS)('a fault at any step, memory $memory, reached $reached', (kind) => {
  it.each(ORDERS)('of $name', async (order) => {
    for (const [step, nth] of await stepsOf(order, kind)) {
      await using world = await makeWorld(kind);
      const sandbox = await world.create();
      const point = await order.prepare(world, sandbox);
      skip(world, step, nth);
      world.faults.failNext(step);
      const failure = await order.act(world, sandbox, point).then(
        () => null,
        (error: unknown) => error,
      );
      const where = `${step} #${nth}`;
      if (failure !== null) await retry(world, sandbox, order, point, where);
      await expectDone(world, sandbox, order, where);
      await expectClean(world, sandbox, where);
    }
  });
});

describe.each(WORLD_KINDS)('an agent that does not answer, memory $memory, reached $reached', (kind) => {
  it.each(['snapshot', 'pause'] as const)(
    'fails a %s, asked twice; nothing is left, and the next use goes on',
    async (order) => {
      await using world = await makeWorld(kind);
      const sandbox = await world.create();
      await world.run(sandbox, 'set at one');
      const connectsOf = () => world.faults.steps.filter((step) => step === 'guest.connect').length;
      const before = connectsOf();
      world.faults.failNext('guest.freeze', new AppError('agent_lost', 'It says nothing.'));
      world.faults.failNext('guest.connect', new AppError('agent_lost', 'Nothing again.'));
      await expect(world[order](sandbox)).rejects.toMatchObject({
        code: 'snapshot_failed',
        message: expect.stringMatching(/It says nothing\. Nothing again\.$/),
      });
      expect(connectsOf() - before).toBe(1);
      expect((await world.node.inspect(DEFAULT_VAULT, sandbox)).real).toBe('running');
      expect((await world.leftovers()).staging).toEqual([]);
      expect(await world.run(sandbox, 'get at')).toBe('one');
      expect(world.faults.steps.slice(-3)).toEqual(['guest.connect', 'guest.thaw', 'guest.exec']);
      await world[order](sandbox);
    },
  );
});

async function retry(world: World, sandbox: SandboxId, order: Order, point: SnapshotId, where: string): Promise<void> {
  const { real } = await world.node.inspect(DEFAULT_VAULT, sandbox);
  expect(['running', 'paused'], where).toContain(real);
  const already = (order.name === 'resume' && real === 'running') || (order.after === null && real === 'paused');
  if (!already) await order.act(world, sandbox, point);
}

async function expectDone(world: World, sandbox: SandboxId, order: Order, where: string): Promise<void> {
  const { real, head } = await world.node.inspect(DEFAULT_VAULT, sandbox);
  expect(real, where).toBe(order.after === null ? 'paused' : 'running');
  if (order.after === null && head !== null) await world.start(sandbox, head);
  expect(await world.run(sandbox, 'get at'), where).toBe(order.after ?? order.atNextStart ?? 'two');
}
