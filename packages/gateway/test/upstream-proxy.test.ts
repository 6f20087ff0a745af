import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { allow, text, World } from './world.ts';

/** What the proxy was asked for, and by whom. */
let asked: { readonly authority: string; readonly authorization: string | undefined }[];
/** What it answers instead of letting through. */
let answers: string | null;
let proxy: Server;
let world: World;
const sockets = new Set<Duplex>();

/** All names are on loopback to it. */
function letThrough(incoming: IncomingMessage, socket: Duplex): void {
  sockets.add(socket);
  socket.on('error', () => undefined);
  asked.push({ authority: incoming.url ?? '', authorization: incoming.headers['proxy-authorization'] });
  if (answers !== null) return void socket.end(answers);
  const far: Socket = connect(Number(incoming.url?.split(':').at(-1)), '127.0.0.1', () => {
    socket.write('HTTP/1.1 200 Connection established\r\nX-Any: thing\r\n\r\n');
    socket.pipe(far).pipe(socket);
  });
  sockets.add(far);
  far.on('error', () => socket.destroy());
}

beforeEach(async () => {
  asked = [];
  answers = null;
  proxy = createServer().on('connect', letThrough);
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const { port } = proxy.address() as AddressInfo;
  world = await World.open({ upstreamProxy: { host: '127.0.0.1', port, authorization: 'Basic eDp5' } });
});
afterEach(async () => {
  await world.close();
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  await new Promise((resolve) => proxy.close(resolve));
});

async function get(socket: Duplex, host: string): Promise<{ readonly status: number; readonly body: string }> {
  const sent = request({ createConnection: () => socket as never, path: '/', headers: { host } });
  sent.end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await text(response) };
}

describe('a proxy that all leaves by', () => {
  it('is asked by the name, which nobody here resolves; the host proves itself all the same', async () => {
    const port = await world.serveHttps('a.test', (_, answer) => answer.end('in TLS'));
    const other = await world.serveHttps('b.test', (_, answer) => answer.end('no'), 'other.test');
    const plain = await world.serveHttp('c.test', (_, answer) => answer.end('in clear text'));
    await world.allow({ allow: [allow({ host: '*.test' })] });
    expect(await get(await world.tls('a.test', port), `a.test:${port}`)).toEqual({ status: 200, body: 'in TLS' });
    expect(await get(world.open('c.test', plain).socket, `c.test:${plain}`)).toEqual({
      status: 200,
      body: 'in clear text',
    });
    expect(await get(await world.tls('b.test', other), `b.test:${other}`)).toMatchObject({ status: 502 });
    expect(world.lookedUp).toEqual([]);
    expect(asked).toContainEqual({ authority: `a.test:${port}`, authorization: 'Basic eDp5' });
    expect(asked.map(({ authority }) => authority)).toContain(`c.test:${plain}`);
    expect(await world.gateway.health()).toMatchObject({ pinsAddresses: false });
  });

  it('carries other bytes too, also of a host that speaks first', async () => {
    const port = await world.serveTcp('d.test', (socket) => void socket.end('220 hello\n'));
    await world.allow({ allow: [allow({ host: 'd.test', protocol: 'tcp' })] });
    expect(await text(world.open('d.test', port).socket)).toBe('220 hello\n');
  });

  it.each(['10.0.0.1', '169.254.169.254', '::ffff:10.0.0.1', 'localhost', 'x.localhost', 'db.internal', 'router'])(
    'is not asked for what is not public by its form: %s',
    async (host) => {
      await world.allow({ preset: 'internet' }, { privateHosts: [] });
      expect(await get(world.open(host, 80).socket, host.includes(':') ? `[${host}]` : host)).toMatchObject({
        status: 403,
      });
      expect(asked).toEqual([]);
    },
  );

  it('is not asked for itself, nor for what no rule allows', async () => {
    const { port } = proxy.address() as AddressInfo;
    await world.allow({ allow: [allow({ host: '127.0.0.1' })] });
    expect(await get(world.open('127.0.0.1', port).socket, `127.0.0.1:${port}`)).toMatchObject({ status: 403 });
    expect(await get(world.open('other.test', 80).socket, 'other.test')).toMatchObject({ status: 403 });
    expect(asked).toEqual([]);
  });

  it.each([
    'HTTP/1.1 407 Proxy Authentication Required\r\n\r\n',
    'HTTP/1.1 200\n\n',
    'what\r\n\r\n',
    `HTTP/1.1 200 OK\r\nA: ${'x'.repeat(20_000)}`,
    '',
  ])('that does not let it through is told: %j', async (said) => {
    answers = said;
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const told = await get(world.open('a.test', 80).socket, 'a.test');
    expect(told).toMatchObject({
      status: 502,
      body: expect.stringMatching(/a\.test, port 80, is not reached: the proxy/),
    });
  });
});
