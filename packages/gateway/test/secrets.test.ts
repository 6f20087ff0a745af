import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import type { Duplex } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { AppError, type BoundSecret, SecretValue } from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SecretStores } from '../src/secrets/secrets.ts';
import { allow, ORGANISATION, text, World } from './world.ts';

const VALUE = 's3cr3t/with+odd letters';
const PLACEHOLDER = 'space-secret-0123456789abcdefghjk';

let world: World;
beforeEach(async () => {
  world = await World.open();
  await world.put('token', VALUE);
});
afterEach(() => world.close());

function bound(changes: Partial<BoundSecret> = {}): BoundSecret {
  return {
    binding: 'api',
    placeholder: PLACEHOLDER,
    secret: { name: 'token', source: { kind: 'local' }, version: 1 },
    hosts: ['a.test'],
    ports: 'all',
    methods: 'all',
    paths: ['/'],
    place: { in: 'bearer' },
    ...changes,
  };
}

interface Seen {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly raw: readonly string[];
  readonly body: string;
}

interface Told {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingMessage['trailers'];
  readonly body: string;
}

interface Asked {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: OutgoingHttpHeaders | readonly string[];
  readonly body?: string | readonly string[];
  readonly trailers?: Record<string, string>;
}

async function ask(socket: Duplex, { body = '', trailers, ...options }: Asked): Promise<Told> {
  const asked = request({ createConnection: () => socket as never, path: '/', ...(options as object) });
  asked.on('error', () => undefined);
  for (const part of [body].flat()) if (part !== '') asked.write(part);
  if (trailers !== undefined) asked.addTrailers(trailers);
  asked.end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  const told = await text(response);
  return { status: response.statusCode ?? 0, headers: response.headers, trailers: response.trailers, body: told };
}

/** A host that keeps what it saw, and what it answers with. */
class Host {
  readonly seen: Seen[] = [];
  port = 0;
  answer: (
    seen: Seen,
    incoming: IncomingMessage,
  ) => { headers?: OutgoingHttpHeaders; status?: number; body?: string | Buffer } = () => ({ body: 'fine' });

  async listen(name: string, clear = false): Promise<this> {
    const serve = clear ? world.serveHttp.bind(world) : world.serveHttps.bind(world);
    this.port = await serve(name, (incoming, answer) => {
      void text(incoming).then(
        (body) => {
          const seen = { url: incoming.url ?? '', headers: incoming.headers, raw: incoming.rawHeaders, body };
          this.seen.push(seen);
          const { status = 200, headers = {}, body: told = '' } = this.answer(seen, incoming);
          answer.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(told) }).end(told);
        },
        () => undefined,
      );
    });
    return this;
  }

  headers(more: OutgoingHttpHeaders = {}): OutgoingHttpHeaders {
    return { host: `a.test:${this.port}`, ...more };
  }
}

async function granted(host: Host, ...bindings: BoundSecret[]): Promise<void> {
  world.bound = bindings;
  await world.allow({ allow: [allow({ host: '*' })] });
  void host;
}

const tell = (host: Host, asked: Asked = {}) =>
  world
    .tls('a.test', host.port)
    .then((tls) => ask(tls, { ...asked, headers: host.headers(asked.headers as OutgoingHttpHeaders) }));

