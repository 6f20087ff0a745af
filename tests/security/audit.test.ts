/** The audit: one record for each call that changes something, and for each that was forbidden. */
import { expect, it } from 'vitest';
import { World } from './world.ts';

interface AuditRecord {
  readonly call: string;
  readonly outcome: string;
  readonly [field: string]: unknown;
}

const CANARY = 'canary-7f3a';

it('says who did what to what, and how it went, without anything of the content', async () => {
  await using world = await World.start();
  const key = world.operatorKey;
  const sandbox = await world.ask(key, 'POST', '/v1/sandboxes', {
    name: 'one',
    env: { A: CANARY },
    metadata: { b: CANARY },
  });
  await world.ask(key, 'POST', '/v1/sandboxes/one/pause', {});
  await world.ask(key, 'POST', '/v1/sandboxes/one/fork', { count: 2 });
  await world.call(key, 'POST', '/v1/sandboxes/one/exec', { command: 'read', env: { A: CANARY } });
  await world.call(key, 'POST', '/v1/sandboxes/never/pause', {});
  const viewer = await world.ask(key, 'POST', '/v1/keys', { roles: ['viewer'] });
  await world.call(viewer.secretKey, 'DELETE', '/v1/sandboxes/one');
  await world.call(viewer.secretKey, 'GET', '/v1/audit');
  await world.ask(viewer.secretKey, 'GET', '/v1/sandboxes/one');
  world.node.faults.failNext('start');
  await world.call(key, 'POST', '/v1/sandboxes', {});
  const { records } = (await world.ask(key, 'GET', '/v1/audit')) as { records: AuditRecord[] };
  expect(records.map(({ call, outcome }) => `${call} ${outcome}`).toReversed()).toEqual([
    'createSandbox ok',
    // The vault of the organisation was opened for it.
    'unwrap/open ok',
    'pauseSandbox ok',
    'forkSandbox ok',
    'exec ok',
    'pauseSandbox not_found',
    'createKey ok',
    'deleteSandbox forbidden',
    'listAudit forbidden',
    'createSandbox internal',
  ]);
  expect(records.at(-1)).toMatchObject({
    target: sandbox.id,
    action: 'sandbox.create',
    project: 'prj_0000000000000000',
  });
  expect(records[2]).toMatchObject({ apiKey: viewer.id, target: 'one', operation: null });
  expect(records[3]).toMatchObject({ target: viewer.id, action: 'key.manage', project: null });
  expect(new Set(records.map(({ requestId }) => requestId)).size).toBe(records.length);
  const text = JSON.stringify(records);
  for (const secret of [CANARY, key, viewer.secretKey]) expect(text).not.toContain(secret);
});

it('is that of one organisation, in pages', async () => {
  await using world = await World.start();
  const { key } = await world.ask(world.operatorKey, 'POST', '/v1/organisations', { name: 'acme' });
  for (const name of ['a', 'b', 'c']) await world.ask(key.secretKey, 'POST', '/v1/projects', { name });
  const first = await world.ask(key.secretKey, 'GET', '/v1/audit?limit=2');
  const rest = await world.ask(key.secretKey, 'GET', `/v1/audit?limit=2&cursor=${first.nextCursor}`);
  const calls = [...first.records, ...rest.records].map(({ call }: AuditRecord) => call);
  expect(calls).toEqual(['createProject', 'createProject', 'createProject']);
  const { records } = await world.ask(world.operatorKey, 'GET', '/v1/audit');
  expect(records.map(({ call }: AuditRecord) => call)).toEqual(['createOrganisation']);
});

it('records a stream when it begins, and a pause of the platform as nobody’s', async () => {
  await using world = await World.start();
  const { key } = await world.ask(world.operatorKey, 'POST', '/v1/organisations', { name: 'acme' });
  const { id } = await world.ask(key.secretKey, 'POST', '/v1/sandboxes', {});
  const stop = new AbortController();
  const headers = { authorization: `Bearer ${key.secretKey}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ command: 'forever' });
  const stream = await fetch(`${world.url}/v1/sandboxes/${id}/exec`, {
    method: 'POST',
    headers,
    body,
    signal: stop.signal,
  });
  expect(stream.status).toBe(200);
  // The create and what it opens may be of one millisecond.
  const calls = async (secretKey: string) =>
    (await world.ask(secretKey, 'GET', '/v1/audit')).records
      .map(({ call, outcome }: AuditRecord) => `${call} ${outcome}`)
      .toSorted();
  expect(await calls(key.secretKey)).toEqual(['createSandbox ok', 'exec ok', 'unwrap/open ok']);
  stop.abort();
  await world.control.pauseUnasked(id);
  expect(await calls(key.secretKey)).toEqual(['createSandbox ok', 'exec ok', 'unwrap/open ok']);
  expect(await calls(world.operatorKey)).toEqual(['createOrganisation ok']);
  const [pause] = (await world.ask(key.secretKey, 'GET', '/v1/operations')).operations;
  expect(pause).toMatchObject({ kind: 'pause', state: 'succeeded', requestId: null });
});
