/**
 * The pool on fakes: what is in it belongs to nobody, is given away whole or not at all, and is the first to go. Only the
 * calls of the node port are used, and what lies in the vault and runs afterwards is looked at.
 */
import { AppError, DEFAULT_VAULT, newId, type PoolStatus, type SandboxId } from '@space/core';
import { describe, expect, it } from 'vitest';
import { makeWorld, WORLD_KINDS, type World } from './world.ts';

const POOL = { memoryMib: 1000, quietMs: 1 };
/** Of a member in the fake world: its memory of 1 MiB, and its VMM. */
const NEED_MIB = 49;

const statusOf = async (world: World): Promise<PoolStatus> => (await world.node.capabilities()).pool;
const has = (world: World, expected: Partial<PoolStatus>) =>
  expect.poll(() => statusOf(world), { timeout: 5_000, interval: 2 }).toMatchObject(expected);
const full = (world: World, members = 1) => has(world, { members, filling: 0 });

/** With a ready snapshot, and a member of the pool. */
async function pooled(kind: (typeof WORLD_KINDS)[number], memoryMib?: number, pool = POOL): Promise<World> {
  const world = await makeWorld(kind, memoryMib, pool);
  await world.ready();
  if (pool.memoryMib > 0) await full(world);
  return world;
}

/** Nothing lies or runs but what sandboxes and so many members have. */
async function expectClean(world: World, where = ''): Promise<void> {
  await has(world, { filling: 0 });
  const look = async () => {
    const { members } = await statusOf(world);
    const lives = (await world.node.inspectAll()).flatMap(({ life }) => (life === null ? [] : [life]));
    const { staging, ...left } = await world.leftovers();
    const ofNobody = left.alive.filter((one) => !lives.some((life) => life === one));
    return { staging, ofMembers: ofNobody.length - members, lives: left.lives.length - lives.length - members };
  };
  await expect.poll(look, { timeout: 5_000, message: where }).toEqual({ staging: [], ofMembers: 0, lives: 0 });
}

