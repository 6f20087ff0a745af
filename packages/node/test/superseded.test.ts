/** What an upgrade of a template leaves behind: its earlier image, and the ready snapshots that were booted from it. */
import { AppError, DEFAULT_VAULT } from '@space/core';
import { describe, expect, it } from 'vitest';
import { makeWorld, WORLD_KINDS } from './world.ts';

const EARLIER = 'base-digest';
const PRESENT = 'another-digest';

describe.each(WORLD_KINDS)('after an upgrade of a template, memory $memory, reached $reached', (kind) => {
  it('what came from the earlier image goes, and every sandbox lives on', async () => {
    await using world = await makeWorld(kind);
    const [running, paused] = [await world.create(), await world.create()];
    const earlier = await world.ready();
    await world.run(running, 'mark kept');
    const point = await world.snapshot(running);
    await world.pause(paused);
    expect(await world.vault.images()).toEqual([EARLIER]);
    await world.restart(undefined, undefined, PRESENT);
    expect(await world.vault.images()).toEqual([]);
    expect(await world.vault.points()).not.toContain(earlier);
    expect(await world.vault.points()).toContain(point);
    expect(world.warnings).toEqual([]);
    expect(await world.run(running, 'marks')).toContain('kept');
    await world.rewind(running, point);
    expect(await world.run(running, 'marks')).toContain('kept');
    const { head } = await world.node.inspect(DEFAULT_VAULT, paused);
    if (head === null) throw new Error('it is paused nowhere');
    await world.start(paused, head);
    await world.create();
    expect(await world.vault.images()).toEqual([PRESENT]);
  });

  it('what cannot be removed keeps nothing else from it, is told, and goes at the next start', async () => {
    await using world = await makeWorld(kind);
    const earlier = await world.ready();
    await world.vault.importImage('of-nobody', import.meta.filename);
    world.faults.failNext('vault.deletePoint', new AppError('internal', 'injected'));
    world.faults.failNext('vault.deleteImage', new AppError('internal', 'injected'));
    await world.restart(undefined, undefined, PRESENT);
    expect(world.warnings).toHaveLength(2);
    expect(await world.vault.points()).toContain(earlier);
    expect(await world.vault.images()).toHaveLength(1);
    await world.create();
    await world.restart(undefined, undefined, PRESENT);
    expect(await world.vault.images()).toEqual([PRESENT]);
    expect(await world.vault.points()).not.toContain(earlier);
  });

  it('says which builds of the VMM its snapshots and running VMs need, or that it does not know', async () => {
    await using world = await makeWorld(kind);
    const [running, paused] = [await world.create(), await world.create()];
    await world.pause(paused);
    await world.restart('fake-2', ['fake-1']);
    expect(world.neededBuilds()).toEqual(['fake-2', 'fake-1']);
    await world.destroy(running);
    const { head } = await world.node.inspect(DEFAULT_VAULT, paused);
    if (head === null) throw new Error('it is paused nowhere');
    await world.destroy(paused, [head]);
    await world.restart('fake-2', ['fake-1']);
    expect(world.neededBuilds()).toEqual(['fake-2']);
  });
});
