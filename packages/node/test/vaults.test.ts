/** Many vaults on one node: what is in one is reached while it is open, and lost to nobody while it is not. */
import { DEFAULT_VAULT, type NodeVault, newId, type SandboxId, type SnapshotId, type VaultName } from '@space/core';
import { describe, expect, it } from 'vitest';
import { makeWorld, WORLD_KINDS, type World } from './world.ts';

const OWN = 'org-one' as VaultName;
const SIZE_BYTES = 2 ** 30;
const SIZE = { vcpus: 1, memoryMib: 1 / 16, diskMib: 1 / 16 };
const KEY = 7;

/** Given away with each order. */
const key = (fill = KEY) => new Uint8Array(64).fill(fill);
const closed = { code: 'vault_closed' };

describe.each(WORLD_KINDS)('vaults of a node whose runtime keeps memory $memory, reached $reached', (kind) => {
  it('are made closed, opened by their key, and closed again', async () => {
    await using world = await makeWorld(kind);
    await make(world);
    expect(await view(world)).toMatchObject({ state: 'closed', encrypted: true, lives: 0, space: null });
    await expect(world.node.points(OWN)).rejects.toMatchObject(closed);
    await world.node.openVault({ vault: OWN, key: key() });
    expect(await view(world)).toMatchObject({ state: 'open', space: { availableBytes: expect.any(Number) } });
    expect(await world.node.points(OWN)).toEqual([]);
    await world.node.closeVault({ vault: OWN, endLives: false });
    await world.node.closeVault({ vault: OWN, endLives: false });
    expect(await view(world)).toMatchObject({ state: 'closed' });
    expect((await world.node.capabilities()).vaults.map(({ name }) => name)).toEqual([DEFAULT_VAULT]);
  });

  it('are told of with their space at each create, and nobody but them is asked; one that does not answer harms no other', async () => {
    await using world = await makeWorld({ ...kind, reached: 'itself' });
    await make(world);
    await world.node.openVault({ vault: OWN, key: key() });
    const lists = () => world.faults.steps.filter((step) => step === 'containers.list').length;
    const before = lists();
    const names = async () => (await world.node.capabilities()).vaults.map(({ name }) => name);
    expect(await names()).toEqual([DEFAULT_VAULT, OWN]);
    const own = world.containers.opened.get(OWN);
    if (own === undefined) throw new Error('it is open');
    own.space = () => Promise.reject(new Error('EIO'));
    expect(await names()).toEqual([DEFAULT_VAULT]);
    expect(lists()).toBe(before);
  });

  it('wipe the key that was given, also when it is the wrong one', async () => {
    await using world = await makeWorld({ ...kind, reached: 'itself' });
    const [first, right, wrong, last] = [key(), key(), key(8), key()];
    await world.node.createVault({ vault: OWN, sizeBytes: SIZE_BYTES, key: first, token: 'wrapped' });
    await expect(world.node.openVault({ vault: OWN, key: wrong })).rejects.toMatchObject({ code: 'vault_key_wrong' });
    await world.node.openVault({ vault: OWN, key: right });
    await world.node.keepVaultToken({ vault: OWN, key: last, token: 'wrapped' });
    for (const bytes of [first, right, wrong, last]) expect(bytes.every((byte) => byte === 0)).toBe(true);
  });

  it('keep another token in their headers, open or closed, for who has the key', async () => {
    await using world = await makeWorld(kind);
    await make(world);
    const keep = (bytes: Uint8Array, token: string) => world.node.keepVaultToken({ vault: OWN, key: bytes, token });
    await keep(key(), 'second');
    expect(world.containers.headerOf(OWN).token).toBe('second');
    await expect(keep(key(8), 'third')).rejects.toMatchObject({ code: 'vault_key_wrong' });
    await world.node.openVault({ vault: OWN, key: key() });
    await keep(key(), 'fourth');
    expect(world.containers.headerOf(OWN).token).toBe('fourth');
  });

  it('that is not there is not found, and one that is open is not removed', async () => {
    await using world = await makeWorld(kind);
    await expect(world.node.openVault({ vault: OWN, key: null })).rejects.toMatchObject({ code: 'not_found' });
    await make(world);
    await world.node.openVault({ vault: OWN, key: key() });
    await expect(world.node.removeVault(OWN)).rejects.toMatchObject({ code: 'vault_in_use' });
    await world.node.closeVault({ vault: OWN, endLives: false });
    await world.node.removeVault(OWN);
    expect(await view(world)).toBeUndefined();
  });

  it('are opened once by two who ask at one time', async () => {
    await using world = await makeWorld(kind);
    await make(world);
    const held = world.faults.holdNext('containers.open');
    const both = [1, 2].map(() => world.node.openVault({ vault: OWN, key: key() }));
    await held.reached;
    expect(await view(world)).toMatchObject({ state: 'opening' });
    held.letGo();
    await Promise.all(both);
    expect(world.faults.steps.filter((step) => step === 'containers.open')).toHaveLength(2);
  });

  it('can be opened after an opening that failed, at whatever step', async () => {
    for (const step of ['containers.open', 'vault.readManifest']) {
      await using world = await makeWorld(kind);
      const { sandbox, point } = await paused(world);
      await world.node.closeVault({ vault: OWN, endLives: false });
      world.faults.failNext(step);
      // What cannot be read now is left, and said.
      await world.node.openVault({ vault: OWN, key: key() }).catch(() => undefined);
      await world.node.openVault({ vault: OWN, key: key() });
      await start(world, sandbox, point);
      expect(await world.run(sandbox, 'get at')).toBe('one');
    }
  });

  it('keep what is in them over a close, apart from what is in others', async () => {
    await using world = await makeWorld(kind);
    const other = await world.create();
    await world.run(other, 'set at two');
    const { sandbox, point } = await paused(world);
    await world.node.closeVault({ vault: OWN, endLives: false });
    expect(await world.run(other, 'get at')).toBe('two');
    await world.node.openVault({ vault: OWN, key: key() });
    await start(world, sandbox, point);
    expect(await world.run(sandbox, 'get at')).toBe('one');
    expect(await world.node.points(DEFAULT_VAULT)).not.toContain(point);
  });

  it('while one is closed, whatever names it or lies in it is answered with vault_closed, and nothing is done', async () => {
    await using world = await makeWorld(kind);
    const { sandbox, point } = await paused(world);
    await world.node.closeVault({ vault: OWN, endLives: false });
    const order = { vault: OWN, sandboxId: sandbox };
    const next = () => ({ ...order, epoch: world.epoch() });
    const fresh = () => newId('snapshot', world.chance);
    const place = { location: 'default', projectId: newId('project', world.chance), template: 'base' };
    const { node } = world;
    const calls: readonly (() => Promise<unknown>)[] = [
      () => node.start({ ...next(), from: point, template: 'base', generation: 1, size: SIZE }),
      () => node.goOn(next()),
      () => node.snapshot({ ...next(), snapshotId: fresh() }),
      () => node.pause({ ...next(), snapshotId: fresh() }),
      () => node.rewind({ ...next(), to: point, keepAs: null, generation: 2 }),
      () => node.destroy({ ...next(), points: [point] }),
      () => node.ensureReady(OWN, 'base', SIZE),
      () => node.deletePoint(OWN, point),
      () => node.checkPoint(OWN, point),
      () => node.points(OWN),
      () => node.pointOwner(OWN, point),
      () => node.inspect(OWN, sandbox),
      () => Array.fromAsync(node.exportPoints({ ...order, ...place, points: [point], base: null })),
      () => node.processes(sandbox),
      () => node.stat(sandbox, { path: Buffer.from('/f') }),
    ];
    for (const [at, call] of calls.entries()) await expect(call(), `call ${at}`).rejects.toMatchObject(closed);
    expect(await node.usage(sandbox)).toBeNull();
    expect(await node.inspectAll()).toEqual([]);
    await node.openVault({ vault: OWN, key: key() });
    expect(await node.points(OWN)).toContain(point);
    expect(await node.inspect(OWN, sandbox)).toMatchObject({ real: 'paused', head: point });
  });

  it('refuse a late order also when they were closed and opened after a later one', async () => {
    await using world = await makeWorld(kind);
    const { sandbox, point } = await paused(world);
    const late = world.epoch();
    await start(world, sandbox, point);
    await world.node.pause({
      vault: OWN,
      sandboxId: sandbox,
      epoch: world.epoch(),
      snapshotId: newId('snapshot', world.chance),
    });
    await world.node.closeVault({ vault: OWN, endLives: false });
    await world.node.openVault({ vault: OWN, key: key() });
    const order = { vault: OWN, sandboxId: sandbox, from: point, template: 'base', generation: 1, size: SIZE };
    await expect(world.node.start({ ...order, epoch: late })).rejects.toMatchObject({ code: 'superseded' });
  });

  it('with a sandbox that runs is not closed, unless that is to be ended', async () => {
    await using world = await makeWorld(kind);
    const { sandbox, point } = await paused(world);
    await start(world, sandbox, point);
    const refused = world.node.closeVault({ vault: OWN, endLives: false });
    await expect(refused).rejects.toMatchObject({ code: 'vault_in_use', facts: { lives: 1 } });
    expect(await world.run(sandbox, 'get at')).toBe('one');
    await world.node.closeVault({ vault: OWN, endLives: true });
    expect(world.runtime.alive.size).toBe(0);
    await expect(world.node.processes(sandbox)).rejects.toMatchObject(closed);
    await world.node.openVault({ vault: OWN, key: key() });
    expect(await world.node.inspect(OWN, sandbox)).toMatchObject({ real: 'crashed' });
    await start(world, sandbox, point);
    expect(await world.run(sandbox, 'get at')).toBe('one');
  });

  it('that are to be closed in any case end what is being started, and what is being made ready', async () => {
    await using world = await makeWorld(kind);
    const { sandbox, point } = await paused(world);
    const held = world.faults.holdNext('guest.assumeIdentity');
    const started = start(world, sandbox, point);
    started.catch(() => undefined);
    await held.reached;
    // A real channel ends with its VM.
    const alive = () => [...world.runtime.alive.values()];
    expect(alive()).toHaveLength(1);
    const closing = world.node.closeVault({ vault: OWN, endLives: true });
    await expect.poll(alive, { timeout: 5_000, interval: 5 }).toEqual([]);
    held.letGo();
    await expect(started).rejects.toMatchObject(closed);
    await closing;
    expect(await view(world)).toMatchObject({ state: 'closed' });
    await world.node.openVault({ vault: OWN, key: key() });
    const other = { ...SIZE, vcpus: 2 };
    const waits = world.faults.holdNext('guest.freeze');
    const built = world.node.ensureReady(OWN, 'base', other);
    built.catch(() => undefined);
    await waits.reached;
    const again = world.node.closeVault({ vault: OWN, endLives: true });
    await expect.poll(alive, { timeout: 5_000, interval: 5 }).toEqual([]);
    waits.letGo();
    await expect(built).rejects.toMatchObject(closed);
    await again;
    await world.node.openVault({ vault: OWN, key: key() });
    await start(world, sandbox, point);
    expect(await world.run(sandbox, 'get at')).toBe('one');
    await world.node.ensureReady(OWN, 'base', other);
  });

  it('are closed after what is under way in them', async () => {
    await using world = await makeWorld(kind);
    const { sandbox } = await paused(world);
    const other = await createIn(world);
    const held = world.faults.holdNext('vault.deletePoint');
    const removed = world.node.deletePoint(OWN, newId('snapshot', world.chance));
    await held.reached;
    await pauseIn(world, other);
    const closing = world.node.closeVault({ vault: OWN, endLives: false });
    await until(async () => (await view(world))?.state === 'closing');
    await expect(world.node.inspect(OWN, sandbox)).rejects.toMatchObject(closed);
    expect(world.faults.steps).not.toContain('vault.close');
    held.letGo();
    await removed;
    await closing;
    expect(await view(world)).toMatchObject({ state: 'closed' });
  });

  it('that cannot be unmounted is used by nobody, and can be closed again, or opened', async () => {
    await using world = await makeWorld(kind);
    const { sandbox, point } = await paused(world);
    for (const again of ['close', 'open'] as const) {
      world.faults.failNext('vault.close');
      await expect(world.node.closeVault({ vault: OWN, endLives: false })).rejects.toThrow();
      expect(await view(world)).toMatchObject({ state: 'closing' });
      await expect(world.node.points(OWN)).rejects.toMatchObject(closed);
      if (again === 'close') await world.node.closeVault({ vault: OWN, endLives: false });
      await world.node.openVault({ vault: OWN, key: key() });
    }
    await start(world, sandbox, point);
    expect(await world.run(sandbox, 'get at')).toBe('one');
  });

  it('that were open when the node died are taken up with what runs in them, and closed ones stay closed', async () => {
    await using world = await makeWorld(kind);
    const { sandbox, point } = await paused(world);
    await start(world, sandbox, point);
    await world.run(sandbox, 'set at two');
    const shut = 'org-two' as VaultName;
    await world.node.createVault({ vault: shut, sizeBytes: SIZE_BYTES, key: null, token: null });
    for (const again of [() => world.restart(), () => world.die()]) {
      await again();
      expect(await world.run(sandbox, 'get at')).toBe('two');
      expect(await view(world, shut)).toMatchObject({ state: 'closed' });
      expect(await world.node.inspect(OWN, sandbox)).toMatchObject({ real: 'running' });
    }
    await pauseIn(world, sandbox);
    await world.node.closeVault({ vault: OWN, endLives: false });
    await world.restart();
    expect(await view(world)).toMatchObject({ state: 'closed' });
    expect(await world.node.inspectAll()).toEqual([]);
    await world.node.openVault({ vault: OWN, key: key() });
    expect(await world.node.inspect(OWN, sandbox)).toMatchObject({ real: 'paused' });
  });

  it('one that cannot be taken up keeps no other from being so, and what runs in it is left alone', async () => {
    await using world = await makeWorld(kind);
    const other = await world.create();
    const { sandbox, point } = await paused(world);
    await start(world, sandbox, point);
    // `default` is listed first.
    world.faults.holdNext('containers.open').letGo();
    world.faults.failNext('containers.open');
    await world.restart();
    expect(await world.run(other, 'hostname')).toBe(other.replace('_', '-'));
    expect(world.runtime.alive.size).toBe(2);
    await expect(world.node.inspect(OWN, sandbox)).rejects.toMatchObject(closed);
    expect(world.warnings.join()).toContain(OWN);
    await world.node.openVault({ vault: OWN, key: null });
    expect(await world.run(sandbox, 'get at')).toBe('one');
  });

  it('tell nobody which builds of the VMM are not needed while one is closed', async () => {
    await using world = await makeWorld(kind);
    expect(world.neededBuilds()).not.toBeNull();
    await make(world);
    expect(world.neededBuilds()).toBeNull();
  });
});

