/** What the node does as its vault runs full: nobody dies, and each goes on. */
import { DEFAULT_VAULT, type SandboxId, type SpaceNews } from '@space/core';
import { describe, expect, it, vi } from 'vitest';
import { makeWorld, WORLD_KINDS, type World } from './world.ts';

const GIB = 2 ** 30;
const PLENTY = { totalBytes: 100 * GIB, availableBytes: 50 * GIB };
const NEARLY_NONE = { totalBytes: 100 * GIB, availableBytes: 2 ** 20 };
const LITTLE = { totalBytes: 100 * GIB, availableBytes: 2 ** 20 * 400 };

const realOf = async (world: World, sandbox: SandboxId) => (await world.node.inspect(DEFAULT_VAULT, sandbox)).real;
/** Until it holds. (`expect.poll` does not work in tests that run beside each other.) */
const holds = (check: () => void | Promise<void>) => vi.waitFor(check, { timeout: 5_000, interval: 5 });
const settles = (world: World, sandbox: SandboxId, real: string) =>
  holds(async () => expect(await realOf(world, sandbox)).toBe(real));

// Each waits most of its time for the next look at a vault of its own.
describe.concurrent.each(WORLD_KINDS)('a vault that runs full, with memory $memory, by the node $reached', (kind) => {
  it('stops every sandbox before it is full, and lets each go on when there is room', async () => {
    await using world = await makeWorld(kind);
    const sandboxes = [await world.create(), await world.create()];
    const news: SpaceNews[] = [];
    world.node.onSpace((one) => news.push(one));
    for (const one of sandboxes) await world.run(one, 'set at one');
    world.vault.free = NEARLY_NONE;
    for (const one of sandboxes) await settles(world, one, 'out_of_space');
    expect([...world.runtime.alive.values()].map((vm) => vm.running)).toEqual([false, false]);
    for (const one of sandboxes) {
      await expect(world.run(one, 'get at')).rejects.toMatchObject({ code: 'out_of_space' });
      await expect(world.snapshot(one)).rejects.toMatchObject({ code: 'out_of_space' });
      await expect(world.pause(one)).rejects.toMatchObject({ code: 'out_of_space' });
      await expect(goOn(world, one)).rejects.toMatchObject({ code: 'out_of_space' });
    }
    // Before anybody is told, the file system is asked for what it holds for no reason.
    await holds(() => expect(news.map(({ kind }) => kind)).toContain('short'));
    expect(world.faults.steps).toContain('vault.reclaim');
    world.vault.free = PLENTY;
    for (const one of sandboxes) {
      await settles(world, one, 'running');
      expect(await world.run(one, 'get at')).toBe('one');
      await world.start(one, await world.pause(one));
      expect(await world.run(one, 'get at')).toBe('one');
    }
    for (const sandboxId of sandboxes) {
      expect(news.filter((one) => one.kind === 'turned' && one.sandboxId === sandboxId)).toHaveLength(2);
    }
  });

  it('stops who fills it first, and lets the others run', async () => {
    await using world = await makeWorld(kind);
    const [quiet, writer] = [await world.create(), await world.create()];
    const { life } = await world.node.inspect(DEFAULT_VAULT, writer);
    const vm = [...world.runtime.alive.values()].find(({ record }) => record.lifeId === life);
    if (vm === undefined) throw new Error('it does not run');
    const writing = setInterval(() => {
      if (vm.running) vm.writtenBytes += 10_000_000;
    }, 5);
    world.vault.free = LITTLE;
    await settles(world, writer, 'out_of_space');
    clearInterval(writing);
    expect(await world.run(quiet, 'get at')).toBe('');
    expect(await realOf(world, quiet)).toBe('running');
    world.vault.free = PLENTY;
    await settles(world, writer, 'running');
  });

  it('takes a VM that stopped itself, for want of room for its disk, for stopped, and tries it again', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    const [vm] = world.runtime.alive.values();
    if (vm === undefined) throw new Error('it does not run');
    world.vault.free = LITTLE;
    Object.assign(vm, { running: false, starved: true });
    await settles(world, sandbox, 'out_of_space');
    world.vault.free = PLENTY;
    await settles(world, sandbox, 'running');
    expect(vm).toMatchObject({ running: true, starved: false });
  });

  it('tells nobody that it is short when the file system gives back enough', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    const news: SpaceNews[] = [];
    world.node.onSpace((one) => news.push(one));
    const giving = world.faults.holdNext('vault.reclaim');
    // Too little for all that is promised, and enough to run on.
    world.vault.free = { ...PLENTY, availableBytes: 2 ** 20 * 768 };
    await giving.reached;
    world.vault.free = PLENTY;
    giving.letGo();
    await holds(async () => expect(await world.run(sandbox, 'get at')).toBe(''));
    expect(news).toEqual([]);
  });

  it('deletes what stands still, and goes on with it at once when asked', async () => {
    await using world = await makeWorld(kind);
    const [one, other] = [await world.create(), await world.create()];
    world.vault.free = NEARLY_NONE;
    await settles(world, one, 'out_of_space');
    await settles(world, other, 'out_of_space');
    await world.destroy(one);
    world.vault.free = PLENTY;
    await goOn(world, other);
    expect(await realOf(world, other)).toBe('running');
    await goOn(world, other);
  });

  it('ends a snapshot well whose window it comes into, and its sandbox goes on in full later', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    await world.run(sandbox, 'set at one');
    const window = world.faults.holdNext('vault.seal');
    const snapshot = world.snapshot(sandbox);
    await window.reached;
    const stopped = new Promise<SpaceNews>((resolve) => {
      world.node.onSpace((news) => news.kind === 'turned' && resolve(news));
    });
    world.vault.free = NEARLY_NONE;
    expect(await stopped).toMatchObject({ sandboxId: sandbox });
    window.letGo();
    const point = await snapshot;
    expect(await realOf(world, sandbox)).toBe('out_of_space');
    expect([...world.runtime.alive.values()].map((vm) => vm.running)).toEqual([false]);
    world.vault.free = PLENTY;
    await settles(world, sandbox, 'running');
    await holds(async () => expect(await world.run(sandbox, 'get at')).toBe('one'));
    await world.rewind(sandbox, point);
  });

  it('does not let go on what it takes up after the death of the daemon, until there is room', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    world.vault.free = NEARLY_NONE;
    await settles(world, sandbox, 'out_of_space');
    await world.restart();
    expect([...world.runtime.alive.values()].map((vm) => vm.running)).toEqual([false]);
    await settles(world, sandbox, 'out_of_space');
    world.vault.free = PLENTY;
    await settles(world, sandbox, 'running');
    expect(await world.run(sandbox, 'get at')).toBe('');
  });

  it('is not held up by a VMM that cannot be stopped', async () => {
    await using world = await makeWorld(kind);
    const sandboxes = [await world.create(), await world.create()];
    const silent = world.faults.holdNext('vm.stop');
    world.vault.free = NEARLY_NONE;
    await silent.reached;
    await holds(() => expect([...world.runtime.alive.values()].filter((vm) => vm.running)).toHaveLength(1));
    silent.letGo();
    for (const one of sandboxes) await settles(world, one, 'out_of_space');
  });
});

function goOn(world: World, sandboxId: SandboxId): Promise<void> {
  return world.node.goOn({ vault: world.vault.name, sandboxId, epoch: world.epoch() });
}
