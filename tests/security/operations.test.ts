/** Operations over HTTP: a call that is answered before it has ended, and polled. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { World } from './world.ts';

const ASYNC = { prefer: 'respond-async' };

it('answers with the operation once it has begun, and tells its end to who polls', async () => {
  await using world = await World.start();
  const key = world.operatorKey;
  const held = world.node.faults.holdNext('start');
  const accepted = await world.call(key, 'POST', '/v1/sandboxes', { name: 'one' }, ASYNC);
  expect(accepted.status).toBe(202);
  expect(accepted.headers.get('preference-applied')).toBe('respond-async');
  const operation = JSON.parse(accepted.text);
  expect(operation).toMatchObject({ kind: 'create', state: 'running', endedAt: null, error: null });
  expect(operation.requestId).toBe(accepted.headers.get('x-request-id'));
  const path = accepted.headers.get('location') ?? '';
  expect(path).toBe(`/v1/operations/${operation.id}`);
  expect((await world.ask(key, 'GET', `${path}?wait=0`)).state).toBe('running');
  const end = world.ask(key, 'GET', `${path}?wait=30`);
  await held.reached;
  held.letGo();
  expect(await end).toMatchObject({ id: operation.id, state: 'succeeded', error: null });
  expect((await world.ask(key, 'GET', '/v1/sandboxes/one')).id).toBe(operation.sandboxId);
});

it.each(['pause', 'resume', 'rewind', 'snapshots', 'fork'])('does so for %s', async (verb) => {
  await using world = await World.start();
  const key = world.operatorKey;
  await world.ask(key, 'POST', '/v1/sandboxes', { name: 'one' });
  await world.ask(key, 'POST', '/v1/sandboxes/one/snapshots', { name: 'point' });
  if (verb === 'resume') await world.ask(key, 'POST', '/v1/sandboxes/one/pause', {});
  const body = verb === 'rewind' ? { to: 'point' } : {};
  const accepted = await world.call(key, 'POST', `/v1/sandboxes/one/${verb}`, body, ASYNC);
  expect(accepted.status).toBe(202);
  const path = accepted.headers.get('location');
  const end = await world.ask(key, 'GET', `${path}?wait=30`);
  expect(end.state).toBe('succeeded');
  // How long the microVM took that it started, if it started one.
  const starts = verb === 'resume' || verb === 'rewind';
  expect(end.timings).toEqual(starts ? { runningMs: expect.any(Number), readyMs: expect.any(Number) } : null);
  if (verb !== 'fork') return;
  const { requestId } = JSON.parse(accepted.text);
  for (;;) {
    const { operations } = await world.ask(key, 'GET', `/v1/operations?request=${requestId}`);
    if (operations.some((one: { kind: string; state: string }) => one.kind === 'create' && one.state === 'succeeded'))
      break;
    await sleep(5);
  }
});

it('answers at once, as without it, what begins no operation', async () => {
  await using world = await World.start();
  const key = world.operatorKey;
  await world.ask(key, 'POST', '/v1/sandboxes', { name: 'one' });
  expect((await world.call(key, 'POST', '/v1/sandboxes/one/resume', {}, ASYNC)).status).toBe(200);
  expect((await world.call(key, 'POST', '/v1/sandboxes', { name: 'one' }, ASYNC)).status).toBe(409);
  expect((await world.call(key, 'POST', '/v1/sandboxes/never/pause', {}, ASYNC)).status).toBe(404);
});

it('tells a failure by its code', async () => {
  await using world = await World.start();
  world.node.faults.failNext('start');
  const accepted = await world.call(world.operatorKey, 'POST', '/v1/sandboxes', {}, ASYNC);
  const end = await world.ask(world.operatorKey, 'GET', `${accepted.headers.get('location')}?wait=30`);
  expect(end).toMatchObject({ state: 'failed', error: { code: 'internal', retry: 'later' } });
});

it.each(['?wait=61', '?wait=-1', '?wait=x', '?wait=1&wait=2'])('refuses %s', async (query) => {
  await using world = await World.start();
  const path = `/v1/operations/opn_0123456789abcdef${query}`;
  expect((await world.call(world.operatorKey, 'GET', path)).status).toBe(400);
});
