import { PROBLEM_CODES, PROTOCOL_ERRORS, ROUTE_NAMES, ROUTES, type Route } from '@space/contract';
import { AppError, ERRORS, type ErrorCode } from '@space/core';
import { describe, expect, test } from 'vitest';
import { eventsOf, KEY, until, World, wholeAnswer } from './world.ts';

const examplePath = (route: Route) =>
  route.path.replace('{id}', 'some-name').replace('{processId}', 'prc_0123456789abcdef');

describe('keys', () => {
  test.each(ROUTE_NAMES)('%s answers 401 without a key, unless it is open', async (name) => {
    await using world = await World.start();
    const route: Route = ROUTES[name];
    for (const headers of [
      {},
      { authorization: 'Bearer wrong' },
      { authorization: KEY },
      { authorization: 'Bearer ' },
    ]) {
      const response = await fetch(world.url + examplePath(route), { method: route.method, headers });
      if (route.open) expect(response.status).toBe(200);
      else {
        expect(response.status).toBe(401);
        expect(response.headers.get('www-authenticate')).toBe('Bearer');
        const problem = { code: 'unauthenticated' };
        if (route.method !== 'HEAD') expect(await response.json()).toMatchObject(problem);
      }
    }
  });

  test('exactly the welcome, health, readiness and the contract are open', async () => {
    const open = ROUTE_NAMES.filter((name) => 'open' in ROUTES[name]);
    expect(open).toEqual(['getWelcome', 'getHealth', 'getReadiness', 'getOpenApi']);
    await using world = await World.start();
    expect(await (await fetch(world.url)).json()).toMatchObject({ name: 'SPACE', api: '/openapi.json' });
  });

  test('an unknown path says nothing to a stranger', async () => {
    await using world = await World.start();
    expect((await fetch(`${world.url}/v1/other`)).status).toBe(401);
    expect((await world.fetch('/v1/other')).status).toBe(404);
  });

  test('no key and no path of a file gets into the log', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    await world.fetch(`${path}/files?path=/very/private`);
    world.app.log.error({ headers: { authorization: `Bearer ${KEY}` } }, 'x');
    await until(() => world.log.length >= 3);
    expect(world.log.join('')).not.toContain(KEY);
    expect(world.log.join('')).not.toContain('private');
  });
});

describe('errors', () => {
  test.each(Object.keys(ERRORS) as ErrorCode[])('%s has the status and advice of the catalogue', async (code) => {
    const breaches: string[] = [];
    await using world = await World.start({ onBreach: (breach) => breaches.push(breach) });
    world.useCases.nextError = new AppError(code, { detail: 'this time', facts: { count: 3, title: 'mine' } });
    const response = await world.fetch('/v1/sandboxes/x');
    const kind = ERRORS[code];
    expect(response.status).toBe(kind.status);
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(response.headers.get('retry-after') !== null).toBe(kind.retry === 'later');
    const problem = (await response.json()) as { detail: string; count?: number };
    const requestId = response.headers.get('x-request-id');
    expect(problem).toMatchObject({ status: kind.status, title: kind.title, code, nextStep: kind.nextStep, requestId });
    expect(problem.detail === 'this time').toBe(code !== 'internal');
    expect(problem.count).toBe(code === 'internal' ? undefined : 3);
  });

  test('a bug shows nothing of itself, and is in the log under the request id', async () => {
    await using world = await World.start();
    world.useCases.nextError = new Error('a secret cause', { cause: new Error('deeper') });
    const response = await world.fetch('/v1/sandboxes/x');
    expect(response.status).toBe(500);
    const text = await response.text();
    expect(text).not.toContain('secret');
    const { requestId } = JSON.parse(text) as { requestId: string };
    const line = world.log.find((candidate) => candidate.includes('a secret cause'));
    expect(line).toContain(requestId);
    expect(line).toContain('deeper');
  });

  test('an error that the route does not declare is noticed', async () => {
    const breaches: string[] = [];
    await using world = await World.start({ onBreach: (breach) => breaches.push(breach) });
    world.useCases.nextError = new AppError('guest_full', 'odd');
    await world.fetch('/v1/sandboxes/x');
    expect(breaches).toEqual(['getSandbox: guest_full is not declared']);
  });

  test('the protocol has no code that the catalogue has', () => {
    expect(Object.keys(PROTOCOL_ERRORS).filter((code) => code in ERRORS)).toEqual([]);
    expect(new Set(PROBLEM_CODES).size).toBe(PROBLEM_CODES.length);
  });
});

