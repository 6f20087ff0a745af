/** What a program, or the host it speaks to, tries so that a secret or its placeholder goes where it must not. */
import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, type RequestOptions, request } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import type { Duplex } from 'node:stream';
import type { AllowRule, ApprovalId, BoundSecret } from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { allow, text, World } from './world.ts';

const VALUE = 's3cr3t-with/odd+letters';
const PLACEHOLDER = 'space-secret-0123456789abcdefghjk';

let world: World;
beforeEach(async () => {
  world = await World.open({ holdMs: 60_000 });
  await world.put('token', VALUE);
});
afterEach(() => world.close());

const API: BoundSecret = {
  binding: 'api',
  placeholder: PLACEHOLDER,
  secret: { name: 'token', source: { kind: 'local' }, version: 1 },
  hosts: ['a.test'],
  ports: 'all',
  methods: 'all',
  paths: ['/'],
  place: { in: 'bearer' },
};

async function granted(bindings: readonly BoundSecret[] = [API], rule: Partial<AllowRule> = {}): Promise<void> {
  world.bound = bindings;
  await world.allow({ allow: [allow({ host: '*', ...rule })] });
}

async function ask(socket: Duplex, options: RequestOptions, body?: string): Promise<IncomingMessage> {
  const asked = request({ createConnection: () => socket as never, path: '/', ...options });
  asked.on('error', () => undefined);
  asked.end(body);
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return response;
}

/** A host of HTTP/2 that answers each stream. */
function serve(answer: (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void): Promise<number> {
  return world.serveHttp2('a.test', (stream, headers) => answer(stream, headers as IncomingHttpHeaders));
}

describe('an answer in which nobody would see the secret', () => {
  it('is not asked for, and does not come: messages of gRPC that are compressed', async () => {
    let seen: IncomingHttpHeaders = {};
    const port = await serve((stream, headers) => {
      seen = headers;
      stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-encoding': 'gzip' });
      stream.end('compressed');
    });
    await granted();
    const session = await world.http2('a.test', port);
    const asked = { 'grpc-accept-encoding': 'gzip', 'accept-charset': 'utf-7', te: 'trailers' };
    const stream = session.request({ ':path': '/s/m', ':method': 'POST', ...asked }, { endStream: true });
    const told = text(stream);
    const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders];
    expect(headers[':status']).toBe(502);
    expect(await told).toMatch(/encoded its answer/);
    expect(seen).toMatchObject({ authorization: `Bearer ${VALUE}`, te: 'trailers' });
    expect(Object.keys(seen)).not.toEqual(expect.arrayContaining(['grpc-accept-encoding']));
    expect(Object.keys(seen)).not.toEqual(expect.arrayContaining(['accept-charset']));
    session.destroy();
  });

  it('does not come: in another coding of the connection, whatever is bound', async () => {
    const port = await world.serveTcp('a.test', (socket) => {
      socket.once('data', () =>
        socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n4\r\nwhat\r\n0\r\n\r\n'),
      );
    });
    await granted([]);
    const response = await ask(world.open('a.test', port).socket, { headers: { host: `a.test:${port}` } });
    expect(response.statusCode).toBe(502);
    expect(await text(response)).toMatch(/transfer encoding/);
  });

  it('has nothing of it in the names of headers either', async () => {
    await world.put('token', 'plain-letters-1');
    const port = await serve((stream) => {
      stream.respond({ ':status': 200, 'x-plain-letters-1': 'x' });
      stream.end();
    });
    await granted();
    const session = await world.http2('a.test', port);
    const stream = session.request({ ':path': '/' });
    const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders];
    expect(headers).toMatchObject({ 'x-***************': 'x' });
    session.destroy();
  });
});

