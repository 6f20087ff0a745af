/**
 * A fault at each step of each order. After it: the sandbox is what it was or what was asked, never in between; the same
 * order, repeated, works; nothing is left over.
 */
import type { SandboxId, SnapshotId } from '@space/core';
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

async function retry(world: World, sandbox: SandboxId, order: Order, point: SnapshotId, where: string): Promise<void> {
  const { real } = await world.node.inspect(sandbox);
  expect(['running', 'paused'], where).toContain(real);
  const already = (order.name === 'resume' && real === 'running') || (order.name === 'pause' && real === 'paused');
  if (!already) await order.act(world, sandbox, point);
}

async function expectDone(world: World, sandbox: SandboxId, order: Order, where: string): Promise<void> {
  const { real, head } = await world.node.inspect(sandbox);
  expect(real, where).toBe(order.after === null ? 'paused' : 'running');
  if (order.after === null && head !== null) await world.start(sandbox, head);
  expect(await world.run(sandbox, 'get at'), where).toBe(order.after ?? 'two');
}