describe('requests', () => {
  test.each([
    ['not JSON', '{', 400, 'bad_request'],
    ['not UTF-8', new Uint8Array([0x22, 0xff, 0x22]), 400, 'bad_request'],
    ['an unknown field', '{"nmae":"x"}', 400, 'bad_request'],
    ['a prototype', '{"metadata":{"__proto__":"x"}}', 400, 'bad_request'],
    ['an array', '[]', 400, 'bad_request'],
    ['a name like an id', '{"name":"sbx_0123456789abcdef"}', 400, 'bad_request'],
    ['both snapshot and size', '{"snapshot":"x","size":{}}', 400, 'bad_request'],
    ['too large', JSON.stringify({ metadata: { a: 'x'.repeat(1024 * 1024) } }), 413, 'payload_too_large'],
  ])('a body that is %s is refused', async (_, body, status, code) => {
    await using world = await World.start();
    const response = await world.fetch('/v1/sandboxes', {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    });
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ code });
    expect(world.useCases.sandboxes.size).toBe(0);
  });

  test.each([
    ['POST /v1/sandboxes', { nmae: 'x' }, 'The body does not have the field "nmae".'],
    ['POST /v1/sandboxes', { size: { vcpus: '2' } }, 'body field size.vcpus must be a number, and is "2".'],
    ['POST /v1/sandboxes', { size: { vcpus: 1.5 } }, 'body field size.vcpus must be a whole number, and is 1.5.'],
    ['POST /v1/sandboxes', { size: { vcpus: 0 } }, 'body field size.vcpus must be more than 0, and is 0.'],
    ['POST /v1/sandboxes', { name: null }, 'body field name must be text, and is null.'],
    [
      'POST /v1/sandboxes',
      { idle: { pauseAfterMs: 5 } },
      'body field idle.pauseAfterMs must be at least 10000, and is 5.',
    ],
    ['POST /v1/sandboxes', { wakeAt: 'now' }, 'must be an instant in UTC like 2030-01-31T08:00:00Z, and is "now".'],
    ['POST /v1/sandboxes', { env: { '1': 'a' } }, 'body field env.1 must be the name of an environment variable'],
    ['POST /v1/sandboxes', [], 'The body must be an object.'],
    ['POST /v1/sandboxes/a/rewind', {}, 'body field to is missing.'],
    ['POST /v1/sandboxes/a/fork', { count: 0 }, 'body field count must be at least 1, and is 0.'],
    ['POST /v1/sandboxes/a/exec', {}, 'The body: exactly one of command and argv must be given.'],
    ['GET /v1/sandboxes?limit=0', undefined, 'query field limit must be 1 to 1000, and is "0".'],
    ['GET /v1/sandboxes?status=gone', undefined, 'query field status must be one of "creating", "running", '],
  ])('%s with %j is told what is wrong in plain words', async (call, body, text) => {
    await using world = await World.start();
    const [method = '', path = ''] = call.split(' ');
    const json = { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const response = await world.fetch(path, { method, ...(body === undefined ? {} : json) });
    expect(response.status).toBe(400);
    expect(((await response.json()) as { detail: string }).detail).toContain(text);
  });

  test.each([
    ['POST', '/v1/sandboxes', {}],
    ['POST', '/v1/sandboxes/x/snapshots', {}],
    ['PATCH', '/v1/snapshots/x', {}],
    ['POST', '/v1/sandboxes/x/shares', { port: 80 }],
    ['POST', '/v1/projects', {}],
    ['PATCH', '/v1/projects/x', {}],
    ['POST', '/v1/keys', { roles: ['viewer'] }],
    ['POST', '/v1/organisations', {}],
  ])('%s %s takes no name with control characters, or that hides or reorders text', async (method, path, rest) => {
    await using world = await World.start();
    for (const name of ['a\0b', 'a\nb', 'a\n', '\x1b[31ma', 'a\x7f', 'a\u0085', 'a\u202eb', 'a\u200bb', 'a\ufeff']) {
      const body = JSON.stringify({ ...rest, name });
      const response = await world.fetch(path, { method, body, headers: { 'content-type': 'application/json' } });
      const { code, detail } = (await response.json()) as { readonly code: string; readonly detail: string };
      expect([response.status, code]).toEqual([400, 'bad_request']);
      expect(detail).toContain('body field name');
      // What is told of it is harmless to a terminal.
      expect(detail).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    }
    const body = JSON.stringify({ ...rest, env: { 'a\u202eb': 'x' }, 'c\u009bd': 'x' });
    const unknown = await world.fetch(path, { method, body, headers: { 'content-type': 'application/json' } });
    expect(await unknown.text()).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect(world.useCases.sandboxes.size).toBe(0);
  });

  test('a body of 1 MiB without announced length is refused when the limit is passed', async () => {
    await using world = await World.start();
    const body = new ReadableStream({
      pull: (controller) => controller.enqueue(new TextEncoder().encode(' '.repeat(256 * 1024))),
    });
    const init = { method: 'POST', body, duplex: 'half', headers: { 'content-type': 'application/json' } } as const;
    expect((await world.fetch('/v1/sandboxes', init)).status).toBe(413);
  });

  test.each(['text/plain', 'application/json; charset=latin1', '', ';'])('content type %o is refused', async (type) => {
    await using world = await World.start();
    const init = { method: 'POST', body: new TextEncoder().encode('{}'), headers: { 'content-type': type } };
    const response = await world.fetch('/v1/sandboxes', init);
    expect(response.status).toBe(415);
    expect(await response.json()).toMatchObject({ code: 'unsupported_media_type' });
  });

  test.each([
    '/v1/sandboxes?limit=0',
    '/v1/sandboxes?limit=1e2',
    '/v1/sandboxes?limit=',
    '/v1/sandboxes?limit=1&limit=2',
    '/v1/sandboxes?lim=1',
    '/v1/sandboxes?status=deleted',
    '/v1/sandboxes/Upper',
    '/v1/sandboxes/x/files?path=%ff',
    '/v1/sandboxes/x/files?path=a%00b',
    '/v1/sandboxes/x/files?path=',
    '/v1/sandboxes/x/files',
    '/v1/sandboxes/%zz',
    '/healthz?verbose=1',
  ])('GET %s is a bad request', async (path) => {
    await using world = await World.start();
    const response = await world.fetch(path);
    expect(response.status).toBe(400);
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(await response.json()).toMatchObject({ code: 'bad_request' });
  });

  test('a method that the path does not have is answered with those that it has', async () => {
    await using world = await World.start();
    for (const method of ['POST', 'PUT', 'OPTIONS']) {
      const response = await world.fetch('/v1/sandboxes/x', { method });
      expect(response.status).toBe(405);
      expect(response.headers.get('allow')).toBe('GET, PATCH, DELETE');
    }
    expect((await world.fetch('/v1/sandboxes', { method: 'HEAD' })).status).toBe(405);
  });

  test('no header invites another origin', async () => {
    await using world = await World.start();
    const response = await world.fetch('/v1/sandboxes', { headers: { origin: 'https://evil.example' } });
    expect(response.headers.get('access-control-allow-origin')).toBeNull();
  });

  test.each([
    ['localhost', 200],
    ['LOCALHOST:7070', 200],
    ['127.0.0.1:1', 200],
    ['127.9.9.9', 200],
    ['[::1]:80', 200],
    ['space.example', 200],
    ['space.example:443', 200],
    ['evil.example', 421],
    ['localhost.evil.example', 421],
    ['127.0.0.1.nip.io', 421],
    ['localhost@evil.example', 421],
    ['10.0.0.1', 421],
    ['', 421],
  ])('Host %o gets %i', async (host, status) => {
    await using world = await World.start({ hosts: ['Space.Example'] });
    const answer = await wholeAnswer(world.raw(`GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`));
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    if (status === 421) expect(answer).toContain('"code":"host_refused"');
  });

  test('bytes that are no HTTP get a problem and the end of the connection', async () => {
    await using world = await World.start();
    const answer = await wholeAnswer(world.raw('NONSENSE\r\n\r\n'));
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer).toContain('"code":"bad_request"');
  });

  test('slow heads and bodies are bounded', async () => {
    await using world = await World.start();
    expect(world.app.server.headersTimeout).toBeLessThanOrEqual(15_000);
    expect(world.app.server.maxConnections).toBeGreaterThan(0);
  });
});

