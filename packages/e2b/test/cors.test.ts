/** Pages in browsers: what they ask before a call is allowed to everybody, and nothing is told to who lacks a key. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { World } from './world.ts';

let world: World;
let made: { readonly sandboxID: string; readonly envdAccessToken: string };
beforeAll(async () => {
  world = await World.start();
  made = (await world.call('POST', '/v2/sandboxes', { templateID: 'base' })).body;
});
afterAll(() => world[Symbol.asyncDispose]());

const into = () => ({ 'e2b-sandbox-id': made.sandboxID, 'e2b-sandbox-port': '49983' });

async function ask(method: string, path: string, headers: Record<string, string> = {}) {
  const response = await fetch(world.url + path, { method, headers: { origin: 'https://page.example', ...headers } });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

it('what a page asks before it calls is allowed, for the control API and into a sandbox, without a key', async () => {
  const asking = {
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'x-api-key,content-type,authorization',
  };
  for (const [path, more] of [
    ['/v2/sandboxes', {}],
    [`/sandboxes/${made.sandboxID}/timeout`, {}],
    ['/templates/aliases/base', {}],
    ['/process.Process/Start', into()],
    ['/files?path=/a', into()],
  ] as const) {
    const { status, headers, text } = await ask('OPTIONS', path, { ...asking, ...more });
    expect([status, text], path).toEqual([204, '']);
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(headers.get('access-control-allow-methods')).toContain('PUT');
    expect(headers.get('access-control-allow-headers')).toBe(asking['access-control-request-headers']);
    expect(headers.get('access-control-allow-credentials')).toBeNull();
    expect(headers.get('access-control-max-age')).toBe('7200');
  }
});

it('answers are for every page, errors too, and tell what stands beside the body', async () => {
  const key = { 'x-api-key': world.platform.connection.apiKey };
  for (const [status, path, headers] of [
    [200, '/v2/sandboxes', key],
    [401, '/v2/sandboxes', {}],
    [404, '/sandboxes/sbx0000000000000000', key],
    [501, '/volumes', key],
    [204, '/health', into()],
    [401, '/metrics', into()],
    [404, '/nothing', { ...into(), 'x-access-token': made.envdAccessToken }],
  ] as const) {
    const answer = await ask('GET', path, headers);
    expect([answer.status, answer.headers.get('access-control-allow-origin')], path).toEqual([status, '*']);
  }
  const listed = await ask('GET', '/v2/sandboxes', key);
  expect(listed.headers.get('access-control-expose-headers')).toContain('X-Next-Token');
});

it('our own API allows no page of others', async () => {
  const headers = { 'access-control-request-method': 'GET', 'access-control-request-headers': 'authorization' };
  const answer = await ask('OPTIONS', '/v1/sandboxes', headers);
  expect(answer.status).toBeGreaterThanOrEqual(400);
  expect(answer.headers.get('access-control-allow-origin')).toBeNull();
});
