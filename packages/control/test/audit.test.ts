/** A call is in the audit before it does anything, so that none is lost with the process that carries it out. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { World } from './test-world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});
afterEach(() => world.control.close());

const recorded = async () =>
  (await world.control.listAudit(world.caller(), { limit: 100 })).records
    .map(({ call, outcome }) => `${call} ${outcome}`)
    // Two can be of one instant, and then have no order.
    .toSorted();

/** Something that is written and has no end yet. */
async function* endless(begun: () => void) {
  yield Buffer.from('part');
  begun();
  await new Promise(() => undefined);
}

it('a call that dies with its process is there, and its outcome unknown', async () => {
  const { id } = await world.create();
  const writing = Promise.withResolvers<void>();
  const body = endless(writing.resolve);
  world.control.writeFile(world.caller(), { id, path: '/a' }, body).catch(() => undefined);
  await writing.promise;
  expect(await recorded()).toEqual(['createSandbox ok', 'writeFile running']);
  await sleep(2);
  await world.newControl().start();
  expect(await recorded()).toEqual(['createSandbox ok', 'writeFile unknown']);
});

it('a call that works on is not taken for one that was left', async () => {
  const { id } = await world.create();
  const [writing, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  async function* body() {
    writing.resolve();
    await mayEnd.promise;
    yield Buffer.from('all');
  }
  const written = world.control.writeFile(world.caller(), { id, path: '/a' }, body());
  await writing.promise;
  await sleep(2);
  await world.control.start();
  expect(await recorded()).toEqual(['createSandbox ok', 'writeFile running']);
  mayEnd.resolve();
  await written;
  expect(await recorded()).toEqual(['createSandbox ok', 'writeFile ok']);
});

it('a call that cannot be recorded does nothing', async () => {
  const { id } = await world.create();
  const calls = {
    createKey: () => world.control.createKey(world.caller(), { roles: ['viewer'] }),
    exec: () => world.exec(id, 'increment'),
    makeDirectory: () => world.control.makeDirectory(world.caller(), { id, path: '/d' }),
  };
  for (const call of Object.values(calls)) {
    world.records.failing = new Error('no space left on the disk of the database');
    await expect(call()).rejects.toThrow('no space left');
    world.records.failing = false;
  }
  expect(await world.exec(id, 'read')).toBe('0');
  await expect(world.control.statFile(world.caller(), { id, path: '/d' })).rejects.toMatchObject({
    code: 'file_not_found',
  });
  expect((await world.control.listKeys(world.caller(), { limit: 10 })).keys).toEqual([]);
});