describe('answers', () => {
  test('a sandbox goes through its life', async () => {
    await using world = await World.start();
    const created = await world.post('/v1/sandboxes', { name: 'one', env: { A: 'b' }, metadata: { owner: 'me' } });
    expect(created.status).toBe(201);
    expect(await created.json()).not.toHaveProperty('env');
    const got = await world.fetch('/v1/sandboxes/one');
    expect(await got.json()).toMatchObject({ name: 'one', env: { A: 'b' }, metadata: { owner: 'me' } });
    expect((await world.post('/v1/sandboxes', { name: 'one' })).status).toBe(409);
    expect(await (await world.fetch('/v1/sandboxes/one/pause', { method: 'POST' })).json()).toMatchObject({
      status: 'paused',
    });
    expect(await (await world.post('/v1/sandboxes/one/resume', {})).json()).toMatchObject({ status: 'running' });
    expect((await world.post('/v1/sandboxes/one/pause', { keep: 'ram' })).status).toBe(400);
    expect((await world.fetch('/v1/sandboxes/one', { method: 'DELETE' })).status).toBe(204);
    expect((await world.fetch('/v1/sandboxes/one')).status).toBe(404);
  });

  test('pages follow each other', async () => {
    await using world = await World.start();
    for (const name of ['a', 'b', 'c']) await world.sandbox({ name });
    const first = (await (await world.fetch('/v1/sandboxes?limit=2')).json()) as { sandboxes: []; nextCursor: string };
    expect(first.sandboxes).toHaveLength(2);
    const second = await world.fetch(`/v1/sandboxes?limit=2&cursor=${first.nextCursor}`);
    expect(await second.json()).toMatchObject({ sandboxes: [{ name: 'c' }], nextCursor: null });
  });

  test('snapshots, forks and rewinds', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    expect((await world.post(`${path}/snapshots`, { name: 'good', note: 'n' })).status).toBe(201);
    expect(await (await world.fetch('/v1/snapshots')).json()).toMatchObject({ snapshots: [{ name: 'good' }] });
    const forked = await world.post(`${path}/fork`, { count: 4, from: 'good' });
    const { results } = (await forked.json()) as { results: object[] };
    expect(results.map((result) => Object.keys(result)[0])).toEqual(['sandbox', 'sandbox', 'sandbox', 'problem']);
    expect(results[3]).toMatchObject({ problem: { code: 'insufficient_memory' } });
    const rewound = await world.post(`${path}/rewind`, { to: 'good' });
    expect(await rewound.json()).toMatchObject({ sandbox: { generation: 2 }, kept: { cause: 'rewind' } });
    expect(await (await world.fetch(`${path}/snapshots`)).json()).toMatchObject({
      snapshots: [{ cause: 'rewind' }, {}],
    });
    expect((await world.post(`${path}/fork`, { count: 21 })).status).toBe(400);
  });

  test('readiness says what is missing', async () => {
    await using world = await World.start();
    world.useCases.ready = false;
    const response = await fetch(`${world.url}/readyz`);
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ ready: false, checks: [{ detail: 'missing' }] });
  });

  test('the contract, templates, capabilities and processes', async () => {
    await using world = await World.start();
    expect(await (await fetch(`${world.url}/openapi.json`)).json()).toMatchObject({ openapi: '3.1.0' });
    expect(await (await fetch(`${world.url}/healthz`)).json()).toEqual({ status: 'ok', version: '0.1.0' });
    expect((await world.fetch('/v1/templates')).status).toBe(200);
    expect((await world.fetch('/v1/capabilities')).status).toBe(200);
    const path = await world.sandbox();
    const { processes } = (await (await world.fetch(`${path}/processes`)).json()) as {
      processes: { processId: string }[];
    };
    const signal = `${path}/processes/${processes[0]?.processId}/signal`;
    expect((await world.post(signal, { signal: 'SIGTERM' })).status).toBe(204);
    expect((await world.post(signal, { signal: 15 })).status).toBe(400);
    expect(world.useCases.signals).toHaveLength(1);
  });

  test('an answer that breaks the contract is noticed', async () => {
    const breaches: string[] = [];
    await using world = await World.start({ onBreach: (breach) => breaches.push(breach) });
    world.useCases.listTemplates = async () => ({ templates: [], extra: 1 }) as never;
    await world.fetch('/v1/templates');
    expect(breaches[0]).toContain('listTemplates');
  });

  test('a long call sends interim answers to a client that asks for them, and to no other', async () => {
    await using world = await World.start({ times: { interimMs: 20 } });
    world.useCases.createMs = 100;
    const head = `POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${KEY}\r\nConnection: close\r\n`;
    const asked = await wholeAnswer(world.raw(`${head}X-Space-Interim: 102\r\n\r\n`));
    expect(asked).toMatch(/^HTTP\/1.1 102 Processing\r\n\r\n/);
    expect(asked).toContain('HTTP/1.1 201 ');
    expect(await wholeAnswer(world.raw(`${head}\r\n`))).toMatch(/^HTTP\/1.1 201 /);
  });
});

test('events are read by the helper', async () => {
  await using world = await World.start();
  const path = await world.sandbox();
  const events = await eventsOf(await world.post(`${path}/exec`, { command: 'echo hi' }));
  expect(events).toMatchObject([
    { type: 'started', pid: 42 },
    { type: 'stdout', data: 'aGkK' },
    { type: 'exited', exitCode: 0, signal: null, timedOut: false },
  ]);
});
