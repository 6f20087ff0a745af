/** Limits over HTTP: who runs the installation sets them, and who is limited is told which and by how much. */
import { expect, it } from 'vitest';
import { World } from './world.ts';

it('are set by who runs the installation, seen by the organisation, and told when they are reached', async () => {
  await using world = await World.start();
  const { organisation, key } = await world.ask(world.operatorKey, 'POST', '/v1/organisations', { name: 'acme' });
  const path = `/v1/organisations/${organisation.id}/limits`;
  const set = await world.ask(world.operatorKey, 'PUT', path, { running: 2, memoryMib: 1024 });
  expect(set.limits).toEqual({ sandboxes: null, running: 2, snapshots: null, memoryMib: 1024 });
  const tenant = key.secretKey;
  expect((await world.call(tenant, 'PUT', path, { running: null })).status).toBe(403);
  await world.ask(tenant, 'POST', '/v1/sandboxes', { name: 'one' });
  const fork = await world.call(tenant, 'POST', '/v1/sandboxes/one/fork', { count: 2 });
  expect(fork.status).toBe(409);
  expect(JSON.parse(fork.text)).toMatchObject({ code: 'limit_reached', limit: 'running', max: 2, wouldBe: 3 });
  await world.ask(tenant, 'POST', '/v1/sandboxes/one/fork', { count: 1 });
  const present = { sandboxes: 2, running: 2, snapshots: 0, memoryMib: 1024 };
  expect(await world.ask(tenant, 'GET', '/v1/limits')).toEqual({ limits: set.limits, present });
  await world.ask(tenant, 'POST', '/v1/sandboxes/one/pause', {});
  await world.ask(tenant, 'POST', '/v1/sandboxes', { name: 'two' });
  const wake = await world.call(tenant, 'POST', '/v1/sandboxes/one/exec', { command: 'read' });
  expect(JSON.parse(wake.text)).toMatchObject({ code: 'limit_reached', limit: 'running' });
  expect((await world.ask(tenant, 'GET', '/v1/sandboxes/one')).status).toBe('paused');
  await world.ask(world.operatorKey, 'PUT', path, { running: null, memoryMib: null });
  await world.ask(tenant, 'POST', '/v1/sandboxes/one/resume', {});
});

it('give back what a failed create had reserved', async () => {
  await using world = await World.start();
  const path = '/v1/organisations/org_0000000000000000/limits';
  await world.ask(world.operatorKey, 'PUT', path, { sandboxes: 1 });
  world.node.faults.failNext('start');
  expect((await world.call(world.operatorKey, 'POST', '/v1/sandboxes', {})).status).toBe(500);
  await world.ask(world.operatorKey, 'POST', '/v1/sandboxes', {});
});

it.each([{ running: -1 }, { running: 1.5 }, { running: '1' }, { cpus: 1 }, { running: 1e10 }])(
  'refuse %o',
  async (body) => {
    await using world = await World.start();
    const path = '/v1/organisations/org_0000000000000000/limits';
    expect((await world.call(world.operatorKey, 'PUT', path, body)).status).toBe(400);
  },
);
