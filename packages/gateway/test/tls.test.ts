import { once } from 'node:events';
import { readdir, stat } from 'node:fs/promises';
import type { IncomingMessage, RequestListener } from 'node:http';
import { request } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { AllowRule } from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { allow, ORGANISATION, SANDBOX, text, World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await World.open();
});
afterEach(() => world.close());

async function get(socket: Duplex, host: string): Promise<{ status: number; body: string }> {
  const asked = request({ createConnection: () => socket as never, headers: { host } });
  asked.end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await text(response) };
}

it('is ended also where gateway and node are one process, without a socket between them', async () => {
  const own = await World.open({ inProcess: true });
  try {
    const port = await own.serveHttps('a.test', (_incoming, answer) => answer.end('well'));
    await own.allow({ allow: [allow({ host: 'a.test' })] });
    expect(await get(await own.tls('a.test', port), `a.test:${port}`)).toEqual({ status: 200, body: 'well' });
  } finally {
    await own.close();
  }
});

describe('the host of a connection', () => {
  it.each([
    ['SNI of a host that is allowed, on a connection to one that is not', 'b.test', 'a.test', 'a.test'],
    ['SNI of another host, on a connection to one that is allowed', 'a.test', 'b.test', 'b.test'],
    ['another Host than SNI', 'a.test', 'a.test', 'b.test'],
    ['an address, with SNI and Host of a host that is allowed', '127.0.0.1', 'a.test', 'a.test'],
  ])('is one: %s is refused', async (_what, dialled, servername, host) => {
    let heard = 0;
    const port = await world.serveHttps('a.test', (_incoming, answer) => {
      heard++;
      answer.end();
    });
    world.names.set('b.test', ['127.0.0.1']);
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const tls = await world.tls(dialled, port, { servername });
    expect(await get(tls, `${host}:${port}`)).toMatchObject({ status: 403 });
    expect(heard).toBe(0);
  });

  it('without SNI is the name that was dialled', async () => {
    const port = await world.serveHttps('a.test', (_incoming, answer) => answer.end('well'));
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const tls = await world.tls('a.test', port, { servername: null });
    expect(await get(tls, `a.test:${port}`)).toEqual({ status: 200, body: 'well' });
  });

  it('must prove itself: a certificate of another host is told, and no request is sent', async () => {
    let heard = 0;
    const port = await world.serveHttps('a.test', () => heard++, 'other.test');
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const told = await get(await world.tls('a.test', port), `a.test:${port}`);
    expect(told).toMatchObject({ status: 502, body: expect.stringContaining('did not prove who it is') });
    expect(heard).toBe(0);
  });

  it('need not prove itself again for the next connection, and another one in its place must', async () => {
    const resumed: boolean[] = [];
    const listener: RequestListener = ({ socket }, answer) => {
      resumed.push((socket as TLSSocket).isSessionReused());
      answer.end('well');
    };
    const port = await world.serveHttps('a.test', listener);
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    for (let time = 0; time < 3; time++) await get(await world.tls('a.test', port), `a.test:${port}`);
    expect(resumed).toEqual([false, true, true]);
    await world.serveHttps('b.test', listener, 'b.test', { host: '127.0.0.2', port });
    world.names.set('a.test', ['127.0.0.2']);
    expect(await get(await world.tls('a.test', port), `a.test:${port}`)).toMatchObject({ status: 502 });
    expect(resumed.length).toBe(3);
  });

  it('must have a certificate that somebody whom the gateway believes has signed', async () => {
    const { certificatePem } = await world.gateway.trust(ORGANISATION);
    expect(certificatePem).toMatch(/^-----BEGIN CERTIFICATE-----/);
    const port = await world.serveTcp('a.test', (socket) => socket.end('no TLS'));
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    expect(await get(await world.tls('a.test', port), `a.test:${port}`)).toMatchObject({ status: 502 });
  });
});

