/** Requests into sandboxes: which get there, and what the others are told. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, request, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { World } from './world.ts';

let world: World;
const servers: Server[] = [];
beforeAll(async () => {
  world = await World.start();
});
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});
afterAll(() => world[Symbol.asyncDispose]());

interface Made {
  readonly sandboxID: string;
  readonly envdAccessToken: string;
  readonly trafficAccessToken: string | null;
}

async function make(body: object = {}): Promise<Made> {
  return (await world.call('POST', '/v2/sandboxes', { templateID: 'base', ...body })).body;
}

/** A server in every sandbox of a fake platform. */
async function serve(listener: RequestListener): Promise<number> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  servers.push(server);
  return (server.address() as AddressInfo).port;
}

async function visit(sandboxID: string, port: number, path = '/', more: Record<string, string> = {}) {
  const headers = { 'e2b-sandbox-id': sandboxID, 'e2b-sandbox-port': String(port), ...more };
  const response = await fetch(world.url + path, { headers });
  const text = await response.text();
  return { status: response.status, text, body: text.startsWith('{') ? JSON.parse(text) : undefined };
}

const ENVD = 49_983;
const MISSING = { status: 502, body: { message: 'The sandbox was not found', code: 502 } };

describe('a port', () => {
  it('of a public sandbox is reached without anything, and hears nothing of what is ours', async () => {
    const { sandboxID, envdAccessToken, trafficAccessToken } = await make();
    expect(trafficAccessToken).toBeNull();
    let heard: IncomingMessage['headers'] = {};
    const port = await serve((request, response) => {
      heard = request.headers;
      response.end(`hello ${request.url}`);
    });
    const key = world.platform.connection.apiKey;
    const ours = { 'x-access-token': envdAccessToken, 'e2b-traffic-access-token': 'b', 'x-api-key': key };
    for (const authorization of [`Bearer ${envdAccessToken}`, `bearer ${key}`]) {
      const more = { ...ours, authorization, 'x-mine': 'd' };
      expect(await visit(sandboxID, port, '/a?b=c', more)).toMatchObject({ status: 200, text: 'hello /a?b=c' });
      expect(heard['x-mine']).toBe('d');
      expect(Object.keys(heard).filter((name) => /^(e2b-|x-access|x-api|authorization)/.test(name))).toEqual([]);
    }
    // The same headers may be those of what listens there.
    const theirs = { 'x-api-key': 'theirs', 'x-access-token': 'too', authorization: 'Bearer of-theirs' };
    await visit(sandboxID, port, '/', theirs);
    expect(heard).toMatchObject(theirs);
  });

  it('of a public sandbox goes on as a WebSocket', async () => {
    const { sandboxID } = await make();
    const port = await serve((_request, response) => response.writeHead(426).end());
    servers.at(-1)?.on('upgrade', (_request, socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
      socket.pipe(socket);
    });
    const upgrade = { connection: 'Upgrade', upgrade: 'websocket' };
    const headers = { 'e2b-sandbox-id': sandboxID, 'e2b-sandbox-port': String(port), ...upgrade };
    const asked = request(world.url, { headers }).end();
    const [answer, socket] = (await once(asked, 'upgrade')) as [IncomingMessage, Socket];
    expect(answer.headers.upgrade).toBe('websocket');
    socket.write('there and back');
    expect(String((await once(socket, 'data'))[0])).toBe('there and back');
    socket.destroy();
  });

  it('of a private one takes its token, and nothing else', async () => {
    const { sandboxID, envdAccessToken, trafficAccessToken } = await make({ network: { allowPublicTraffic: false } });
    const other = await make({ network: { allowPublicTraffic: false } });
    const port = await serve((_request, response) => response.end('hello'));
    const with_ = (token: string | null) => visit(sandboxID, port, '/', { 'e2b-traffic-access-token': token ?? '' });
    expect(await with_(trafficAccessToken)).toMatchObject({ status: 200, text: 'hello' });
    for (const token of ['', 'x', envdAccessToken, other.trafficAccessToken]) {
      expect(await with_(token)).toMatchObject({ status: 403, body: { code: 403 } });
    }
    expect((await visit(sandboxID, port)).status).toBe(403);
  });

  it('is reached by a name of this server only', async () => {
    const { sandboxID } = await make();
    const headers = { 'e2b-sandbox-id': sandboxID, 'e2b-sandbox-port': '80', host: 'evil.example' };
    const [answer] = (await once(request(world.url, { headers }).end(), 'response')) as [IncomingMessage];
    expect(answer.resume().statusCode).toBe(421);
  });

  it('where nothing listens is told apart from a sandbox that is not there', async () => {
    const { sandboxID } = await make();
    expect(await visit(sandboxID, 1)).toMatchObject({
      status: 502,
      body: { sandboxId: sandboxID, message: 'The sandbox is running but port is not open', port: 1, code: 502 },
    });
    for (const id of ['sbx0000000000000000', 'ifoo', 'x']) {
      expect(await visit(id, 1)).toMatchObject({ ...MISSING, body: { ...MISSING.body, sandboxId: id } });
    }
    expect((await visit(sandboxID, 0)).status).toBe(400);
    expect((await visit(sandboxID, 70_000)).status).toBe(400);
  });

  it('of a sandbox that our own API made is not open, though it is known', async () => {
    const { apiKey, baseUrl } = world.platform.connection;
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
    const response = await fetch(`${baseUrl}/v1/sandboxes`, { method: 'POST', headers, body: '{}' });
    const { id } = (await response.json()) as { id: string };
    const port = await serve((_request, answer) => answer.end('hello'));
    expect((await visit(id.replace('_', ''), port)).status).toBe(403);
    expect((await visit(id.replace('_', ''), ENVD, '/files?path=/a', { 'x-access-token': 'x' })).status).toBe(401);
  });

  it('wakes a paused sandbox that says so, for five minutes at least, and no other', async () => {
    const port = await serve((_request, response) => response.end('hello'));
    const stateOf = async (id: string) => (await world.call('GET', `/sandboxes/${id}`)).body;
    const waking = await make({ autoPause: true, autoResume: { enabled: true }, timeout: 30 });
    const sleeping = await make({ autoPause: true, timeout: 30 });
    for (const { sandboxID } of [waking, sleeping]) await world.call('POST', `/sandboxes/${sandboxID}/pause`, {});
    expect(await visit(sleeping.sandboxID, port)).toMatchObject(MISSING);
    expect(await stateOf(sleeping.sandboxID)).toMatchObject({ state: 'paused' });
    expect((await visit(waking.sandboxID, ENVD, '/health')).status).toBe(502);
    expect(await visit(waking.sandboxID, port)).toMatchObject({ status: 200, text: 'hello' });
    const woken = await stateOf(waking.sandboxID);
    expect(woken).toMatchObject({ state: 'running', lifecycle: { autoResume: true, onTimeout: 'pause' } });
    expect(Math.abs(Date.parse(woken.endAt) - Date.now() - 300_000)).toBeLessThan(5_000);
  });
});

