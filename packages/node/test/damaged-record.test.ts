import { DEFAULT_VAULT } from '@space/core';
/** One record that cannot be read: its sandbox is neither served nor taken for gone, and nobody else notices. */
import { describe, expect, it } from 'vitest';
import { makeWorld, WORLD_KINDS } from './world.ts';

describe.each(WORLD_KINDS)('a record that cannot be read, memory $memory, reached $reached', (kind) => {
  it('sets its sandbox aside, untouched, and keeps no other from being served', async () => {
    await using world = await makeWorld(kind);
    const [spoilt, other] = [await world.create(), await world.create()];
    await world.run(other, 'set at one');
    const point = await world.snapshot(spoilt);
    const { storage } = world.vault;
    const file = world.vault.recordOf(spoilt);
    const record = storage.read(file);
    storage.write(file, record.subarray(0, record.length / 2));
    const before = await world.leftovers();
    await world.restart();

    expect(await world.run(other, 'get at')).toBe('one');
    expect((await world.node.inspectAll()).map(({ sandboxId }) => sandboxId)).toEqual([other]);
    const bad = { code: 'record_bad' };
    await expect(world.node.inspect(DEFAULT_VAULT, spoilt)).rejects.toMatchObject(bad);
    await expect(world.run(spoilt, 'get at')).rejects.toMatchObject(bad);
    await expect(world.start(spoilt, point)).rejects.toMatchObject(bad);
    await expect(world.rewind(spoilt, point)).rejects.toMatchObject(bad);
    expect(world.warnings.join()).toContain(spoilt);
    expect(await world.leftovers()).toEqual(before);

    storage.write(file, record);
    await world.restart();
    expect(await world.node.inspect(DEFAULT_VAULT, spoilt)).toMatchObject({ real: 'running' });
    await world.run(spoilt, 'get at');
  });

  it('can be got rid of, and what it leaves goes at the next start', async () => {
    await using world = await makeWorld(kind);
    const [spoilt, other] = [await world.create(), await world.create()];
    world.vault.storage.write(world.vault.recordOf(spoilt), '{');
    await world.restart();
    await world.destroy(spoilt);
    await expect(world.node.inspect(DEFAULT_VAULT, spoilt)).rejects.toMatchObject({ code: 'not_found' });
    await world.restart();
    const { life } = await world.node.inspect(DEFAULT_VAULT, other);
    expect(await world.leftovers()).toMatchObject({ lives: [life], alive: [life], staging: [] });
  });
});