it('a pool keeps nothing of a vault that is closed, and fills none for one that nobody asks', async () => {
  await using world = await makeWorld({ memory: 'in_place', reached: 'itself' }, 100_000, {
    memoryMib: 1_000,
    quietMs: 1,
  });
  await make(world);
  await world.node.openVault({ vault: OWN, key: key() });
  const sandbox = await createIn(world);
  await until(async () => (await world.node.capabilities()).pool.members > 0);
  await pauseIn(world, sandbox);
  await world.node.closeVault({ vault: OWN, endLives: false });
  const { pool } = await world.node.capabilities();
  expect([pool.members, pool.filling]).toEqual([0, 0]);
  expect(world.runtime.alive.size).toBe(0);
});

async function make(world: World): Promise<void> {
  await world.node.createVault({ vault: OWN, sizeBytes: SIZE_BYTES, key: key(), token: 'wrapped' });
}

async function view(world: World, vault = OWN): Promise<NodeVault | undefined> {
  return (await world.node.vaults()).find((one) => one.vault === vault);
}

async function createIn(world: World): Promise<SandboxId> {
  const sandboxId = newId('sandbox', world.chance);
  await start(world, sandboxId, await world.node.ensureReady(OWN, 'base', SIZE));
  return sandboxId;
}

async function start(world: World, sandboxId: SandboxId, from: SnapshotId): Promise<void> {
  const order = { vault: OWN, sandboxId, epoch: world.epoch(), from };
  await world.node.start({ ...order, template: 'base', generation: 1, size: SIZE });
}

async function pauseIn(world: World, sandboxId: SandboxId): Promise<SnapshotId> {
  const snapshotId = newId('snapshot', world.chance);
  await world.node.pause({ vault: OWN, sandboxId, epoch: world.epoch(), snapshotId });
  return snapshotId;
}

/** A sandbox in the vault `OWN`, which is open, that holds "one" and is paused at the point. */
async function paused(world: World): Promise<{ readonly sandbox: SandboxId; readonly point: SnapshotId }> {
  await make(world);
  await world.node.openVault({ vault: OWN, key: key() });
  const sandbox = await createIn(world);
  await world.run(sandbox, 'set at one');
  return { sandbox, point: await pauseIn(world, sandbox) };
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  await expect.poll(isSo, { timeout: 5_000, interval: 10 }).toBe(true);
}