describe('a secret is placed', () => {
  it.each<[string, BoundSecret['place'], (seen: Seen) => unknown, unknown]>([
    ['as a bearer token', { in: 'bearer' }, ({ headers }) => headers.authorization, `Bearer ${VALUE}`],
    [
      'as a password',
      { in: 'basic', username: 'me' },
      ({ headers }) => headers.authorization,
      `Basic ${Buffer.from(`me:${VALUE}`).toString('base64')}`,
    ],
    [
      'in a header',
      { in: 'header', name: 'X-Api-Key', prefix: 'v1 ' },
      ({ headers }) => headers['x-api-key'],
      `v1 ${VALUE}`,
    ],
    [
      'in the query',
      { in: 'query', name: 'key' },
      ({ url }) => new URL(url, 'http://a').searchParams.get('key'),
      VALUE,
    ],
  ])('%s, for each request, and recorded by name', async (_where, place, find, expected) => {
    const host = await new Host().listen('a.test');
    await granted(host, bound({ place }));
    expect(await tell(host, { path: '/x?y=1' })).toMatchObject({ status: 200, body: 'fine' });
    expect(host.seen.map(find)).toEqual([expected]);
    expect(host.seen[0]?.url).toMatch(/^\/x\?y=1/);
    await expect.poll(() => world.records()).toMatchObject([{ outcome: 'allowed', secret: 'token', path: '/x' }]);
    expect(JSON.stringify(await world.records())).not.toContain(VALUE);
  });

  it.each<[string, BoundSecret['place'], Asked]>([
    ['a header', { in: 'bearer' }, { headers: { authorization: `token ${PLACEHOLDER}` } }],
    [
      'basic authentication',
      { in: 'bearer' },
      { headers: { authorization: `Basic ${Buffer.from(`x:${PLACEHOLDER}`).toString('base64')}` } },
    ],
    ['the query', { in: 'query', name: 'key' }, { path: `/?key=${PLACEHOLDER}&z` }],
  ])('in the place of its placeholder in %s', async (_where, place, asked) => {
    const host = await new Host().listen('a.test');
    await granted(host, bound({ place }));
    expect(await tell(host, asked)).toMatchObject({ status: 200 });
    const [seen] = host.seen;
    expect(place.in === 'bearer' ? seen?.headers.authorization : seen?.url).toBe(
      place.in === 'bearer' ? `Bearer ${VALUE}` : `/?key=${encodeURIComponent(VALUE)}&z`,
    );
  });

  it('over HTTP/2, in each stream, and in trailers nothing of it comes back', async () => {
    const seen: string[] = [];
    const port = await world.serveHttp2('a.test', (stream, headers) => {
      const { authorization = '' } = headers as IncomingHttpHeaders;
      seen.push(authorization);
      stream.respond({ ':status': 200, echo: authorization }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ last: authorization }));
      stream.resume();
      stream.end(`you sent ${authorization}`);
    });
    await granted(new Host(), bound());
    const session = await world.http2('a.test', port);
    for (const path of ['/1', '/2']) {
      const stream = session.request({ ':path': path, ':method': 'POST' });
      let last: unknown;
      let head: IncomingHttpHeaders = {};
      stream.on('trailers', (trailers) => {
        last = trailers['last'];
      });
      stream.on('response', (headers) => {
        head = headers;
      });
      stream.end('body');
      expect(await text(stream)).toMatch(/^you sent Bearer \*+$/);
      expect([last, head['echo']]).toEqual([
        expect.stringMatching(/^Bearer \*+$/),
        expect.stringMatching(/^Bearer \*+$/),
      ]);
    }
    expect(seen).toEqual([`Bearer ${VALUE}`, `Bearer ${VALUE}`]);
    session.destroy();
  });

  it('in the handshake of a WebSocket, whose answers are looked through, and which ends with its grant', async () => {
    const port = await world.serveTcp('a.test', () => undefined);
    void port;
    const host = new Host();
    let upgrade: IncomingMessage | null = null;
    const { createServer } = await import('node:https');
    const server = createServer({
      SNICallback: (_name, done) => void world.contextOf('a.test').then((one) => done(null, one)),
    });
    server.on('upgrade', (incoming, socket) => {
      upgrade = incoming;
      socket.on('error', () => undefined);
      socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
      socket.write(`\u0081\u0010${VALUE}`, 'latin1');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port: own } = server.address() as { port: number };
    await granted(host, bound());
    const tls = await world.tls('a.test', own);
    tls.write(
      `GET /ws HTTP/1.1\r\nHost: a.test:${own}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
        'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n',
    );
    let got = '';
    tls.on('data', (bytes: Buffer) => {
      got += bytes.toString('latin1');
    });
    await expect.poll(() => got).toContain('*'.repeat(VALUE.length));
    expect(got).not.toContain(VALUE);
    const asked = upgrade as IncomingMessage | null;
    expect(asked?.headers).toMatchObject({ authorization: `Bearer ${VALUE}`, upgrade: 'websocket' });
    expect(asked?.headers['sec-websocket-extensions']).toBeUndefined();
    await granted(host);
    await expect.poll(() => tls.destroyed || tls.readableEnded).toBe(true);
    server.close();
    server.closeAllConnections();
  });
});

describe('a secret is not placed', () => {
  it('in clear text', async () => {
    const host = await new Host().listen('a.test', true);
    await granted(host, bound());
    const plain = await ask(world.open('a.test', host.port).socket, { headers: host.headers() });
    expect(plain.status).toBe(200);
    expect(host.seen[0]?.headers.authorization).toBeUndefined();
    const headers = host.headers({ authorization: `Bearer ${PLACEHOLDER}` });
    const told = await ask(world.open('a.test', host.port).socket, { headers });
    expect(told).toMatchObject({ status: 403, body: expect.stringMatching(/not placed in clear text/) });
    expect(host.seen).toHaveLength(1);
  });

  it('for a host that does not prove who it is', async () => {
    const seen: unknown[] = [];
    const port = await world.serveHttps(
      'a.test',
      (incoming, answer) => {
        seen.push(incoming.headers);
        answer.end();
      },
      'b.test',
    );
    await granted(new Host(), bound());
    const told = await ask(await world.tls('a.test', port), { headers: { host: `a.test:${port}` } });
    expect(told.status).toBe(502);
    expect(seen).toEqual([]);
  });

  it('in TLS that is passed through', async () => {
    const host = await new Host().listen('a.test');
    world.bound = [bound()];
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tls' })] });
    const { connect } = await import('node:tls');
    const { socket } = world.open('a.test', host.port);
    const tls = connect({ socket, servername: 'a.test', rejectUnauthorized: false });
    await once(tls, 'secureConnect');
    await ask(tls, { headers: host.headers() });
    expect(host.seen[0]?.headers.authorization).toBeUndefined();
  });

  it('on a redirect to another host', async () => {
    const [host, other] = [await new Host().listen('a.test'), await new Host().listen('b.test')];
    host.answer = () => ({ status: 302, headers: { location: `https://b.test:${other.port}/` } });
    await granted(host, bound());
    expect(await tell(host)).toMatchObject({ status: 302 });
    const tls = await world.tls('b.test', other.port);
    await ask(tls, { headers: { host: `b.test:${other.port}` } });
    expect(other.seen[0]?.headers.authorization).toBeUndefined();
    const again = await world.tls('b.test', other.port);
    const headers = { host: `b.test:${other.port}`, authorization: `Bearer ${PLACEHOLDER}` };
    expect(await ask(again, { headers })).toMatchObject({
      status: 403,
      body: expect.stringMatching(/not for the host b\.test/),
    });
    expect(other.seen).toHaveLength(1);
  });

  it.each<[string, Partial<BoundSecret>, Asked]>([
    ['a credential', {}, { headers: { authorization: 'Bearer mine' } }],
    ['an odd case of one', {}, { headers: { AUTHORIZATION: 'Bearer mine' } }],
    [
      'two, one of which is the placeholder',
      {},
      { headers: { authorization: [`Bearer ${PLACEHOLDER}`, 'x'] as never } },
    ],
    [
      'another credential',
      { place: { in: 'header', name: 'X-Key', prefix: '' } },
      { headers: { authorization: 'mine' } },
    ],
    ['the header of it', { place: { in: 'header', name: 'X-Key', prefix: '' } }, { headers: { 'x-key': 'mine' } }],
    [
      'its header with an underscore',
      { place: { in: 'header', name: 'X-Key', prefix: '' } },
      { headers: { X_Key: 'mine' } },
    ],
    ['a cookie of its own', { place: { in: 'header', name: 'Cookie', prefix: 'a=' } }, { headers: { cookie: 'b=1' } }],
    ['its parameter', { place: { in: 'query', name: 'key' } }, { path: '/?key=mine' }],
    ['its parameter, encoded', { place: { in: 'query', name: 'key' } }, { path: '/?a=1&%6bey=mine' }],
    ['its parameter twice', { place: { in: 'query', name: 'key' } }, { path: `/?key=${PLACEHOLDER};key=mine` }],
  ])('beside %s of the guest', async (_what, changes, asked) => {
    const host = await new Host().listen('a.test');
    await granted(host, bound(changes));
    expect(await tell(host, asked)).toMatchObject({
      status: 403,
      body: expect.stringMatching(/Rule: secrets are placed/),
    });
    expect(host.seen).toEqual([]);
    await expect.poll(() => world.records()).toMatchObject([{ outcome: 'refused', secret: null }]);
  });

  it('beside a trailer that is a credential', async () => {
    const host = await new Host().listen('a.test');
    await granted(host, bound());
    const asked = { method: 'POST', headers: { 'transfer-encoding': 'chunked', trailer: 'authorization' }, body: 'x' };
    await tell(host, { ...asked, trailers: { authorization: 'mine' } }).catch(() => undefined);
    expect(host.seen).toEqual([]);
  });

  it('when two bindings are for the request: both are named', async () => {
    const host = await new Host().listen('a.test');
    await granted(host, bound(), bound({ binding: 'second', placeholder: PLACEHOLDER.replace('0', '1') }));
    expect(await tell(host)).toMatchObject({ status: 403, body: expect.stringMatching(/api, second/) });
    expect(host.seen).toEqual([]);
  });

  it('when it cannot be had: the request stops, and can be repeated', async () => {
    const host = await new Host().listen('a.test');
    await granted(host, bound({ secret: { name: 'absent', source: { kind: 'local' }, version: 1 } }));
    const told = await tell(host, { headers: { accept: 'application/json' } });
    expect(told.status).toBe(503);
    expect(JSON.parse(told.body)).toMatchObject({
      code: 'secret_unavailable',
      detail: expect.stringMatching(/"absent"/),
    });
    expect(host.seen).toEqual([]);
    await world.put('absent', VALUE);
    expect(await tell(host)).toMatchObject({ status: 200 });
  });
});