describe.each(WORLD_KINDS)('a pool of ready sandboxes, memory $memory, by the node $reached', (kind) => {
  it('gives a create a microVM that runs already, under the name of the sandbox, and is filled again', async () => {
    await using world = await pooled(kind);
    const before = world.faults.steps.filter((step) => step === 'runtime.restore').length;
    const held = world.faults.holdNext('runtime.restore');
    const sandbox = await world.create();
    expect(await world.run(sandbox, 'hostname')).toBe(sandbox.replace('_', '-'));
    expect(world.faults.steps.filter((step) => step === 'runtime.restore').length - before).toBeLessThanOrEqual(1);
    await has(world, { hits: 1, misses: 0, members: 0 });
    // What warmed it up is not seen: its memory holds the command above alone.
    const [vm] = world.runtime.alive.values();
    expect(Object.keys(vm?.state.ended ?? {})).toHaveLength(1);
    held.letGo();
    await full(world);
    await expectClean(world);
  });

  it('stands still while it waits: vCPUs are stopped, user processes are frozen', async () => {
    await using world = await pooled(kind);
    const [member] = world.runtime.alive.values();
    expect(member).toMatchObject({ running: false, state: { frozen: true } });
    expect(await world.node.inspectAll()).toEqual([]);
  });

  it('is no promise: who wants its memory gets it, to the last of it', async () => {
    const room = 3;
    await using world = await pooled(kind, room * NEED_MIB);
    expect((await world.node.capabilities()).memory.promisedMib).toBe(0);
    const claims = Array.from({ length: room }, () => ({ sandboxId: newId('sandbox', world.chance), memoryMib: 1 }));
    await world.node.reserveMemory(claims);
    await full(world, 0);
    await expectClean(world);
    await has(world, { takenMib: 0, givenUp: 1 });
    await expect(world.create()).rejects.toMatchObject({ code: 'insufficient_memory' });
    await world.node.releaseMemory(claims.map(({ sandboxId }) => sandboxId));
    for (let count = 0; count < room; count++) await world.create();
    await expect(world.create()).rejects.toMatchObject({ code: 'insufficient_memory' });
    await expectClean(world);
  });

  it('ends a member before what it took is given to another', async () => {
    await using world = await pooled(kind, 2 * NEED_MIB);
    const point = await world.snapshot(await world.create());
    await full(world, 0);
    const all = await world.node.inspectAll();
    expect(all).toHaveLength(1);
    const [one] = all;
    if (one === undefined) throw new Error('it was created');
    await world.destroy(one.sandboxId);
    await full(world);
    const held = world.faults.holdNext('vm.kill');
    const claims = [1, 2].map(() => ({ sandboxId: newId('sandbox', world.chance), memoryMib: 1 }));
    let isPromised = false;
    const promised = world.node.reserveMemory(claims).then(() => {
      isPromised = true;
    });
    await held.reached;
    expect(isPromised).toBe(false);
    held.letGo();
    await promised;
    for (const { sandboxId } of claims) await world.start(sandboxId, point);
  });

  it('gives way while a member is being filled', async () => {
    await using world = await pooled(kind, 2 * NEED_MIB);
    const held = world.faults.holdNext('guest.freeze');
    await world.destroy(await world.create());
    await held.reached;
    const claims = [1, 2].map(() => ({ sandboxId: newId('sandbox', world.chance), memoryMib: 1 }));
    const promised = world.node.reserveMemory(claims);
    held.letGo();
    await promised;
    await full(world, 0);
    await expectClean(world);
  });

  it('gives way while a command that warms a member up hangs', async () => {
    await using world = await pooled(kind, 2 * NEED_MIB);
    const held = world.faults.holdNext('guest.exec');
    await world.destroy(await world.create());
    await held.reached;
    await world.node.reserveMemory([1, 2].map(() => ({ sandboxId: newId('sandbox', world.chance), memoryMib: 1 })));
    await full(world, 0);
    await expectClean(world);
    held.letGo();
  });

  it('gives back the space of a vault that has none, and the work is done', async () => {
    await using world = await pooled(kind);
    const sandbox = await world.create();
    await full(world);
    world.faults.failNext('vault.requireRoom', new AppError('insufficient_space', 'it is full'));
    await world.snapshot(sandbox);
    await has(world, { members: 0, givenUp: 1 });
    await expectClean(world);
    // Nothing is left to give back: then it is told.
    world.faults.failNext('vault.createLife', new AppError('insufficient_space', 'it is full'));
    await expect(world.create()).rejects.toMatchObject({ code: 'insufficient_space' });
  });

  it('leaves a vault that runs short', async () => {
    await using world = await pooled(kind);
    await world.create();
    await full(world);
    world.vault.free = { totalBytes: 100 * 2 ** 30, availableBytes: 2 ** 20 };
    await full(world, 0);
  });

  it('gives each member to one create, however many come at once', async () => {
    await using world = await pooled(kind);
    const sandboxes = await Promise.all([1, 2, 3, 4].map(() => world.create()));
    const names = await Promise.all(sandboxes.map((one) => world.run(one, 'hostname')));
    expect(names).toEqual(sandboxes.map((one) => one.replace('_', '-')));
    // The one that was there, and such as were filled in before the last had asked.
    const { hits, misses } = await statusOf(world);
    expect(hits).toBeGreaterThanOrEqual(1);
    expect(hits + misses).toBe(4);
    // As many as were asked for.
    await full(world, 4);
    await Promise.all([1, 2, 3, 4].map(() => world.create()));
    await has(world, { hits: hits + 4, misses });
    await expectClean(world);
  });

  it('gives its members to their own kind only', async () => {
    await using world = await pooled(kind);
    const from = await world.ready();
    const order = { vault: DEFAULT_VAULT, sandboxId: newId('sandbox', world.chance), epoch: world.epoch(), from };
    const size = { vcpus: 1, memoryMib: 2, diskMib: 1 };
    await world.node.start({ ...order, template: 'base', generation: 1, size });
    expect(await statusOf(world)).toMatchObject({ hits: 0, misses: 0, members: 1 });
  });

  it('is not there when it may take nothing', async () => {
    await using world = await pooled(kind, undefined, { memoryMib: 0, quietMs: 1 });
    await world.create();
    await world.create();
    expect(await statusOf(world)).toMatchObject({ members: 0, hits: 0, misses: 2, fills: 0 });
  });

  it('forgets a member whose VMM dies, and one that fails as it is claimed', async () => {
    await using world = await pooled(kind);
    for (const vm of world.runtime.alive.values()) vm.die();
    await has(world, { fills: 2, members: 1 });
    await expectClean(world);
    for (const [step, asked] of [
      ['vm.run', 1],
      ['guest.assumeIdentity', 2],
    ] as const) {
      world.faults.failNext(step);
      const sandbox = await world.create();
      expect(await world.run(sandbox, 'hostname'), step).toBe(sandbox.replace('_', '-'));
      await full(world, asked);
      await expectClean(world, step);
    }
    expect(await statusOf(world)).toMatchObject({ hits: 0, misses: 2 });
  });

  it('ends a member that cannot be given away, and does not fill in vain', async () => {
    await using world = await pooled(kind);
    world.faults.failNext('guest.freeze');
    const sandbox = await world.create();
    await has(world, { failedFills: 1, members: 0, filling: 0 });
    await expectClean(world);
    await world.run(sandbox, 'true');
  });
});

