/** Who may reach a port: holders of a key of the project with the role, and of a share; nobody else. */
import { request } from 'node:http';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { createLogger } from '@space/http';
import { Sandbox } from '@space/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { everything, PortsWorld, until } from './world.ts';

let world: PortsWorld;
let port: number;
beforeAll(async () => {
  world = await PortsWorld.start();
  port = await world.serve((asked, answer) => answer.end(`hello ${asked.url}`));
});
afterAll(() => world[Symbol.asyncDispose]());

const newKey = async (roles: readonly string[], admin = world.operatorKey) =>
  (await world.ask(admin, 'POST', '/v1/keys', { roles })).secretKey as string;

/** Opens a WebSocket (or what stands for one) to a preview. */
function upgrade(to: number, headers: Record<string, string>): Promise<{ status: number; socket: Duplex }> {
  const asked = request({
    host: '127.0.0.1',
    port: world.apiPort,
    path: '/ws',
    headers: { host: world.hostOf(to), connection: 'Upgrade', upgrade: 'websocket', ...headers },
    agent: false,
  }).end();
  return new Promise((resolve, reject) => {
    asked.once('error', reject);
    asked.once('upgrade', (_, socket, first) => {
      socket.unshift(first);
      resolve({ status: 101, socket });
    });
    asked.once('response', (answer) => {
      answer.resume();
      resolve({ status: answer.statusCode ?? 0, socket: answer.socket });
    });
  });
}

const echoServer = () =>
  world.serve(
    () => undefined,
    (server) =>
      server.on('upgrade', (asked, socket: Duplex) => {
        socket.on('error', () => undefined);
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n');
        socket.write(`Sec-WebSocket-Accept: ${asked.headers['sec-websocket-key']}\r\n\r\nhello `);
        socket.pipe(socket);
      }),
  );

const nextOf = async (socket: Duplex) => String(await new Promise((resolve) => socket.once('data', resolve)));

describe('a preview', () => {
  it('is private: without a key or a share it is a 401, whether its sandbox exists or not', async () => {
    for (const host of [world.hostOf(port), `${port}-sbx-0000000000000000.localhost:${world.apiPort}`]) {
      for (const headers of [
        { host },
        { host, authorization: 'Basic eA==' },
        { host, 'x-space-share': 'spaceshare_x' },
      ]) {
        const { status, text } = await world.visit(port, '/', { headers });
        expect(status).toBe(401);
        expect(JSON.parse(text)).toMatchObject({ code: 'unauthenticated' });
      }
    }
  });

  it('is reached with a key of the project that may use sandboxes', async () => {
    const developer = await newKey(['developer']);
    for (const headers of [{ 'x-space-key': developer }, { authorization: `Bearer ${developer}` }]) {
      expect(await world.visit(port, '/a', { headers })).toMatchObject({ status: 200, text: 'hello /a' });
    }
    const viewer = { 'x-space-key': await newKey(['viewer']) };
    expect((await world.visit(port, '/', { headers: viewer })).status).toBe(403);
  });

  it('is open to everybody when its sandbox says so, for as long as it does', async () => {
    const port = await world.serve((request, response) => response.end(`hello ${request.url}`));
    const say = (publicPorts: boolean) =>
      world.ask(world.operatorKey, 'PATCH', `/v1/sandboxes/${world.sandboxId}`, { publicPorts });
    await say(true);
    expect(await world.visit(port, '/a', { headers: {} })).toMatchObject({ status: 200, text: 'hello /a' });
    await say(false);
    expect((await world.visit(port, '/a', { headers: {} })).status).toBe(401);
  });

  it('of another tenant is as one that never was', async () => {
    const made = await world.ask(world.operatorKey, 'POST', '/v1/organisations', { name: 'other' });
    const headers = { 'x-space-key': made.key.secretKey };
    const bare = (text: string) => text.replaceAll(/req_[0-9a-f]+|sbx_[0-9a-z]+/g, 'X');
    const theirs = await world.visit(port, '/', { headers });
    const never = await world.visit(port, '/', {
      headers: { ...headers, host: `${port}-sbx-0000000000000000.localhost:${world.apiPort}` },
    });
    expect(theirs.status).toBe(404);
    expect(bare(theirs.text)).toBe(bare(never.text));
  });

  it.each([
    '0-sbx-0000000000000000.localhost',
    '70000-sbx-0000000000000000.localhost',
    '80-sbx-0.localhost',
    'a.localhost',
  ])('has no other names: %s is refused as any foreign host', async (host) => {
    expect((await world.visit(port, '/', { headers: { host, 'x-space-key': world.operatorKey } })).status).toBe(421);
  });

  it('does not answer for the API, and the API not for it', async () => {
    const headers = { 'x-space-key': world.operatorKey, authorization: 'Bearer x' };
    expect((await world.visit(port, '/v1/sandboxes', { headers })).text).toBe('hello /v1/sandboxes');
  });
});

