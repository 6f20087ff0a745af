import { DEFAULT_VAULT, newId, type SandboxId, type SnapshotId } from '@space/core';
import { describe, expect, it } from 'vitest';
import { makeWorld, WORLD_KINDS, type World } from './world.ts';

describe.each(WORLD_KINDS)('a node whose runtime keeps memory $memory, reached $reached', (kind) => {
  it('creates a sandbox as a copy of the ready snapshot, under its own name', async () => {
    await using world = await makeWorld(kind);
    const [a, b] = [await world.create(), await world.create()];
    expect(await world.run(a, 'hostname')).toBe(a.replace('_', '-'));
    expect(await world.run(b, 'hostname')).toBe(b.replace('_', '-'));
    expect(world.faults.steps.filter((step) => step === 'runtime.boot')).toHaveLength(1);
  });

  it('brings memory and disk back after a pause, any number of times', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    for (let cycle = 0; cycle < 20; cycle++) {
      await world.run(sandbox, `set cycle ${cycle}`);
      await write(world, sandbox, '/f', `file ${cycle}`);
      const point = await world.pause(sandbox);
      expect((await world.leftovers()).alive).toEqual([]);
      expect((await world.node.inspect(DEFAULT_VAULT, sandbox)).real).toBe('paused');
      const refused = world.node.processes(sandbox);
      await expect(refused).rejects.toMatchObject({ code: 'wrong_state', facts: { paused: true } });
      await world.start(sandbox, point);
      expect(await world.run(sandbox, 'get cycle')).toBe(`${cycle}`);
      expect(await read(world, sandbox, '/f')).toBe(`file ${cycle}`);
    }
  });

  it('a pause that keeps files alone has the guest write them out, and the next start boots', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    await world.run(sandbox, 'set in memory');
    await write(world, sandbox, '/f', 'kept');
    const point = await world.pause(sandbox, 'disk');
    expect((await world.leftovers()).alive).toEqual([]);
    expect((await world.node.inspect(DEFAULT_VAULT, sandbox)).real).toBe('paused');
    expect(await world.node.pointOwner(DEFAULT_VAULT, point)).toBe(sandbox);
    await world.start(sandbox, point);
    expect(await world.run(sandbox, 'get in')).toBe('');
    expect(await read(world, sandbox, '/f')).toBe('kept');
  });

  it('forks are apart from each other, from the source, and from the deletion of either', async () => {
    await using world = await makeWorld(kind);
    const source = await world.create();
    await world.run(source, 'set who source');
    const point = await world.snapshot(source);
    const children = await Promise.all([1, 2, 3].map(() => fork(world, point)));
    for (const [index, child] of children.entries()) await world.run(child, `set who child${index}`);
    expect(await world.run(source, 'get who')).toBe('source');
    await world.destroy(source, [point]);
    for (const [index, child] of children.entries()) {
      await world.start(child, await world.pause(child));
      expect(await world.run(child, 'get who')).toBe(`child${index}`);
    }
  });

  it('takes no point that would pass its budget, and lets the guest go on', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    const snapshotId = newId('snapshot', world.chance);
    const order = { vault: DEFAULT_VAULT, sandboxId: sandbox, epoch: world.epoch(), snapshotId };
    await expect(world.node.snapshot({ ...order, budgetMs: 0 })).rejects.toMatchObject({ code: 'over_budget' });
    expect(await world.node.points(DEFAULT_VAULT)).not.toContain(snapshotId);
    expect((await world.leftovers()).staging).toEqual([]);
    await world.run(sandbox, 'set on 1');
    await world.node.snapshot({ ...order, epoch: world.epoch(), budgetMs: 60_000 });
    expect(await world.node.pointOwner(DEFAULT_VAULT, snapshotId)).toBe(sandbox);
    expect(await world.run(sandbox, 'get on')).toBe('1');
  });

  it('says what a running sandbox has rewritten since its last point', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    await write(world, sandbox, '/f', 'x'.repeat(5_000));
    const before = await world.node.changed(sandbox);
    const point = await world.snapshot(sandbox);
    expect(await world.node.changed(sandbox)).toEqual({ diskBytes: 0, memoryBytes: 0 });
    expect(before?.diskBytes).toBeGreaterThan(0);
    await world.pause(sandbox);
    expect(await world.node.changed(sandbox)).toBeNull();
    expect(await world.node.points(DEFAULT_VAULT)).toContain(point);
  });

  it('rewinds in place, and the rewind can be undone', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    await world.run(sandbox, 'set at one');
    const one = await world.snapshot(sandbox);
    await world.run(sandbox, 'set at two');
    const kept = await world.rewind(sandbox, one);
    expect(await world.run(sandbox, 'get at')).toBe('one');
    expect((await world.leftovers()).alive).toHaveLength(1);
    if (kept === null) throw new Error('the present was not kept');
    await world.rewind(sandbox, kept, 3);
    expect(await world.run(sandbox, 'get at')).toBe('two');
  });

  it('takes a point of the disk alone while the guest runs, its agent unasked; what starts from it boots', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    await world.run(sandbox, 'set at one');
    await write(world, sandbox, '/f', 'then');
    const before = world.faults.steps.length;
    const point = await world.snapshot(sandbox, 'disk');
    const steps = world.faults.steps.slice(before);
    expect(steps.filter((step) => /^(guest|vm)\./.test(step))).toEqual([]);
    expect(await world.run(sandbox, 'get at')).toBe('one');
    await write(world, sandbox, '/f', 'late');
    const fork = newId('sandbox', world.chance);
    await world.start(fork, point);
    expect([await read(world, fork, '/f'), await world.run(fork, 'get at')]).toEqual(['then', '']);
    const kept = await world.rewind(sandbox, point);
    expect([await read(world, sandbox, '/f'), await world.run(sandbox, 'get at')]).toEqual(['then', '']);
    if (kept === null) throw new Error('the present was not kept');
    await world.rewind(sandbox, kept, 3);
    expect([await read(world, sandbox, '/f'), await world.run(sandbox, 'get at')]).toEqual(['late', 'one']);
    // It needs nothing of the VMM that ran when it was taken.
    await world.restart('fake-2');
    await world.start(newId('sandbox', world.chance), point);
  });

  it('says that a VM was lost, and starts again from a point or from the disk', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    const ends: string[] = [];
    world.node.onLifeEnded((end) => ends.push(end.sandboxId));
    await world.run(sandbox, 'set at one');
    await write(world, sandbox, '/f', 'on disk');
    vmOf(world).die();
    await expect(world.run(sandbox, 'get at')).rejects.toMatchObject({ code: 'vm_lost' });
    await expect.poll(() => ends).toEqual([sandbox]);
    expect((await world.node.inspect(DEFAULT_VAULT, sandbox)).real).toBe('crashed');
    await world.start(sandbox, 'crashed', 2);
    expect(await read(world, sandbox, '/f')).toBe('on disk');
    expect(await world.run(sandbox, 'get at')).toBe('');
    expect((await world.leftovers()).lives).toHaveLength(1);
  });

  it('refuses an order whose epoch was overtaken, and a delete overtakes what is under way', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    const held = world.faults.holdNext('vault.flush');
    const snapshot = world.snapshot(sandbox);
    await held.reached;
    const deleted = world.destroy(sandbox);
    // Over the link it has arrived before a call that was made after it is answered.
    await world.node.points(DEFAULT_VAULT);
    held.letGo();
    await expect(snapshot).rejects.toMatchObject({ code: 'superseded' });
    await deleted;
    expect(await world.leftovers()).toEqual({ lives: [], staging: [], alive: [] });
    await expect(world.node.inspect(DEFAULT_VAULT, sandbox)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('leaves nothing of a snapshot whose VM dies while it stands still', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    const before = await world.node.points(DEFAULT_VAULT);
    const held = world.faults.holdNext('vault.seal');
    const snapshot = world.snapshot(sandbox);
    await held.reached;
    for (const vm of world.runtime.alive.values()) vm.die();
    held.letGo();
    await expect(snapshot).rejects.toMatchObject({ code: 'vm_lost' });
    expect((await world.leftovers()).staging).toEqual([]);
    expect(await world.node.points(DEFAULT_VAULT)).toEqual(before);
  });

  it('never revives a deleted sandbox by an order that comes late', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    const lateEpoch = world.epoch();
    const from = await world.snapshot(await world.create());
    await world.destroy(sandbox);
    const late = { vault: DEFAULT_VAULT, sandboxId: sandbox, epoch: lateEpoch, from, generation: 1 };
    await expect(
      world.node.start({ ...late, template: 'base', size: { vcpus: 1, memoryMib: 1, diskMib: 1 } }),
    ).rejects.toMatchObject({ code: 'superseded' });
  });

  it('refuses a point that another machine took, by what is missing, and loses nothing', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    await world.run(sandbox, 'set at one');
    const point = await world.pause(sandbox);
    await world.restart('fake-2');
    await expect(world.start(sandbox, point)).rejects.toMatchObject({
      code: 'snapshot_unfit',
      message: expect.stringContaining('vmmBuild'),
    });
    await world.restart('fake-1');
    await world.start(sandbox, point);
    expect(await world.run(sandbox, 'get at')).toBe('one');
  });

  it('keeps each sandbox on the build that its memory needs, over restarts, and makes new ones on the present one', async () => {
    await using world = await makeWorld(kind);
    const buildOf = async (snapshotId: SnapshotId) =>
      (await world.vault.readPoint(snapshotId)).manifest.machine.vmmBuild;
    const running = await world.create();
    const paused = await world.create();
    const point = await world.pause(paused);
    for (let restarts = 0; restarts < 2; restarts++) {
      await world.restart('fake-2', ['fake-0', 'fake-1']);
      expect(await buildOf(await world.snapshot(running))).toBe('fake-1');
    }
    await world.start(paused, point);
    expect(await buildOf(await world.pause(paused))).toBe('fake-1');
    expect(await buildOf(await world.snapshot(await world.create()))).toBe('fake-2');
  });

  it('starts a command that comes while processes are frozen once they are thawed', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    const vm = vmOf(world);
    vm.state.frozen = true;
    const output = world.run(sandbox, 'hostname');
    setTimeout(() => {
      vm.state.frozen = false;
    }, 60);
    expect(await output).toBe(sandbox.replace('_', '-'));
  });

  it('says what is real once the order that is under way has ended', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    const held = world.faults.holdNext('vault.flush');
    const pause = world.pause(sandbox);
    await held.reached;
    let answered = false;
    const inspected = world.node.inspect(DEFAULT_VAULT, sandbox).finally(() => {
      answered = true;
    });
    expect((await world.node.inspectAll()).map(({ real }) => real)).toEqual(['running']);
    expect(answered).toBe(false);
    held.letGo();
    const point = await pause;
    expect(await inspected).toMatchObject({ real: 'paused', head: point });
  });

  it('promises no memory that it does not have', async () => {
    await using world = await makeWorld(kind, 100);
    const first = await world.create();
    await world.create();
    await expect(world.create()).rejects.toMatchObject({ code: 'insufficient_memory' });
    await world.pause(first);
    await world.create();
  });

  it('reserves memory for several that are to be started, all or none, until they are or it is given back', async () => {
    await using world = await makeWorld(kind, 200);
    const source = await world.create();
    const point = await world.snapshot(source);
    const claims = () => Array.from({ length: 2 }, () => ({ sandboxId: newId('sandbox', world.chance), memoryMib: 1 }));
    const [copy, other] = claims();
    if (copy === undefined || other === undefined) throw new Error('two were asked for');
    await world.node.reserveMemory([copy, other]);
    // One more life would fit, but not two.
    await expect(world.node.reserveMemory(claims())).rejects.toMatchObject({ code: 'insufficient_memory' });
    await world.create();
    await expect(world.create()).rejects.toMatchObject({ code: 'insufficient_memory' });
    await world.start(copy.sandboxId, point, 1);
    await world.node.releaseMemory([copy.sandboxId, other.sandboxId]);
    await world.create();
    await expect(world.create()).rejects.toMatchObject({ code: 'insufficient_memory' });
  });

  it('says what a life takes without a word to its guest, and of a paused sandbox that there is nothing', async () => {
    await using world = await makeWorld(kind);
    const sandbox = await world.create();
    const usage = await world.node.usage(sandbox);
    expect(usage).toMatchObject({ lifeId: (await world.node.inspect(DEFAULT_VAULT, sandbox)).life });
    expect(usage?.memoryBytes).toBeGreaterThan(0);
    expect(usage?.diskBytes).toBeGreaterThan(0);
    await world.pause(sandbox);
    expect(await world.node.usage(sandbox)).toBeNull();
    expect((await world.node.inspect(DEFAULT_VAULT, sandbox)).real).toBe('paused');
    expect(await world.node.usage(newId('sandbox', world.chance))).toBeNull();
  });
});

async function fork(world: World, point: Awaited<ReturnType<World['snapshot']>>): Promise<SandboxId> {
  const child = newId('sandbox', world.chance);
  await world.start(child, point);
  return child;
}

async function write(world: World, sandbox: SandboxId, path: string, text: string): Promise<void> {
  await world.node.writeFile(
    sandbox,
    { path },
    (async function* () {
      yield Buffer.from(text);
    })(),
  );
}

async function read(world: World, sandbox: SandboxId, path: string): Promise<string> {
  const { body } = await world.node.readFile(sandbox, { path });
  return Buffer.concat(await Array.fromAsync(body)).toString();
}

function vmOf(world: World) {
  const [vm] = world.runtime.alive.values();
  if (vm === undefined) throw new Error('no VM is alive');
  return vm;
}