// Over the link nobody knows when the delete has arrived.
describe.each(WORLD_KINDS.filter(({ reached }) => reached === 'itself'))('a claim, memory $memory', (kind) => {
  it('gives a create that was overtaken to nobody', async () => {
    await using world = await pooled(kind);
    const held = world.faults.holdNext('guest.assumeIdentity');
    const sandbox = newId('sandbox', world.chance);
    const creating = world.start(sandbox, await world.ready());
    await held.reached;
    const deleted = world.destroy(sandbox);
    held.letGo();
    await expect(creating).rejects.toMatchObject({ code: 'superseded' });
    await deleted;
    await full(world);
    await expectClean(world);
    await expect(world.node.inspect(DEFAULT_VAULT, sandbox)).rejects.toMatchObject({ code: 'not_found' });
  });
});

const STEPS_OF_A_CLAIM = ['vm.run', 'guest.assumeIdentity', 'vault.writeSandbox', 'guest.thaw'] as const;

describe.each(WORLD_KINDS)('the death of the daemon, memory $memory, reached $reached', (kind) => {
  it('at any step of a claim leaves a sandbox that runs, or none, and no member', async () => {
    for (const step of STEPS_OF_A_CLAIM) {
      await using world = await pooled(kind);
      const held = world.faults.holdNext(step);
      const sandbox = newId('sandbox', world.chance);
      world.start(sandbox, await world.ready()).catch(() => undefined);
      await held.reached;
      await world.die();
      const known = await world.node.inspect(DEFAULT_VAULT, sandbox).catch(() => null);
      expect(known?.real ?? 'absent', step).toBe(step === 'guest.thaw' ? 'running' : 'absent');
      await full(world);
      await expectClean(world, step);
      if (known !== null) expect(await world.run(sandbox, 'hostname'), step).toBe(sandbox.replace('_', '-'));
      expect(await other(world), step).toBeDefined();
    }
  });

  it('at any step of a fill leaves nothing of it', async () => {
    for (const step of [
      'vault.createLife',
      'runtime.restore',
      'vm.run',
      'guest.assumeIdentity',
      'guest.exec',
      'vm.stop',
    ]) {
      await using world = await makeWorld(kind, undefined, POOL);
      // The build takes all steps but two once.
      const skipped = step === 'runtime.restore' || step === 'vm.run' ? 0 : step === 'guest.exec' ? 3 : 1;
      for (let count = 0; count < skipped; count++) world.faults.holdNext(step).letGo();
      const held = world.faults.holdNext(step);
      await world.ready();
      await held.reached;
      await world.die();
      await full(world);
      await expectClean(world, step);
      expect(await other(world), step).toBeDefined();
    }
  });

  it('with members that wait leaves none of them', async () => {
    await using world = await pooled(kind);
    const before = [...world.runtime.alive.keys()];
    await world.die();
    await full(world);
    expect(world.runtime.alive.has(before[0] as (typeof before)[0])).toBe(false);
    await expectClean(world);
  });
});

async function other(world: World): Promise<SandboxId> {
  const sandbox = await world.create();
  await world.run(sandbox, 'true');
  return sandbox;
}