describe('what runs commands', () => {
  it('says that it is there to everybody, and the rest to who has the token', async () => {
    const { sandboxID, envdAccessToken } = await make();
    const other = await make();
    expect((await visit(sandboxID, ENVD, '/health')).status).toBe(204);
    for (const more of [{}, { 'x-access-token': 'x' }, { 'x-access-token': other.envdAccessToken }]) {
      const refused = await visit(sandboxID, ENVD, '/metrics', more);
      expect(refused).toMatchObject({
        status: 401,
        body: { code: 401, message: expect.stringContaining('unauthorized') },
      });
    }
    expect((await visit(sandboxID, ENVD, '/nothing', { 'x-access-token': envdAccessToken })).status).toBe(404);
    await world.call('DELETE', `/sandboxes/${sandboxID}`);
    expect(await visit(sandboxID, ENVD, '/health')).toMatchObject(MISSING);
    expect(await visit(sandboxID, ENVD, '/metrics', { 'x-access-token': envdAccessToken })).toMatchObject(MISSING);
  });

  it('is asked how it is without being woken', async () => {
    const { sandboxID, envdAccessToken } = await make({ autoPause: true, autoResume: { enabled: true } });
    await world.call('POST', `/sandboxes/${sandboxID}/pause`, {});
    for (const path of ['/health', '/metrics'])
      expect(await visit(sandboxID, ENVD, path, { 'x-access-token': envdAccessToken })).toMatchObject(MISSING);
    expect((await world.call('GET', `/sandboxes/${sandboxID}`)).body).toMatchObject({ state: 'paused' });
  });

  it('does what was signed, and nothing that can be added to it', async () => {
    const { sandboxID, envdAccessToken } = await make();
    const own = { 'x-access-token': envdAccessToken, 'content-type': 'application/octet-stream' };
    const put = async (path: string, text: string) => {
      const headers = { 'e2b-sandbox-id': sandboxID, 'e2b-sandbox-port': `${ENVD}`, ...own };
      const response = await fetch(`${world.url}/files?path=${path}`, { method: 'POST', headers, body: text });
      expect(response.status).toBe(200);
    };
    await put('/home/user/a.txt', 'signed');
    await put('/root/a.txt', 'not signed');
    const sign = (text: string) =>
      encodeURIComponent(`v1_${createHash('sha256').update(text).digest('base64').replace(/=+$/, '')}`);
    const signature = sign(`a.txt:read::${envdAccessToken}`);
    const signed = `/files?path=a.txt&signature=${signature}`;
    expect(await visit(sandboxID, ENVD, signed)).toMatchObject({ status: 200, text: 'signed' });
    expect((await visit(sandboxID, ENVD, `${signed}&z=?&username=root`)).status).toBe(401);
    expect((await visit(sandboxID, ENVD, `${signed}&path=/root/a.txt`)).text).toBe('signed');
    // What a URL object would take away has to be sent as it is.
    const hidden = `/files?path=a.txt#.bak&signature=${sign(`a.txt#.bak:read::${envdAccessToken}`)}`;
    const headers = { 'e2b-sandbox-id': sandboxID, 'e2b-sandbox-port': `${ENVD}` };
    const { hostname, port } = new URL(world.url);
    const asked = request({ hostname, port, path: hidden, headers }).end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    expect(answer.resume().statusCode).toBe(400);
  });

  it('is not begun for a time that is over', async () => {
    const { sandboxID } = await make({ autoPause: true });
    const path = `/sandboxes/${sandboxID}`;
    await world.call('POST', `${path}/pause`, {});
    for (const timeout of [-5, 0, Number.MIN_SAFE_INTEGER]) {
      const body = { code: 400, message: 'Timeout must be greater than 0' };
      expect(await world.call('POST', `/v2${path}/connect`, { timeout })).toMatchObject({ status: 400, body });
    }
    expect((await world.call('GET', path)).body).toMatchObject({ state: 'paused' });
  });

  it('tells who waits for it that a body is wanted', async () => {
    const { sandboxID, envdAccessToken } = await make();
    const { hostname, port } = new URL(world.url);
    const own = {
      'x-access-token': envdAccessToken,
      'content-type': 'application/octet-stream',
      expect: '100-continue',
    };
    const headers = { 'e2b-sandbox-id': sandboxID, 'e2b-sandbox-port': `${ENVD}`, 'content-length': 5, ...own };
    const asked = request({ hostname, port, path: '/files?path=/home/user/e', method: 'POST', headers });
    asked.flushHeaders();
    await once(asked, 'continue');
    asked.end('hello');
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    expect(answer.resume().statusCode).toBe(200);
  });

  it('takes a signature in place of the token for one file, until it expires', async () => {
    const { sandboxID, envdAccessToken } = await make();
    const sign = (text: string) => `v1_${createHash('sha256').update(text).digest('base64').replace(/=+$/, '')}`;
    const later = Math.floor(Date.now() / 1000) + 60;
    const before = later - 120;
    const get = (query: string) => visit(sandboxID, ENVD, `/files?path=/a${query}`);
    const good = encodeURIComponent(sign(`/a:read::${envdAccessToken}:${later}`));
    const expired = encodeURIComponent(sign(`/a:read::${envdAccessToken}:${before}`));
    const writing = encodeURIComponent(sign(`/a:write::${envdAccessToken}:${later}`));
    expect((await get(`&signature=${good}&signature_expiration=${later}`)).status).not.toBe(401);
    for (const [query, message] of [
      ['', 'missing signature query parameter'],
      [`&signature=${good}`, 'invalid signature'],
      [`&signature=${good}&signature_expiration=${later}&username=root`, 'invalid signature'],
      [`&signature=${writing}&signature_expiration=${later}`, 'invalid signature'],
      [`&signature=${expired}&signature_expiration=${before}`, 'signature is already expired'],
    ] as const) {
      expect(await get(query)).toMatchObject({ status: 401, body: { code: 401, message } });
    }
  });

  it('finds whose a signed URL is where it names no sandbox: what the SDKs print works as it is', async () => {
    const [{ sandboxID, envdAccessToken }, other] = [await make(), await make()];
    for (const { sandboxId, token, text } of [
      { sandboxId: sandboxID, token: envdAccessToken, text: 'one' },
      { sandboxId: other.sandboxID, token: other.envdAccessToken, text: 'other' },
    ]) {
      const sign = (what: string) =>
        encodeURIComponent(`v1_${createHash('sha256').update(what).digest('base64').replace(/=+$/, '')}`);
      const url = `${world.url}/files?path=/home/user/a.txt&username=user`;
      const form = new FormData();
      form.append('file', new Blob([text]), 'a.txt');
      const upload = `${url}&signature=${sign(`/home/user/a.txt:write:user:${token}`)}`;
      expect((await fetch(upload, { method: 'POST', body: form })).status).toBe(200);
      const download = `${url}&signature=${sign(`/home/user/a.txt:read:user:${token}`)}`;
      expect(await (await fetch(download)).text()).toBe(text);
      // And it is that sandbox's file.
      const own = await visit(sandboxId, ENVD, '/files?path=/home/user/a.txt', { 'x-access-token': token });
      expect(own.text).toBe(text);
      // One for reading does not write, and what is added is not signed.
      expect((await fetch(download, { method: 'POST', body: form })).status).toBe(401);
      expect((await fetch(download.replace('a.txt', 'b.txt'))).status).toBe(401);
      const hidden = `${world.url}/files?path=/home/user/a.txt?signature=x`;
      expect((await fetch(hidden)).status).toBe(401);
      const preflight = { method: 'OPTIONS', headers: { 'access-control-request-method': 'GET' } };
      expect((await fetch(download, preflight)).status).toBe(204);
    }
    const past = Math.floor(Date.now() / 1000) - 60;
    const expired = createHash('sha256')
      .update(`/a:read::${envdAccessToken}:${past}`)
      .digest('base64')
      .replace(/=+$/, '');
    const late = await fetch(
      `${world.url}/files?path=/a&signature=${encodeURIComponent(`v1_${expired}`)}&signature_expiration=${past}`,
    );
    expect([late.status, await late.json()]).toEqual([401, { code: 401, message: 'signature is already expired' }]);
    await world.call('DELETE', `/sandboxes/${sandboxID}`);
  });

  // Last: the address that all of these come from is slowed down by it.
  it('serves who has the token, however many others have tried at the same address', async () => {
    const { sandboxID, envdAccessToken } = await make();
    const statuses = new Set<number>();
    for (let i = 0; i < 40; i++)
      statuses.add((await visit(sandboxID, ENVD, '/envs', { 'x-access-token': `x${i}` })).status);
    expect([...statuses]).toEqual([401, 429]);
    expect((await visit(sandboxID, ENVD, '/envs', { 'x-access-token': envdAccessToken })).status).toBe(200);
  });

  it('looks for whose signature it is only so often for who has none that is right', async () => {
    const statuses = new Set<number>();
    for (let i = 0; i < 40; i++) statuses.add((await fetch(`${world.url}/files?path=/a&signature=v1_${i}`)).status);
    expect([...statuses]).toEqual([401, 429]);
  });
});
