/** Figures for Prometheus. */
import { expect, it } from 'vitest';
import { World } from './world.ts';

it('count operations by kind and outcome, and what there is, without a name or an id', async () => {
  await using world = await World.start();
  const key = world.operatorKey;
  await world.ask(key, 'POST', '/v1/sandboxes', { name: 'secret-name' });
  await world.ask(key, 'POST', '/v1/sandboxes', {});
  await world.ask(key, 'POST', '/v1/sandboxes/secret-name/pause', {});
  world.node.faults.failNext('start');
  await world.call(key, 'POST', '/v1/sandboxes', {});
  const { status, headers, text } = await world.call(key, 'GET', '/metrics');
  expect(status).toBe(200);
  expect(headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  const lines = text.split('\n');
  expect(lines).toContain('space_operation_duration_seconds_count{operation="create",outcome="ok"} 2');
  expect(lines).toContain('space_operation_duration_seconds_count{operation="create",outcome="failed"} 1');
  expect(lines).toContain('space_operation_duration_seconds_bucket{operation="pause",outcome="ok",le="+Inf"} 1');
  expect(lines).toContain('space_sandboxes{state="running"} 1');
  expect(lines).toContain('space_sandboxes{state="paused"} 1');
  expect(text).not.toMatch(/secret-name|sbx_|key_|org_/);
  for (const line of lines.slice(0, -1)) expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{[^{}]*\})? [0-9.e+-]+)$/);
});

it('count each attempt of a delete that fails, and the delete that is then done', async () => {
  await using world = await World.start();
  const key = world.operatorKey;
  await world.ask(key, 'POST', '/v1/sandboxes', { name: 'one' });
  const counted = async (outcome: string) => {
    const { text } = await world.call(key, 'GET', '/metrics');
    const line = `space_operation_duration_seconds_count{operation="delete",outcome="${outcome}"} `;
    return Number(
      text
        .split('\n')
        .find((each) => each.startsWith(line))
        ?.slice(line.length) ?? 0,
    );
  };
  world.node.faults.failNext('destroy');
  expect((await world.call(key, 'DELETE', '/v1/sandboxes/one')).status).toBeGreaterThanOrEqual(500);
  expect([await counted('failed'), await counted('ok')]).toEqual([1, 0]);
  // Whoever asks again waits while it is repeated, until it is done.
  world.node.faults.failNext('destroy');
  expect((await world.call(key, 'DELETE', '/v1/sandboxes/one')).status).toBe(204);
  expect([await counted('failed'), await counted('ok')]).toEqual([2, 1]);
});

it('are for an admin or an auditor of who runs the installation', async () => {
  await using world = await World.start();
  const auditor = await world.ask(world.operatorKey, 'POST', '/v1/keys', { roles: ['auditor'] });
  const developer = await world.ask(world.operatorKey, 'POST', '/v1/keys', { roles: ['developer'] });
  const tenant = await world.ask(world.operatorKey, 'POST', '/v1/organisations', { name: 'acme' });
  const statusFor = async (key: string) => (await world.call(key, 'GET', '/metrics')).status;
  expect(await statusFor(auditor.secretKey)).toBe(200);
  expect(await statusFor(developer.secretKey)).toBe(403);
  expect(await statusFor(tenant.key.secretKey)).toBe(403);
  expect((await fetch(`${world.url}/metrics`)).status).toBe(401);
});