describe('a placeholder', () => {
  it.each<[string, AllowRule['protocol'], string]>([
    ['in bytes that are no request', 'tcp', `\0AUTH ${PLACEHOLDER}`],
    ['in such bytes, encoded', 'tcp', `\0AUTH ${Buffer.from(`\0me\0${PLACEHOLDER}`).toString('base64')}`],
  ])('does not leave %s', async (_where, protocol, bytes) => {
    const seen: string[] = [];
    const port = await world.serveTcp('a.test', (socket) => {
      socket.on('data', (part) => seen.push(part.toString()));
    });
    await granted([API], { protocol });
    const { socket } = world.open('a.test', port);
    socket.write('\0hello ');
    await expect.poll(() => seen.join('')).toBe('\0hello ');
    socket.write(bytes);
    await expect.poll(() => world.records()).toMatchObject([{ outcome: 'refused', protocol: 'tcp' }]);
    expect(seen.join('')).toBe('\0hello ');
  });

  it.each([
    ['with the secret in its handshake', [API]],
    ['without', []],
  ])('does not leave in a message of a WebSocket, %s', async (_which, bindings) => {
    const seen: Buffer[] = [];
    const { createServer } = await import('node:https');
    const server = createServer({
      SNICallback: (_name, done) => void world.contextOf('a.test').then((one) => done(null, one)),
    });
    server.on('upgrade', (_incoming, socket) => {
      socket.on('error', () => undefined);
      socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
      socket.on('data', (part: Buffer) => seen.push(part));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    world.names.set('a.test', ['127.0.0.1']);
    const { port } = server.address() as { port: number };
    await granted(bindings);
    const tls = await world.tls('a.test', port);
    tls.write(
      `GET /ws HTTP/1.1\r\nHost: a.test:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
        'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n',
    );
    await once(tls, 'data');
    const frame = (message: string): Buffer => {
      const hidden = Buffer.from(message).map((byte, index) => byte ^ (index % 4));
      return Buffer.concat([Buffer.of(0x81, 0x80 | message.length, 0, 1, 2, 3), hidden]);
    };
    tls.write(frame('hello'));
    await expect.poll(() => Buffer.concat(seen).length).toBe(11);
    tls.write(frame(`{"token":"${PLACEHOLDER}"}`));
    await expect.poll(() => world.records()).toMatchObject([{ outcome: 'refused', status: 101 }]);
    expect(Buffer.concat(seen)).toEqual(frame('hello'));
    server.close();
    server.closeAllConnections();
  });

  it('does not leave as the name of a trailer', async () => {
    let whole = false;
    const port = await world.serveHttp('a.test', (incoming, answer) => {
      incoming.on('end', () => {
        whole = true;
        answer.end();
      });
      incoming.on('error', () => undefined).resume();
    });
    await granted([]);
    const { socket } = world.open('a.test', port);
    socket.write(
      `POST / HTTP/1.1\r\nHost: a.test:${port}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n${PLACEHOLDER}: x\r\n\r\n`,
    );
    await expect.poll(() => world.records()).toMatchObject([{ outcome: 'refused' }]);
    expect(whole).toBe(false);
  });

  it('in the body of a request that a reviewer has to approve is refused before anybody is asked', async () => {
    const port = await world.serveHttp('a.test', (_incoming, answer) => void answer.end());
    await world.allow({ ask: [{ host: 'a.test', ports: 'all', access: 'any', path: '/' }] });
    const headers = { host: `a.test:${port}` };
    const response = await ask(
      world.open('a.test', port).socket,
      { method: 'POST', headers },
      `{"a":"${PLACEHOLDER}"}`,
    );
    expect(response.statusCode).toBe(403);
    expect(await text(response)).toMatch(/placeholder of a secret/);
    await expect.poll(() => world.records()).toMatchObject([{ outcome: 'refused' }]);
  });
});

describe('a grant that is taken away', () => {
  it('ends a stream of HTTP/2 that it was used for, and the others go on', async () => {
    const port = await serve((stream) => {
      stream.respond({ ':status': 200 });
      stream.write('data: 1\n\n');
    });
    await granted([{ ...API, paths: ['/secret'] }]);
    const session = await world.http2('a.test', port);
    const [one, other] = ['/secret', '/open'].map((path) => session.request({ ':path': path }));
    if (one === undefined || other === undefined) throw new Error('there are two');
    for (const stream of [one, other]) stream.on('error', () => undefined);
    await Promise.all([once(one, 'data'), once(other, 'data')]);
    await granted([]);
    await expect.poll(() => one.destroyed).toBe(true);
    expect(other.destroyed).toBe(false);
    session.destroy();
  });

  it('while a request is held is not used, whoever approves it', async () => {
    const seen: IncomingHttpHeaders[] = [];
    const port = await world.serveHttps('a.test', (incoming, answer) => {
      seen.push(incoming.headers);
      answer.end('done');
    });
    world.bound = [API];
    const rules = { ask: [{ host: 'a.test', ports: 'all', access: 'any', path: '/' }] } as const;
    await world.allow(rules);
    const tls = await world.tls('a.test', port);
    const headers = { host: `a.test:${port}`, authorization: `Bearer ${PLACEHOLDER}` };
    const asking = ask(tls, { headers });
    const { asks, instance } = await world.gateway.takeAsks(null, world.ended.signal);
    world.bound = [];
    await world.allow(rules);
    const approvalId = 'apr_0000000000000001' as ApprovalId;
    await world.gateway.answerAsk({ instance, id: asks[0]?.id ?? '', kind: 'let_go', approvalId });
    expect((await asking).statusCode).toBe(403);
    expect(seen).toEqual([]);
  });
});

describe('a placeholder that hides', () => {
  it.each<[string, Record<string, string>, string | Buffer]>([
    ['in UTF-16', {}, Buffer.from(`{"key":"${PLACEHOLDER}"}`, 'utf16le')],
    ['in UTF-16 of the other order', {}, Buffer.from(`{"key":"${PLACEHOLDER}"}`, 'utf16le').swap16()],
    ['in one of two cookies', { cookie: `a=1; b=${PLACEHOLDER}` }, ''],
  ])('does not leave: %s', async (_how, headers, body) => {
    let heard = '';
    const port = await world.serveHttps('a.test', async (incoming, answer) => {
      heard = await text(incoming).catch(() => 'broken off');
      answer.end('fine');
    });
    await granted();
    const asked = { method: 'POST', headers: { host: `a.test:${port}`, ...headers } };
    const answered = ask(await world.tls('a.test', port), asked, body as string);
    const status = await answered.then(
      ({ statusCode }) => statusCode,
      () => 0,
    );
    expect([0, 403, 502]).toContain(status);
    expect(heard).not.toContain(PLACEHOLDER.slice(-8));
    expect(Buffer.from(heard, 'latin1').toString('utf16le')).not.toContain(PLACEHOLDER);
  });
});

describe('a secret in the query', () => {
  const QUERY: BoundSecret = { ...API, place: { in: 'query', name: 'key' } };
  const redirected = async (location: (url: string, port: number) => string) => {
    const heard: string[] = [];
    const port = await world.serveHttps('a.test', (incoming, answer) => {
      heard.push(incoming.url ?? '');
      answer.writeHead(302, { location: location(incoming.url ?? '', port) }).end();
    });
    await granted([QUERY]);
    const get = async (path: string) => {
      const options = { path, headers: { host: `a.test:${port}` } };
      return (await ask(await world.tls('a.test', port), options)).headers.location ?? '';
    };
    return { heard, port, get };
  };
  const SENT = `key=${encodeURIComponent(VALUE)}`;

  it('comes back from a redirect of its own host as the placeholder, so that a program can follow', async () => {
    for (const to of [
      (url: string) => url.replace('/a', '/b'),
      (url: string, port: number) => `https://a.test:${port}${url.replace('/a', '/b')}#top`,
    ]) {
      const { get, heard } = await redirected(to);
      const location = await get('/a?x=1');
      expect(location).toContain(`/b?x=1&key=${PLACEHOLDER}`);
      await get(`/b?x=1&key=${PLACEHOLDER}`);
      expect(heard).toEqual([`/a?x=1&${SENT}`, `/b?x=1&${SENT}`]);
    }
  });

  it.each([
    ['another host', (url: string) => `https://b.test${url}`],
    ['another port', (url: string) => `https://a.test:1${url}`],
    ['clear text', (url: string, port: number) => `http://a.test:${port}${url}`],
    ['another host, said by a path', (url: string) => `//b.test${url}`],
    ['another name', (url: string) => url.replace('key=', 'other=')],
  ])('is masked in a redirect to %s', async (_where, to) => {
    const { get } = await redirected(to);
    const location = await get('/a');
    expect(location).toContain(`=${'*'.repeat(encodeURIComponent(VALUE).length)}`);
    expect(location).not.toContain(PLACEHOLDER);
  });
});
