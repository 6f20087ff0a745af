/** Previews carry HTTP as it comes, both ways, and nothing of ours goes into a sandbox. */
import { createHash, randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { everything, PortsWorld, until } from './world.ts';

let world: PortsWorld;
beforeAll(async () => {
  world = await PortsWorld.start();
});
afterAll(() => world[Symbol.asyncDispose]());
/** Nothing stays open behind a request, however it ended. */
afterEach(() => until(() => world.node.connectionsOf(world.sandboxId) === 0));

/** A server that tells what it was asked. */
const mirror = () =>
  world.serve((asked, answer) => {
    answer.setHeader('content-type', 'application/json');
    answer.end(JSON.stringify({ method: asked.method, url: asked.url, headers: asked.headers, raw: asked.rawHeaders }));
  });

const head = (port: number, lines: readonly string[]) =>
  `${lines[0]}\r\nHost: ${world.hostOf(port)}\r\nX-Space-Key: ${world.operatorKey}\r\n${lines
    .slice(1)
    .map((line) => `${line}\r\n`)
    .join('')}\r\n`;

describe('a request', () => {
  it('reaches the server with its method, target and headers, and says where it comes from', async () => {
    const port = await mirror();
    const { status, text } = await world.visit(port, '/a%2Fb//c?d=1&d=2', {
      method: 'DELETE',
      headers: { 'x-space-key': world.operatorKey, 'x-own': 'kept', 'x-forwarded-for': '6.6.6.6', via: 'lies' },
    });
    const seen = JSON.parse(text);
    expect(status).toBe(200);
    expect(seen).toMatchObject({ method: 'DELETE', url: '/a%2Fb//c?d=1&d=2' });
    expect(seen.headers).toMatchObject({
      host: world.hostOf(port),
      'x-own': 'kept',
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-host': world.hostOf(port),
      'x-forwarded-proto': 'http',
    });
    expect(seen.headers.via).toBeUndefined();
  });

  it('brings no key, no token, no cookie of ours and no header of ours into the sandbox', async () => {
    const port = await mirror();
    const { token } = await world.share(port);
    const secrets = [world.operatorKey, token];
    const ways = [
      { 'x-space-key': world.operatorKey, 'x-space-project': 'default' },
      { authorization: `Bearer ${world.operatorKey}` },
      { authorization: `bearer ${token}` },
      { 'x-space-share': token },
      { cookie: `a=1; space_share=${token}; b=2` },
      { 'x-space-share': token, authorization: `Bearer ${world.operatorKey}`, cookie: `__Host-space_share=${token}` },
    ];
    for (const headers of ways) {
      const { status, text } = await world.visit(port, '/', { headers });
      expect(status).toBe(200);
      for (const secret of secrets) expect(text).not.toContain(secret);
      expect(text).not.toContain('x-space');
    }
    const own = await world.visit(port, '/', {
      headers: { 'x-space-share': token, authorization: 'Basic Z3Vlc3Q6Z3Vlc3Q=', cookie: `a=1; space_share=${token}` },
    });
    expect(JSON.parse(own.text).headers).toMatchObject({ authorization: 'Basic Z3Vlc3Q6Z3Vlc3Q=', cookie: 'a=1' });
  });

  it('keeps what belongs to one connection on it', async () => {
    const port = await mirror();
    const { text } = await world.visit(port, '/', {
      headers: {
        'x-space-key': world.operatorKey,
        connection: 'close, X-Mine, X-Forwarded-For',
        'x-mine': 'hop',
        'proxy-authorization': 'Basic eA==',
        'keep-alive': 'timeout=5',
        te: 'gzip, trailers',
      },
    });
    const { headers } = JSON.parse(text);
    expect(headers).toMatchObject({ connection: 'close', te: 'trailers', 'x-forwarded-for': '127.0.0.1' });
    for (const name of ['x-mine', 'proxy-authorization', 'keep-alive']) expect(headers[name]).toBeUndefined();
  });

  it('with a large body passes in bounded memory, whole, at the pace of the server', async () => {
    let paused = true;
    let received = 0;
    const hash = createHash('sha256');
    const port = await world.serve((asked, answer) => {
      asked.on('data', (piece: Buffer) => {
        received += piece.length;
        hash.update(piece);
        if (paused && received > 1_000_000) asked.pause();
      });
      asked.on('end', () => answer.end(hash.digest('hex')));
      void until(() => !paused).then(() => asked.resume());
    });
    const block = randomBytes(1_000_000);
    const expected = createHash('sha256');
    const asked = request({
      host: '127.0.0.1',
      port: world.apiPort,
      method: 'POST',
      headers: { host: world.hostOf(port), 'x-space-key': world.operatorKey, 'transfer-encoding': 'chunked' },
    });
    const answered = new Promise<string>((resolve, reject) => {
      asked.once('error', reject).once('response', async (answer) => {
        resolve((await Array.fromAsync(answer.setEncoding('utf8'))).join(''));
      });
    });
    let sent = 0;
    const pour = () => {
      for (; sent < 60; sent++) {
        expected.update(block);
        if (!asked.write(block)) {
          sent++;
          asked.once('drain', pour);
          return;
        }
      }
      asked.end();
    };
    const before = process.memoryUsage().arrayBuffers;
    pour();
    await until(() => received > 1_000_000);
    await new Promise((resolve) => setTimeout(resolve, 200));
    // The rest waits with the client: what lies between is buffers of sockets and streams.
    expect(sent).toBeLessThan(40);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(40_000_000);
    paused = false;
    expect(await answered).toBe(expected.digest('hex'));
  });

  it('that expects 100 is told to go on by the server in the sandbox, or refused by it before its body is sent', async () => {
    const willing = await world.serve(
      () => undefined,
      (server) =>
        server.on('checkContinue', (asked, answer) => {
          answer.writeContinue();
          asked.resume().on('end', () => answer.end('taken'));
        }),
    );
    const unwilling = await world.serve(
      () => undefined,
      (server) => server.on('checkContinue', (_, answer) => answer.writeHead(413).end('too much')),
    );
    const lines = ['POST / HTTP/1.1', 'Content-Length: 4', 'Expect: 100-continue', 'Connection: close'];
    const socket = world.raw(head(willing, lines));
    const first = await new Promise<Buffer>((resolve) => socket.once('data', resolve));
    expect(String(first)).toContain('HTTP/1.1 100 Continue');
    socket.write('body');
    expect(await everything(socket)).toContain('taken');
    const refused = await everything(world.raw(head(unwilling, lines)));
    expect(refused).toContain('HTTP/1.1 413');
    expect(refused).not.toContain('100 Continue');
  });

  it.each([
    ['two lengths', ['POST / HTTP/1.1', 'Content-Length: 4', 'Content-Length: 5'], '0\r\n\r\n'],
    ['a length and a coding', ['POST / HTTP/1.1', 'Content-Length: 4', 'Transfer-Encoding: chunked'], '0\r\n\r\n'],
    ['a coding that is not the last', ['POST / HTTP/1.1', 'Transfer-Encoding: chunked, identity'], '0\r\n\r\n'],
    ['two codings', ['POST / HTTP/1.1', 'Transfer-Encoding: gzip, chunked'], '0\r\n\r\n'],
    ['a coding with a control character', ['POST / HTTP/1.1', 'Transfer-Encoding: \u000bchunked'], '0\r\n\r\n'],
    ['a header that is folded', ['GET / HTTP/1.1', 'X-A: 1\r\n\tX-B: 2'], ''],
    ['a space before the colon', ['POST / HTTP/1.1', 'Content-Length : 4'], 'body'],
    ['a target that is no path', ['GET http://other/ HTTP/1.1'], ''],
    ['too many headers', ['GET / HTTP/1.1', ...Array.from({ length: 220 }, (_, i) => `X-${i}: 1`)], ''],
    ['too large a head', ['GET / HTTP/1.1', `X-Long: ${'x'.repeat(20_000)}`], ''],
  ])('with %s is refused, and nothing of it reaches the sandbox', async (_, lines, body) => {
    let reached = 0;
    const port = await world.serveTcp(() => {
      reached += 1;
    });
    const answer = await everything(world.raw(head(port, [...lines, 'Connection: close']) + body));
    expect(answer).toMatch(/^HTTP\/1\.1 4(00|31)/);
    expect(reached).toBe(0);
  });
});

describe('an answer', () => {
  it('is sent as it comes, piece by piece', async () => {
    let send = (_: string) => undefined as unknown;
    const port = await world.serve((_, answer) => {
      answer.writeHead(200, { 'content-type': 'text/event-stream' });
      answer.flushHeaders();
      send = (text) => answer.write(text);
    });
    const asked = request({
      host: '127.0.0.1',
      port: world.apiPort,
      headers: { host: world.hostOf(port), 'x-space-key': world.operatorKey },
    }).end();
    const answer = await new Promise<import('node:http').IncomingMessage>((resolve) => asked.once('response', resolve));
    for (const event of ['data: 1\n\n', 'data: 2\n\n']) {
      const next = new Promise<Buffer>((resolve) => answer.once('data', resolve));
      send(event);
      expect(String(await next)).toBe(event);
    }
    asked.destroy();
    await until(() => world.node.connectionsOf(world.sandboxId) === 0);
  });

  it('keeps status, repeated headers and trailers, and loses what would reach beyond the preview', async () => {
    const port = await world.serve((_, answer) => {
      answer.writeHead(418, 'Teapot', [
        ...['Set-Cookie', 'a=1; Domain=localhost; Path=/', 'Set-Cookie', 'b=2; domain', 'Set-Cookie', 'space_share=x'],
        ...['Trailer', 'X-Sum', 'Strict-Transport-Security', 'max-age=1', 'Alt-Svc', 'h2=":1"'],
        ...['Clear-Site-Data', '"cookies"', 'Connection', 'close, X-Hop', 'X-Hop', '1', 'X-Kept', '1', 'X-Kept', '2'],
      ]);
      answer.write('body');
      answer.addTrailers({ 'X-Sum': '42' });
      answer.end();
    });
    const { status, headers, answer } = await world.visit(port);
    expect(status).toBe(418);
    expect(answer.statusMessage).toBe('Teapot');
    expect(headers['set-cookie']).toEqual(['a=1; Path=/', 'b=2']);
    expect(headers['x-kept']).toBe('1, 2');
    for (const name of ['strict-transport-security', 'alt-svc', 'clear-site-data', 'x-hop']) {
      expect(headers[name], name).toBeUndefined();
    }
    expect(answer.trailers).toEqual({ 'x-sum': '42' });
  });

  it('to HEAD, and one without content, has the headers and no body', async () => {
    const port = await world.serve((asked, answer) => {
      answer.writeHead(asked.url === '/none' ? 204 : 200, asked.url === '/none' ? {} : { 'content-length': 1234 });
      answer.end();
    });
    const asked = await world.visit(port, '/', { method: 'HEAD' });
    expect(asked).toMatchObject({ status: 200, text: '' });
    expect(asked.headers['content-length']).toBe('1234');
    expect(await world.visit(port, '/none')).toMatchObject({ status: 204, text: '' });
  });

  it('to a reader that does not read is held back at the server, in bounded memory', async () => {
    let sent = 0;
    const port = await world.serve((_, answer) => {
      const block = Buffer.alloc(256 * 1024);
      const pour = () => {
        while (!answer.destroyed && answer.write(block)) sent += block.length;
        sent += block.length;
      };
      answer.on('drain', pour);
      pour();
    });
    const before = process.memoryUsage().arrayBuffers;
    const socket = world.raw(head(port, ['GET / HTTP/1.1'])).pause();
    let last = -1;
    while (sent !== last || sent === 0) {
      last = sent;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    expect(sent).toBeLessThan(60_000_000);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(40_000_000);
    socket.destroy();
    await until(() => world.node.connectionsOf(world.sandboxId) === 0);
  });

  it.each([
    ['is no HTTP', 'SSH-2.0-OpenSSH\r\n'],
    ['has two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
    [
      'has a length and a coding',
      'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['has a head without end', `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(60_000)}`],
    ['goes on to another protocol unasked', 'HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'],
    ['is none', ''],
  ])('that %s is port_broken', async (_, bytes) => {
    const { status, text } = await world.visit(await world.serveBytes(bytes));
    expect(status).toBe(502);
    expect(JSON.parse(text)).toMatchObject({ code: 'port_broken' });
  });

  it('with a second one behind it brings that to nobody', async () => {
    const one = 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none';
    const { text } = await world.visit(await world.serveBytes(one + one.replaceAll('one', 'two')));
    expect(text).toBe('one');
  });

  it.each([
    ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf'],
    ['chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'],
  ])('of %s that is cut is cut for the client, too', async (_, bytes) => {
    const port = await world.serveBytes(bytes);
    await expect(world.visit(port)).rejects.toThrow();
  });

  it('that ends with its connection is cut when the sandbox is paused meanwhile', async () => {
    const port = await world.serveTcp((socket) => {
      socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\nso far'));
    });
    const socket = world.raw(head(port, ['GET / HTTP/1.1']));
    await new Promise((resolve) => socket.once('data', resolve));
    const rest = everything(socket);
    await world.ask(world.operatorKey, 'POST', '/v1/sandboxes/box/pause', {});
    expect(await rest).not.toContain('0\r\n\r\n');
  });
});

describe('trouble', () => {
  it('is told as a page to a browser, and as a problem to a program', async () => {
    const port = await world.serveTcp((socket) => socket.destroy());
    const free = await world.serve(() => undefined);
    expect(free).not.toBe(port);
    const refused = await world.visit(1);
    expect(refused.status).toBe(502);
    expect(JSON.parse(refused.text)).toMatchObject({ code: 'port_refused', retry: 'later' });
    const page = await world.visit(1, '/', { headers: { 'x-space-key': world.operatorKey, accept: 'text/html,*/*' } });
    expect(page.headers['content-type']).toContain('text/html');
    expect(page.headers['content-security-policy']).toContain("default-src 'none'");
    expect(page.text).toContain('Nothing listens on that port');
  });

  it('of a pause before the answer is a 502 that says so', async () => {
    const port = await world.serve(() => undefined);
    const waiting = world.visit(port);
    await until(() => world.node.connectionsOf(world.sandboxId) > 0);
    await world.ask(world.operatorKey, 'POST', '/v1/sandboxes/box/pause', {});
    const { status, text } = await waiting;
    expect(status).toBe(502);
    expect(JSON.parse(text)).toMatchObject({ code: 'link_lost' });
  });

  it('of too many connections is port_busy, and ends with them', async () => {
    const port = await world.serveTcp(() => undefined);
    const sockets = Array.from({ length: 100 }, () => world.raw(head(port, ['GET / HTTP/1.1'])));
    await until(() => world.node.connectionsOf(world.sandboxId) === 100);
    const { status, text } = await world.visit(port);
    expect(status).toBe(503);
    expect(JSON.parse(text)).toMatchObject({ code: 'port_busy' });
    for (const socket of sockets) socket.destroy();
    await until(() => world.node.connectionsOf(world.sandboxId) === 0);
    expect((await world.visit(await mirror())).status).toBe(200);
  });

  it('of a client that vanishes is the end of the connection into the sandbox', async () => {
    let ended = false;
    const port = await world.serveTcp((socket) => socket.once('close', () => (ended = true)).resume());
    const socket = world.raw(head(port, ['POST / HTTP/1.1', 'Content-Length: 100']));
    await until(() => world.node.connectionsOf(world.sandboxId) === 1);
    socket.destroy();
    await until(() => ended);
  });
});