describe('a placeholder does not leave', () => {
  const base64 = Buffer.from(`{"key":"${PLACEHOLDER}"}`).toString('base64');
  it.each<[string, Asked]>([
    ['in another header', { headers: { 'x-other': PLACEHOLDER } }],
    ['in a cookie', { headers: { cookie: `a=${PLACEHOLDER}` } }],
    ['in base64', { headers: { 'x-other': base64 } }],
    ['in the path', { path: `/${PLACEHOLDER}` }],
    ['in the query, encoded', { path: `/?a=${PLACEHOLDER.replace('space', '%73pace')}` }],
    ['in the query, encoded twice', { path: `/?a=${PLACEHOLDER.replace('space', '%2573pace')}` }],
    ['in a body', { method: 'POST', body: `{"token":"${PLACEHOLDER}"}` }],
    ['in base64 in a body', { method: 'POST', body: base64 }],
    ['in a body in parts', { method: 'POST', body: [`x=${PLACEHOLDER.slice(0, 20)}`, PLACEHOLDER.slice(20)] }],
  ])('%s, to the host of its binding or another', async (_where, asked) => {
    const host = await new Host().listen('a.test');
    await granted(host, bound());
    const told = await tell(host, asked);
    expect(told).toMatchObject({ status: 403, body: expect.stringMatching(/placeholder of a secret/) });
    await granted(host);
    expect(await tell(host, asked)).toMatchObject({ status: 403 });
    expect(host.seen).toEqual([]);
  });

  it('over HTTP/2, in a body', async () => {
    const seen: string[] = [];
    const port = await world.serveHttp2('a.test', (stream) => {
      stream.on('data', (bytes: Buffer) => seen.push(bytes.toString()));
      stream.on('end', () => stream.close());
    });
    await granted(new Host());
    const session = await world.http2('a.test', port);
    const stream = session.request({ ':path': '/', ':method': 'POST' });
    const response = once(stream, 'response');
    const told = text(stream);
    stream.write('a'.repeat(1000));
    await expect.poll(() => seen.join('').length).toBe(1000);
    stream.end(PLACEHOLDER);
    const [headers] = (await response) as [IncomingHttpHeaders];
    expect(headers[':status']).toBe(403);
    expect(await told).toMatch(/placeholder of a secret/);
    expect(seen.join('')).toBe('a'.repeat(1000));
    session.destroy();
  });
});

