/** The orders that change a sandbox, and every step that each takes: the axes of the fault matrices. */
import { DEFAULT_VAULT, type SandboxId, type SnapshotId } from '@space/core';
import { expect } from 'vitest';
import { makeWorld, type World, type WorldKind } from './world.ts';

export interface Order {
  readonly name: string;
  /** Brings the sandbox to where the order can be given; returns a point to go back to. */
  prepare(world: World, sandbox: SandboxId): Promise<SnapshotId>;
  act(world: World, sandbox: SandboxId, point: SnapshotId): Promise<unknown>;
  /** The value of `at` in memory once the order is done; null: the sandbox is paused. */
  readonly after: string | null;
  /** Of one that pauses: what it is when the sandbox is started again; left out: `two`. */
  readonly atNextStart?: string;
}

export const ORDERS: readonly Order[] = [
  { name: 'snapshot', prepare: running, act: (world, sandbox) => world.snapshot(sandbox), after: 'two' },
  {
    name: 'snapshot of the disk',
    prepare: running,
    act: (world, sandbox) => world.snapshot(sandbox, 'disk'),
    after: 'two',
  },
  { name: 'pause', prepare: running, act: (world, sandbox) => world.pause(sandbox), after: null },
  {
    name: 'pause of files',
    prepare: running,
    act: (world, sandbox) => world.pause(sandbox, 'disk'),
    after: null,
    atNextStart: '',
  },
  { name: 'rewind', prepare: running, act: (world, sandbox, to) => world.rewind(sandbox, to), after: 'one' },
  { name: 'resume', prepare: paused, act: (world, sandbox, point) => world.start(sandbox, point), after: 'two' },
];

async function running(world: World, sandbox: SandboxId): Promise<SnapshotId> {
  await world.run(sandbox, 'set at one');
  const point = await world.snapshot(sandbox);
  await world.run(sandbox, 'set at two');
  return point;
}

async function paused(world: World, sandbox: SandboxId): Promise<SnapshotId> {
  await running(world, sandbox);
  return world.pause(sandbox);
}

/** Which steps the order takes: each once per occurrence. */
export async function stepsOf(order: Order, kind: WorldKind): Promise<[string, number][]> {
  await using world = await makeWorld(kind);
  const sandbox = await world.create();
  const point = await order.prepare(world, sandbox);
  const before = world.faults.steps.length;
  await order.act(world, sandbox, point);
  const counts = new Map<string, number>();
  return world.faults.steps.slice(before).map((step) => {
    const nth = (counts.get(step) ?? 0) + 1;
    counts.set(step, nth);
    return [step, nth];
  });
}

/** Lets the first occurrences of a step pass. */
export function skip(world: World, step: string, nth: number): void {
  for (let passed = 1; passed < nth; passed++) world.faults.holdNext(step).letGo();
}

/** One VM at most, and nothing in the vault but what the sandbox's record names. */
export async function expectClean(world: World, sandbox: SandboxId, where: string): Promise<void> {
  const { life } = await world.node.inspect(DEFAULT_VAULT, sandbox);
  const lives = life === null ? [] : [life];
  expect(await world.leftovers(), where).toEqual({ lives, staging: [], alive: lives });
}
