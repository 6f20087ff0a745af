import { DEFAULT_VAULT } from '@space/core';
/**
 * The daemon dies at each step of each order, and another takes over: the sandbox is running or paused, with the memory
 * that it had before the order or has after it, and nothing is left over.
 */
import { describe, expect, it } from 'vitest';
import { expectClean, ORDERS, skip, stepsOf } from './each-step.ts';
import { makeWorld, WORLD_KINDS } from './world.ts';

describe.each(WORLD_KINDS)('the death of the daemon at any step, memory $memory, reached $reached', (kind) => {
  it.each(ORDERS)('of $name', async (order) => {
    for (const [step, nth] of await stepsOf(order, kind)) {
      await using world = await makeWorld(kind);
      const sandbox = await world.create();
      const point = await order.prepare(world, sandbox);
      skip(world, step, nth);
      const held = world.faults.holdNext(step);
      // Whoever gave it learns that it was cut, or waits for ever.
      order.act(world, sandbox, point).catch(() => undefined);
      await held.reached;
      await world.restart();
      const where = `${step} #${nth}`;
      await expectClean(world, sandbox, where);
      const { real, head } = await world.node.inspect(DEFAULT_VAULT, sandbox);
      expect(['running', 'paused'], where).toContain(real);
      if (real === 'paused' && head !== null) await world.start(sandbox, head);
      expect(['two', order.after, order.atNextStart], where).toContain(await world.run(sandbox, 'get at'));
    }
  });
});
