/** The token that reaches into one sandbox, and what a use may wake. */
import { DEFAULT_ORGANISATION, DEFAULT_PROJECT } from '@space/core';
import { expect, it } from 'vitest';
import { isToken } from '../src/access.ts';
import { createApiKey, identify } from '../src/api-keys.ts';
import { World } from './test-world.ts';

async function keyed(world: World) {
  const ports = { records: world.records, chance: world.chance, clock: { now: () => 0, monotonicMs: () => 0 } };
  const { id, secretKey } = await createApiKey(ports);
  const identity = await identify(world.records, secretKey, undefined);
  if (identity === null) throw new Error('the key is good');
  return { id, caller: { ...identity, requestId: 'req', signal: new AbortController().signal } };
}

it('a sandbox has one token, of the key that asked for it last, and only while that is good', async () => {
  const world = new World();
  const [one, two] = [await keyed(world), await keyed(world)];
  const { id } = await world.create();
  expect(await world.control.reach(id)).toMatchObject({ token: null });
  const token = await world.control.tokenFor(one.caller, id);
  const actor = async () => (await world.control.reach(id))?.identity?.principal.apiKeyId;
  expect(await actor()).toBe(one.id);
  expect(await world.control.tokenFor(one.caller, id)).toBe(token);
  // Or else who has lost the first key would be let in by whoever comes with another.
  const next = await world.control.tokenFor(two.caller, id);
  expect(next).not.toBe(token);
  expect(await world.control.reach(id)).toMatchObject({ token: next });
  expect(await actor()).toBe(two.id);
  await world.records.tenants.revokeApiKey(DEFAULT_ORGANISATION, two.id, new Date());
  expect(await world.control.reach(id)).toMatchObject({ identity: null });
  expect(isToken(token, token)).toBe(true);
  expect(isToken(`${token}x`, token)).toBe(false);
});

it('a copy has no token of its source, and a deleted sandbox none', async () => {
  const world = new World();
  const { caller } = await keyed(world);
  const { id } = await world.create();
  const token = await world.control.tokenFor(caller, id);
  const [copy] = await world.fork(id);
  if (copy === undefined || 'error' in copy) throw new Error('it was forked');
  expect(await world.control.reach(copy.sandbox.id)).toMatchObject({ token: null });
  expect(await world.control.tokenFor(caller, copy.sandbox.id)).not.toBe(token);
  await world.remove(id);
  expect(await world.control.reach(id)).toBeNull();
  await expect(world.control.tokenFor(caller, id)).rejects.toMatchObject({ code: 'not_found' });
});

it('a token is given to nobody who may not use sandboxes', async () => {
  const world = new World();
  const { caller } = await keyed(world);
  const { id } = await world.create();
  const viewer = { principal: { ...caller.principal, roles: ['viewer' as const] }, projectId: DEFAULT_PROJECT };
  await expect(world.control.tokenFor(viewer, id)).rejects.toMatchObject({ code: 'forbidden' });
});

it('a use wakes no sandbox that says so, and a resume does', async () => {
  const world = new World();
  const { id } = await world.create({ runs: { limitMs: null, atLimit: 'pause', wakeOnUse: false } });
  await world.pause(id);
  expect(await world.control.reach(id)).toMatchObject({ status: 'paused', asleep: true });
  await expect(world.exec(id, 'increment')).rejects.toMatchObject({ code: 'wrong_state', facts: { asleep: true } });
  expect((await world.get(id)).status).toBe('paused');
  await world.resume(id);
  expect(await world.exec(id, 'increment')).not.toBe('');
});

it('public ports are asked for by nobody, and only where the sandbox says so', async () => {
  const world = new World();
  const { signal } = new AbortController();
  const [open, shut] = [await world.create({ publicPorts: true }), await world.create()];
  expect(await world.control.openPublic({ sandboxId: open.id, port: 80 })).not.toBeNull();
  expect(await world.control.openPublic({ sandboxId: shut.id, port: 80 })).toBeNull();
  const reach = await world.control.reach(shut.id);
  await expect(reach?.connectPublic(80, signal)).rejects.toMatchObject({ code: 'not_found' });
});