describe('a share', () => {
  it('opens one port in a browser: the token leaves the address and becomes a cookie of that origin', async () => {
    const { token, url } = await world.share(port, { name: 'demo' });
    expect(url).toBe(`http://${world.hostOf(port)}/?space_share=${token}`);
    const visit = await world.visit(port, `/a?x=1&space_share=${token}&y=2`, { headers: {} });
    expect(visit.status).toBe(303);
    expect(visit.headers.location).toBe('/a?x=1&y=2');
    expect(visit.headers['referrer-policy']).toBe('no-referrer');
    const [cookie = ''] = visit.headers['set-cookie'] ?? [];
    expect(cookie).toMatch(/^space_share=spaceshare_[^;]+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=\d+$/);
    const headers = { cookie: cookie.split(';')[0] ?? '' };
    expect(await world.visit(port, '/a?x=1&y=2', { headers })).toMatchObject({ status: 200, text: 'hello /a?x=1&y=2' });
    const elsewhere = await world.visit(port, `//evil.example/?space_share=${token}`, { headers: {} });
    expect(elsewhere.headers.location).toBe('/evil.example/');
  });

  it('behind a proxy that ends TLS has a cookie that goes nowhere else, and no other host can set', async () => {
    await using proxied = await PortsWorld.start({ previews: 'https://previews.example.com' });
    const served = await proxied.serve((asked, answer) => answer.end(String(asked.headers['x-forwarded-proto'])));
    const { token, url } = await proxied.share(served);
    const { host, search } = new URL(url);
    expect(url).toMatch(/^https:\/\/\d+-sbx-\w+\.previews\.example\.com\/\?space_share=/);
    const visit = await proxied.visit(served, `/${search}`, { headers: { host } });
    const [cookie = ''] = visit.headers['set-cookie'] ?? [];
    expect(cookie).toMatch(/^__Host-space_share=[^;]+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=\d+; Secure$/);
    const headers = { host, cookie: cookie.split(';')[0] ?? '' };
    expect(await proxied.visit(served, '/', { headers })).toMatchObject({ status: 200, text: 'https' });
    const planted = { host, cookie: `space_share=${token}` };
    expect((await proxied.visit(served, '/', { headers: planted })).status).toBe(401);
  });

  it('opens no other port and no other sandbox', async () => {
    const { token } = await world.share(port);
    const other = await world.serve((_, answer) => answer.end('other'));
    expect((await world.visit(other, '/', { headers: { 'x-space-share': token } })).status).toBe(401);
    expect((await world.visit(other, `/?space_share=${token}`, { headers: {} })).status).toBe(401);
    const host = `${port}-sbx-0000000000000000.localhost:${world.apiPort}`;
    expect((await world.visit(port, '/', { headers: { 'x-space-share': token, host } })).status).toBe(401);
    expect((await world.call(token, 'GET', '/v1/sandboxes')).status).toBe(401);
  });

  it('in its cookie counts for the pages of the preview only', async () => {
    const { token } = await world.share(port);
    const cookie = `space_share=${token}`;
    const own = `http://${world.hostOf(port)}`;
    const status = async (headers: Record<string, string>, method = 'GET') =>
      (await world.visit(port, '/', { method, headers: { cookie, ...headers } })).status;
    expect(await status({ origin: own, 'sec-fetch-site': 'same-origin' }, 'POST')).toBe(200);
    expect(await status({ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' })).toBe(200);
    expect(await status({ 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' })).toBe(401);
    expect(await status({ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }, 'POST')).toBe(401);
    expect(await status({ origin: 'http://80-sbx-0000000000000000.localhost' }, 'POST')).toBe(401);
    expect(await status({ origin: 'null' }, 'POST')).toBe(401);
    expect((await upgrade(await echoServer(), { cookie, origin: 'http://evil.example' })).status).toBe(401);
  });

  it('is listed, told of, in the audit without its token, and revoked once', async () => {
    const share = await world.share(port, { name: 'listed', expiresInMs: 60_000 });
    const { shares } = await world.ask(world.operatorKey, 'GET', '/v1/sandboxes/box/shares');
    const listed = shares.find(({ id }: { id: string }) => id === share.id);
    expect(listed).toMatchObject({ port, name: 'listed', sandbox: world.sandboxId });
    expect(JSON.stringify(shares)).not.toContain(share.token);
    await world.ask(world.operatorKey, 'DELETE', `/v1/sandboxes/box/shares/${share.id}`);
    const again = await world.call(world.operatorKey, 'DELETE', `/v1/sandboxes/box/shares/${share.id}`);
    expect(again.status).toBe(404);
    expect((await world.visit(port, '/', { headers: { 'x-space-share': share.token } })).status).toBe(401);
    const events = (await world.call(world.operatorKey, 'GET', '/v1/events?follow=false')).text;
    for (const kind of ['share.created', 'share.revoked']) expect(events).toContain(`"kind":"${kind}"`);
    const { records } = await world.ask(world.operatorKey, 'GET', '/v1/audit');
    const calls = records.map(({ call }: { call: string }) => call);
    expect(calls).toEqual(expect.arrayContaining(['createShare', 'revokeShare']));
    expect(JSON.stringify(records) + events).not.toContain(share.token);
  });

  it('that is revoked or expires ends its connections within two seconds', async () => {
    const echo = await echoServer();
    const revoked = await world.share(echo);
    const expiring = await world.share(echo, { expiresInMs: 1_500 });
    const sockets: Duplex[] = [];
    for (const { token } of [revoked, expiring]) {
      const { status, socket } = await upgrade(echo, { 'x-space-share': token });
      expect(status).toBe(101);
      sockets.push(socket.on('error', () => undefined).resume());
    }
    const begun = performance.now();
    await world.ask(world.operatorKey, 'DELETE', `/v1/sandboxes/box/shares/${revoked.id}`);
    await until(() => sockets.every((socket) => socket.destroyed || socket.readableEnded), 6_000);
    expect(performance.now() - begun).toBeLessThan(4_500);
  });

  it('has a token that is not kept: the repeated call has null in its place', async () => {
    const send = () =>
      world.call(world.operatorKey, 'POST', '/v1/sandboxes/box/shares', { port }, { 'idempotency-key': 'share' });
    const [first, again] = [JSON.parse((await send()).text), JSON.parse((await send()).text)];
    expect(again).toEqual({ ...first, token: null, url: null });
  });
});

describe('a WebSocket', () => {
  it('passes both ways, from the first byte on, with a key or a share', async () => {
    const echo = await echoServer();
    const { token } = await world.share(echo);
    for (const headers of [{ 'x-space-key': world.operatorKey }, { 'x-space-share': token }]) {
      const { status, socket } = await upgrade(echo, { ...headers, 'sec-websocket-key': 'x' });
      expect(status).toBe(101);
      expect(await nextOf(socket)).toBe('hello ');
      socket.write('ping');
      expect(await nextOf(socket)).toBe('ping');
      socket.destroy();
    }
    await until(() => world.node.connectionsOf(world.sandboxId) === 0);
  });

  it('that the server refuses is an ordinary answer, and the connection carries nothing after it', async () => {
    const { status, socket } = await upgrade(port, { 'x-space-key': world.operatorKey });
    expect(status).toBe(200);
    await until(() => socket.destroyed);
  });

  it('to where nothing listens is a problem', async () => {
    expect((await upgrade(1, { 'x-space-key': world.operatorKey })).status).toBe(502);
  });

  it('of another protocol is an ordinary request', async () => {
    const headers = { 'x-space-key': world.operatorKey, upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQCAAAAAAIAAAAA' };
    expect((await upgrade(port, headers)).status).toBe(200);
  });
});

describe('the log', () => {
  it('has one line for a connection that was taken over, once it is over, and nothing of what it was', async () => {
    const lines: string[] = [];
    const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
    await using logged = await PortsWorld.start({ logger });
    const echo = await logged.serveTcp((socket) => void socket.pipe(socket));
    const requests = () => lines.map((line) => JSON.parse(line)).filter(({ route }) => route === 'port');
    const secret = 'canary-of-the-path';
    const open = (path: string, host: string, protocol: string) =>
      logged.raw(
        `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${logged.operatorKey}\r\n` +
          `Connection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`,
      );
    const tcp = open(`/v1/sandboxes/box/ports/${echo}/tcp`, `127.0.0.1:${logged.apiPort}`, 'tcp');
    expect(await nextOf(tcp)).toMatch(/^HTTP\/1.1 101 /);
    expect(requests()).toEqual([]);
    tcp.end(secret);
    await until(() => requests().length === 1);
    expect(requests()[0]).toMatchObject({ form: 'tcp', status: 101, complete: true, level: 30, msg: 'request' });
    const socketServer = await logged.serve(
      () => undefined,
      (server) =>
        server.on('upgrade', (_, socket: Duplex) => {
          socket.on('error', () => undefined);
          socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
        }),
    );
    const ws = open(`/${secret}?${secret}`, logged.hostOf(socketServer), 'websocket');
    expect(await nextOf(ws)).toMatch(/^HTTP\/1.1 101 /);
    ws.resetAndDestroy();
    await until(() => requests().length === 2);
    expect(requests()[1]).toMatchObject({ form: 'preview', status: 101, complete: false, level: 30 });
    for (const { requestId } of requests()) expect(requestId).toMatch(/^req_/);
    for (const hidden of [secret, logged.operatorKey, logged.sandboxId]) expect(lines.join('')).not.toContain(hidden);
  });
});

describe('the path form', () => {
  const path = (rest: string) => `/v1/sandboxes/box/ports/${port}/http${rest}`;

  it('reaches the server with a key in Authorization, and says nothing to a browser', async () => {
    const hostile = await world.serve((asked, answer) => {
      answer.setHeader('set-cookie', 'a=1');
      answer.setHeader('content-security-policy', 'script-src *');
      answer.end(JSON.stringify(asked.headers));
    });
    const answer = await world.call(world.operatorKey, 'GET', `/v1/sandboxes/box/ports/${hostile}/http/x`);
    expect(answer.status).toBe(200);
    expect(answer.text).not.toContain(world.operatorKey);
    expect(JSON.parse(answer.text)).toMatchObject({
      host: `localhost:${hostile}`,
      'x-forwarded-prefix': `/v1/sandboxes/box/ports/${hostile}/http`,
    });
    expect(answer.headers.get('set-cookie')).toBeNull();
    expect(answer.headers.get('content-security-policy')).toBe("sandbox; default-src 'none'");
    expect((await world.call(world.operatorKey, 'GET', path('/a?b=c'))).text).toBe('hello /a?b=c');
    expect((await world.call(world.operatorKey, 'GET', path('?b=c'))).text).toBe('hello /?b=c');
  });

  it('needs a key, the role, a sandbox of the project, and a port', async () => {
    expect((await world.call('nobody', 'GET', path('/'))).status).toBe(401);
    expect((await world.call(await newKey(['viewer']), 'GET', path('/'))).status).toBe(403);
    expect((await world.call(world.operatorKey, 'GET', path('/').replace('box', 'never'))).status).toBe(404);
    expect((await world.call(world.operatorKey, 'GET', path('/').replace(`${port}`, '0'))).status).toBe(400);
    const { token } = await world.share(port);
    expect((await world.call(token, 'GET', path('/'))).status).toBe(401);
  });
});

describe('use', () => {
  it('of a port wakes a paused sandbox; a list of shares does not', async () => {
    const pause = () => world.ask(world.operatorKey, 'POST', '/v1/sandboxes/box/pause', {});
    const status = async () => (await world.ask(world.operatorKey, 'GET', '/v1/sandboxes/box')).status;
    const { token } = await world.share(port);
    await pause();
    await world.ask(world.operatorKey, 'GET', '/v1/sandboxes/box/shares');
    expect((await world.visit(port, '/', { headers: {} })).status).toBe(401);
    expect(await status()).toBe('paused');
    for (const headers of [{ 'x-space-key': world.operatorKey }, { 'x-space-share': token }]) {
      expect((await world.visit(port, '/', { headers })).status).toBe(200);
      expect(await status()).toBe('running');
      await pause();
    }
  });
});

describe('a forwarded port', () => {
  const client = () => Sandbox.connect('box', { apiKey: world.operatorKey, baseUrl: world.url });

  it('carries bytes both ways, and each side ends by itself', async () => {
    const reverse = await world.serveTcp(async (socket) => {
      const all = await everything(socket);
      socket.end([...all].reverse().join(''));
    });
    await using forwarded = await (await client()).ports.forward(reverse);
    expect(forwarded.localHost).toBe('127.0.0.1');
    for (const text of ['abc', 'x'.repeat(200_000)]) {
      const socket = connect({ port: forwarded.localPort, host: '127.0.0.1', allowHalfOpen: true });
      socket.end(text);
      expect(await everything(socket)).toBe([...text].reverse().join(''));
    }
    await until(() => world.node.connectionsOf(world.sandboxId) === 0);
  });

  it('resets what cannot be connected, and says why', async () => {
    const errors: string[] = [];
    const sandbox = await client();
    await using forwarded = await sandbox.ports.forward(1, { onError: ({ code }) => errors.push(code) });
    const socket = connect(forwarded.localPort, '127.0.0.1').on('error', () => undefined);
    await until(() => socket.destroyed);
    expect(errors).toEqual(['port_refused']);
    await expect(sandbox.ports.forward(1, { localPort: forwarded.localPort })).rejects.toThrow('is in use');
  });

  it('is reset when the sandbox is paused, and ends with the client', async () => {
    const echo = await world.serveTcp((socket) => void socket.pipe(socket));
    const forwarded = await (await client()).ports.forward(echo);
    const open = async () => {
      const socket = connect(forwarded.localPort, '127.0.0.1');
      socket.write('ping');
      expect(await nextOf(socket)).toBe('ping');
      return socket;
    };
    const first = await open();
    const failed = new Promise<NodeJS.ErrnoException>((resolve) => first.once('error', resolve));
    await world.ask(world.operatorKey, 'POST', '/v1/sandboxes/box/pause', {});
    expect((await failed).code).toBe('ECONNRESET');
    const second = (await open()).on('error', () => undefined);
    await forwarded.close();
    await until(() => second.destroyed);
    await until(() => world.node.connectionsOf(world.sandboxId) === 0);
  });

  it('needs an upgrade: asked for otherwise, the call says so', async () => {
    const { status, text } = await world.call(world.operatorKey, 'GET', `/v1/sandboxes/box/ports/${port}/tcp`);
    expect(status).toBe(426);
    expect(JSON.parse(text)).toMatchObject({ code: 'upgrade_required' });
  });

  it('has URLs, shares and calls beside it', async () => {
    const { ports } = await client();
    expect(await ports.url(port)).toBe(`http://${world.hostOf(port).replace(/:\d+$/, '')}:${world.apiPort}`);
    const share = await ports.share(port, { name: 'sdk' });
    expect((await ports.shares({ port })).map(({ id }) => id)).toContain(share.id);
    expect(await (await ports.fetch(port, '/x')).text()).toBe('hello /x');
    await ports.revoke(share);
    expect((await ports.shares({ port })).map(({ id }) => id)).not.toContain(share.id);
    await expect(ports.share(port, { expiresMs: 1 } as object)).rejects.toMatchObject({ code: 'misused' });
  });

  it('sends its key where the caller said, not where a sandbox says', async () => {
    const luring = await world.serve((_, answer) => answer.writeHead(307, { location: '/v1/sandboxes/box' }).end());
    const sandbox = await client();
    const answered = await sandbox.ports.fetch(luring, '/', { method: 'DELETE' });
    expect([answered.status, answered.headers.get('location')]).toEqual([307, '/v1/sandboxes/box']);
    for (const path of ['/../../../../box', '..%2f/../../..', '/%2e%2e/tcp']) {
      await expect(sandbox.ports.fetch(port, path)).rejects.toMatchObject({ code: 'misused' });
    }
    expect((await sandbox.refresh()).status).toBe('running');
  });
});