describe('a program that takes HTTP/1.1 and nothing else, whose TLS waits for no host', () => {
  const protocols = ['http/1.1'];

  it('is answered by the host', async () => {
    const port = await world.serveHttps('a.test', (_incoming, answer) => answer.end('well'));
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    expect(await get(await world.tls('a.test', port, { protocols }), `a.test:${port}`)).toEqual({
      status: 200,
      body: 'well',
    });
  });

  it('has its TLS before the host has answered, and is told when that does not prove who it is', async () => {
    const sockets: Socket[] = [];
    const port = await world.serveTcp('a.test', (socket) => sockets.push(socket));
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const tls = await world.tls('a.test', port, { protocols });
    const told = get(tls, `a.test:${port}`);
    await expect.poll(() => sockets.length).toBe(1);
    sockets[0]?.end('no TLS');
    expect(await told).toMatchObject({ status: 502, body: expect.stringContaining('did not prove who it is') });
    await expect.poll(() => world.records()).toMatchObject([{ host: 'a.test', method: 'GET', outcome: 'failed' }]);
  });

  it('is told of an address that it may not reach', async () => {
    world.names.set('evil.example', ['10.0.0.1']);
    await world.allow({ preset: 'internet' });
    const told = await get(await world.tls('evil.example', 443, { protocols }), 'evil.example');
    expect(told).toMatchObject({ status: 403, body: expect.stringContaining('public addresses only') });
    await expect.poll(() => world.records()).toMatchObject([{ outcome: 'refused', rule: 'public addresses only' }]);
  });

  it('is cut by new rules while the host has not answered, and leaves no connection to that', async () => {
    let open = 0;
    const port = await world.serveTcp('a.test', (socket) => {
      open++;
      socket.once('end', () => open--).resume();
    });
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const tls = await world.tls('a.test', port, { protocols });
    await expect.poll(() => open).toBe(1);
    await world.allow({});
    await once(tls.resume(), 'close');
    await expect.poll(() => open).toBe(0);
  });
});

describe('a program that is slow to say what it wants', () => {
  it('is told all the same why nothing leaves, although it was found out before', async () => {
    world.names.set('evil.example', ['10.0.0.1']);
    await world.allow({ preset: 'internet' });
    const { socket } = world.open('evil.example', 443);
    await expect.poll(() => world.lookedUp).toEqual(['evil.example']);
    const { certificatePem } = await world.gateway.trust(ORGANISATION);
    const tls = connectTls({ socket, ca: certificatePem, servername: 'evil.example' });
    const told = await get(tls, 'evil.example');
    expect(told).toMatchObject({ status: 403, body: expect.stringContaining('public addresses only') });
  });
});

describe('TLS that a rule lets pass unopened', () => {
  it('reaches the host as it is, with its own certificate, by its SNI only', async () => {
    const port = await world.serveHttps('a.test', (_incoming, answer) => answer.end('well'));
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tls' })] });
    const { socket } = world.open('a.test', port);
    const tls = connectTls({ socket, servername: 'a.test', rejectUnauthorized: false });
    await once(tls, 'secureConnect');
    expect(tls.getPeerCertificate().issuer.CN).toMatch(/0002$/);
    expect(await get(tls, `anything`)).toEqual({ status: 200, body: 'well' });
    socket.destroy();
    await expect.poll(() => world.records()).toMatchObject([{ protocol: 'tls', host: 'a.test', method: null }]);
  });

  it('does not with the SNI of another host', async () => {
    const port = await world.serveHttps('a.test', (_incoming, answer) => answer.end('well'));
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tls' })] });
    const tls = await world.tls('a.test', port, { servername: 'b.test' });
    expect(await get(tls, 'b.test')).toMatchObject({ status: 403 });
  });
});

describe('the authority of an organisation', () => {
  it('is kept where only the gateway reads it, and is the same the next time', async () => {
    const first = await world.gateway.trust(ORGANISATION);
    expect(await world.gateway.trust(ORGANISATION)).toEqual(first);
    const [file = ''] = await readdir(world.ownFolder);
    expect(file).toBe(`${ORGANISATION}.pem`);
    expect((await stat(`${world.ownFolder}/${file}`)).mode & 0o077).toBe(0);
    expect((await world.again().trust(ORGANISATION)).certificatePem).toBe(first.certificatePem);
  });

  it('is not that of another', async () => {
    const other = 'org_0000000000000009' as typeof ORGANISATION;
    expect(await world.gateway.trust(other)).not.toEqual(await world.gateway.trust(ORGANISATION));
  });
});

/** What SPECIFICATION.md promises of a policy that is tightened. */
const REACHED_WITHIN_MS = 2_000;

function sendOn(socket: Duplex, bytes: string): Duplex {
  socket.write(bytes, 'latin1');
  return socket;
}