describe('what comes back', () => {
  it('has the secret in it masked: in headers, and in bodies of any form', async () => {
    const host = await new Host().listen('a.test');
    host.answer = ({ headers }) => ({
      headers: { 'x-echo': headers.authorization, 'content-type': 'application/json' },
      body: JSON.stringify({
        headers,
        url: encodeURIComponent(headers.authorization ?? ''),
        hex: Buffer.from(VALUE).toString('hex'),
      }),
    });
    await granted(host, bound());
    const told = await tell(host, { headers: { 'accept-encoding': 'gzip' } });
    expect(host.seen[0]?.headers['accept-encoding']).toBe('identity');
    expect(told.headers['x-echo']).toMatch(/^Bearer \*+$/);
    expect(told.headers['content-length']).toBe(`${told.body.length}`);
    for (const form of [VALUE, encodeURIComponent(VALUE), Buffer.from(VALUE).toString('hex')]) {
      expect(told.body).not.toContain(form);
    }
  });

  it('and is encoded although it was asked not to be, does not come at all', async () => {
    const host = await new Host().listen('a.test');
    host.answer = ({ headers }) => ({
      headers: { 'content-encoding': 'gzip' },
      body: gzipSync(JSON.stringify(headers)),
    });
    await granted(host, bound());
    expect(await tell(host)).toMatchObject({ status: 502, body: expect.stringMatching(/encoded its answer/) });
    await granted(host);
    expect(await tell(host)).toMatchObject({ status: 200 });
  });
});