const uploadTo = (port: number): string =>
  `POST / HTTP/1.1\r\nHost: a.test:${port}\r\nContent-Length: 1000\r\n\r\nbegun`;
const upgradeTo = (port: number): string =>
  `GET / HTTP/1.1\r\nHost: a.test:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';

/** A host that has heard something, and says no more. */
function serveFor(what: string, heard: () => void): Promise<number> {
  if (what === 'other bytes') return world.serveTcp('a.test', (socket) => void socket.on('data', heard));
  if (what.endsWith('clear text')) return world.serveHttp('a.test', (incoming) => void incoming.on('data', heard));
  const onUpgrade = (socket: Duplex): void => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    heard();
  };
  return world.serveHttps('a.test', (incoming) => void incoming.on('data', heard), 'a.test', { onUpgrade });
}

describe('rules that change', () => {
  it('cut what they do not allow any more before they are in force, and leave the rest', async () => {
    const port = await world.serveHttps('a.test', (_incoming, answer) => answer.writeHead(200).write('begun'));
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const tls = await world.tls('a.test', port);
    const asked = request({ createConnection: () => tls as never, headers: { host: `a.test:${port}` } });
    asked.on('error', () => undefined);
    asked.end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    const closed = new Promise((resolve) =>
      response
        .on('error', () => undefined)
        .on('close', resolve)
        .resume(),
    );
    await world.allow({ allow: [allow({ host: 'a.test', access: 'read' })] });
    expect(tls.destroyed).toBe(false);
    await world.allow({ allow: [allow({ host: 'a.test', path: '/other' })] });
    await closed;
    expect(response.complete).toBe(false);
    await expect.poll(() => world.records()).toMatchObject([{ outcome: 'cut', status: null, rule: 'allow 1: a.test' }]);
  });

  it.each<[string, Partial<AllowRule>, (port: number) => Promise<Duplex>]>([
    ['an upload', {}, async (port) => sendOn(await world.tls('a.test', port), uploadTo(port))],
    ['an upload in clear text', {}, async (port) => sendOn(world.open('a.test', port).socket, uploadTo(port))],
    ['a WebSocket', {}, async (port) => sendOn(await world.tls('a.test', port), upgradeTo(port))],
    ['other bytes', { protocol: 'tcp' }, async (port) => sendOn(world.open('a.test', port).socket, '\0\x01')],
  ])('reach %s within two seconds, and it is recorded as cut', async (what, rule, begin) => {
    const begun = Promise.withResolvers<void>();
    const port = await serveFor(what, () => begun.resolve());
    await world.allow({ allow: [allow({ host: 'a.test', ...rule })] });
    const socket = await begin(port);
    await begun.promise;
    const closed = once(socket.resume(), 'close');
    const changedAtMs = performance.now();
    await world.allow({ allow: [allow({ host: 'b.test' })] });
    await closed;
    expect(performance.now() - changedAtMs).toBeLessThan(REACHED_WITHIN_MS);
    await expect.poll(() => world.records()).toMatchObject([{ outcome: 'cut' }]);
  });

  it('cut an idle connection to a host that is not allowed any more', async () => {
    const port = await world.serveHttps('a.test', (_incoming, answer) => answer.end('well'));
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const tls = await world.tls('a.test', port);
    const closed = once(tls, 'close');
    await world.gateway.dropRules(SANDBOX);
    await closed;
  });
});

describe('a connection that is open', () => {
  it.each<[string, () => void, object]>([
    ['its life', () => world.ended.abort(new Error('the sandbox was paused')), { message: 'the sandbox was paused' }],
    ['the gateway', () => world.gateway.close(), { code: 'unavailable' }],
  ])('ends with %s: the host and the program are told, and it is recorded as cut', async (_whose, end, reason) => {
    const begun = Promise.withResolvers<void>();
    const gone = Promise.withResolvers<void>();
    const port = await world.serveHttp('a.test', (incoming) => {
      incoming.on('error', () => gone.resolve()).on('data', () => begun.resolve());
    });
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const { socket, carried } = world.open('a.test', port);
    sendOn(socket, uploadTo(port));
    await begun.promise;
    const closed = once(socket, 'close');
    end();
    expect(await carried).toMatchObject(reason);
    await Promise.all([closed, gone.promise]);
    await expect.poll(() => world.records()).toMatchObject([{ outcome: 'cut' }]);
  });
});