describe('a change reaches the next request of an open connection', () => {
  it('of the value, of the grant, and of the whole secret', async () => {
    const host = await new Host().listen('a.test');
    await granted(host, bound());
    const tls = await world.tls('a.test', host.port);
    const { Agent } = await import('node:http');
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    agent.createConnection = () => tls as never;
    const next = async () => {
      const asked = request({ agent, path: '/', headers: host.headers() }).end();
      const [response] = (await once(asked, 'response')) as [IncomingMessage];
      return { status: response.statusCode, body: await text(response) };
    };
    await next();
    await expect.poll(() => world.records()).toHaveLength(1);
    await world.put('token', 'another value');
    await next();
    expect(host.seen.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${VALUE}`, 'Bearer another value']);
    await expect.poll(() => world.records()).toHaveLength(2);
    await granted(host);
    await next();
    await expect.poll(() => world.records()).toHaveLength(3);
    expect(host.seen[2]?.headers.authorization).toBeUndefined();
    await granted(host, bound());
    await world.gateway.dropSecret({ organisationId: ORGANISATION, name: 'token' });
    expect(await next()).toMatchObject({ status: 503 });
    expect(host.seen).toHaveLength(3);
    agent.destroy();
  });

  it('and ends an answer that still comes, when the grant goes', async () => {
    const port = await world.serveHttps('a.test', (_incoming, answer) => void answer.write('data: 1\n\n'));
    await granted(new Host(), bound());
    const tls = await world.tls('a.test', port);
    const asked = request({
      createConnection: () => tls as never,
      path: '/',
      headers: { host: `a.test:${port}` },
    }).end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    response.on('error', () => undefined);
    await once(response, 'data');
    await world.put('token', 'a rotated value');
    await granted(new Host(), bound({ secret: { name: 'token', source: { kind: 'local' }, version: 2 } }));
    expect(response.destroyed).toBe(false);
    await granted(new Host());
    await expect.poll(() => response.destroyed).toBe(true);
  });
});

describe('a value from a store', () => {
  const source = { kind: 'store', store: 'vault', path: 'team/token', field: null } as const;
  const stored = (changes: object = {}) =>
    bound({ secret: { name: 'token', source: { ...source, ...changes }, version: 1 } });
  let fetched: string[];
  let fetching: () => Promise<{ value: SecretValue; validMs: number | null }>;
  beforeEach(async () => {
    await world.close();
    fetched = [];
    fetching = async () => ({ value: new SecretValue(`value ${fetched.length}`), validMs: null });
    const store = {
      fetch: async ({ path }: { path: string }) => {
        fetched.push(path);
        return fetching();
      },
    };
    const stores: SecretStores = { vault: { store, grants: { [ORGANISATION]: ['team/*'] } } };
    world = await World.open({ secretStores: stores });
  });

  it('is fetched once for many requests, and not for each', async () => {
    const host = await new Host().listen('a.test');
    await granted(host, stored());
    await Promise.all(Array.from({ length: 8 }, () => tell(host)));
    await tell(host);
    expect(fetched).toEqual(['team/token']);
    expect(new Set(host.seen.map(({ headers }) => headers.authorization))).toEqual(new Set(['Bearer value 1']));
  });

  it('that is good for no longer is fetched for each', async () => {
    const host = await new Host().listen('a.test');
    fetching = async () => ({ value: new SecretValue(`value ${fetched.length}`), validMs: 1_000 });
    await granted(host, stored());
    await tell(host);
    await tell(host);
    expect(host.seen.map(({ headers }) => headers.authorization)).toEqual(['Bearer value 1', 'Bearer value 2']);
  });

  it('that fails stops the request, and says nothing that the store has said', async () => {
    const host = await new Host().listen('a.test');
    fetching = () => Promise.reject(new Error('token hvs.CAESI is not good'));
    await granted(host, stored());
    const told = await tell(host);
    expect(told).toMatchObject({ status: 503, body: expect.stringMatching(/"token" cannot be had/) });
    expect(told.body).not.toContain('hvs.');
    fetching = () => Promise.reject(new AppError('secret_unavailable', 'The store answered 403.'));
    expect((await tell(host)).body).toContain('The store answered 403.');
    expect(host.seen).toEqual([]);
  });

  it.each(['other/token', 'team/../other', 'team/%2e%2e/other', 'team'])(
    'of a path that the organisation was not given is as if there were none: %s',
    async (path) => {
      const host = await new Host().listen('a.test');
      await granted(host, stored({ path }));
      expect(await tell(host)).toMatchObject({ status: 503 });
      expect(fetched).toEqual([]);
    },
  );
});
