/** Requests that a reviewer has to approve first, by a gateway and a control that a test is itself. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, type RequestOptions, request } from 'node:http';
import type { ClientHttp2Session, OutgoingHttpHeaders } from 'node:http2';
import type { Duplex } from 'node:stream';
import {
  type ApprovalId,
  type AskAnswer,
  type AskRule,
  canonicalRequest,
  type EgressPosition,
  type HeldAsk,
  type NetworkPolicy,
} from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { allow, text, World } from './world.ts';

const APPROVAL = 'apr_0000000000000001' as ApprovalId;
const never = new AbortController().signal;

let world: World;
let port: number;
/** What has reached the host. */
let heard: { method: string; url: string; headers: IncomingMessage['headers']; raw: string[]; body: string }[];
/** How many connections it has seen. */
let sentBytes: number;

const ASK: Partial<NetworkPolicy> = { ask: [ask({ host: 'a.test' })] };

function ask(rule: Partial<AskRule> & Pick<AskRule, 'host'>): AskRule {
  return { ports: 'all', access: 'any', path: '/', ...rule };
}

beforeEach(async () => {
  world = await World.open({ holdMs: 60_000 });
  [heard, sentBytes] = [[], 0];
  port = await world.serveHttp('a.test', async (incoming, answer) => {
    const { method = '', url = '', headers, rawHeaders: raw } = incoming;
    heard.push({ method, url, headers, raw, body: await text(incoming) });
    answer.end('done');
  });
});
afterEach(() => world.close());

interface Told {
  readonly status: number;
  readonly body: string;
  readonly headers: IncomingMessage['headers'];
}

async function send(
  options: RequestOptions = {},
  body?: string,
  socket: Duplex = world.open('a.test', port).socket,
): Promise<Told> {
  const headers = { host: `a.test:${port}`, ...options.headers };
  const asked = request({ createConnection: () => socket as never, path: '/', ...options, headers });
  asked.on('error', () => undefined);
  asked.end(body);
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await text(response), headers: response.headers };
}

/** Takes what is held, as control does. */
class Taker {
  #position: EgressPosition | null = null;

  async next(): Promise<HeldAsk> {
    const [one] = await this.all(1);
    if (one === undefined) throw new Error('nothing is held');
    return one;
  }

  async all(count: number): Promise<HeldAsk[]> {
    const taken: HeldAsk[] = [];
    while (taken.length < count) {
      const { asks, instance, next } = await world.gateway.takeAsks(this.#position, never);
      this.#position = { instance, next };
      taken.push(...asks);
    }
    return taken;
  }

  answer(id: string, answer: AnswerOf<AskAnswer>) {
    if (this.#position === null) throw new Error('nothing was taken');
    return world.gateway.answerAsk({ instance: this.#position.instance, id, ...answer });
  }

  letGo(id: string) {
    return this.answer(id, { kind: 'let_go', approvalId: APPROVAL });
  }
}
type AnswerOf<A> = A extends unknown ? Omit<A, 'instance' | 'id'> : never;

/** The digest that a request has, which is then refused. */
async function digestOf(taker: Taker, sending: Promise<Told>): Promise<string> {
  const { id, digest } = await taker.next();
  await taker.answer(id, { kind: 'refuse', approvalId: null, reason: 'No.' });
  expect((await sending).status).toBe(403);
  return digest;
}

describe('a request that a rule holds', () => {
  it('is shown before anything leaves, and then leaves as it was shown, without what was not', async () => {
    await world.allow(ASK);
    const taker = new Taker();
    const sending = send(
      {
        method: 'POST',
        path: '/pay?to=me',
        headers: {
          'X-Note': 'hello',
          Authorization: 'Bearer hunter2hunter2',
          Date: 'now',
          'transfer-encoding': 'chunked',
        },
      },
      '{"cents":1}',
    );
    const held = await taker.next();
    expect(held).toMatchObject({
      rule: 'ask 1: a.test',
      ticket: null,
      request: {
        method: 'POST',
        scheme: 'http',
        host: 'a.test',
        port,
        url: '/pay?to=me',
        body: { text: '{"cents":1}', sizeBytes: 11, isWhole: true },
      },
    });
    expect(held.request.headers).toEqual([
      { name: 'authorization', value: '⟨masked, 21 characters⟩' },
      { name: 'x-note', value: 'hello' },
    ]);
    expect(world.lookedUp).toEqual([]);
    expect(heard).toEqual([]);
    expect(await taker.letGo(held.id)).toBe('taken');
    expect(await sending).toMatchObject({ status: 200, body: 'done' });
    expect(heard).toMatchObject([{ method: 'POST', url: '/pay?to=me', body: '{"cents":1}' }]);
    await expect.poll(() => world.records()).toMatchObject([{ outcome: 'allowed', approval: APPROVAL }]);
    expect(heard[0]?.raw).toEqual([
      ...[
        'host',
        `a.test:${port}`,
        'authorization',
        'Bearer hunter2hunter2',
        'x-note',
        'hello',
        'content-length',
        '11',
      ],
      ...['Connection', 'keep-alive'],
    ]);
  });

  it('is refused with what the reviewer said', async () => {
    await world.allow(ASK);
    const taker = new Taker();
    const sending = send();
    const { id } = await taker.next();
    await taker.answer(id, { kind: 'refuse', approvalId: APPROVAL, reason: 'A reviewer denied it: no.' });
    expect(await sending).toMatchObject({
      status: 403,
      body: expect.stringContaining('A reviewer denied it: no. Nothing was sent. Rule: ask 1: a.test.'),
      headers: { 'x-space-egress': 'approval_denied', 'x-space-approval': APPROVAL },
    });
    expect(heard).toEqual([]);
    await expect.poll(() => world.records()).toMatchObject([{ outcome: 'refused', rule: 'ask 1: a.test' }]);
  });

  it('is answered after a while with a ticket, and the same one again has the same digest', async () => {
    await world.close();
    world = await World.open({ holdMs: 300 });
    await world.allow(ASK);
    const taker = new Taker();
    const sending = send({ headers: { accept: 'application/json' } });
    const { id, digest } = await taker.next();
    const expiresAt = new Date().toISOString();
    await taker.answer(id, { kind: 'wait', approvalId: APPROVAL, expiresAt });
    const told = await sending;
    expect(told).toMatchObject({
      status: 503,
      headers: { 'retry-after': '5', 'x-space-egress': 'approval_pending', 'x-space-approval': APPROVAL },
    });
    expect(JSON.parse(told.body)).toMatchObject({ code: 'approval_pending', approval: APPROVAL, expiresAt });
    expect(await taker.letGo(id)).toBe('gone');
    const again = send({ headers: { accept: 'application/json', 'x-space-approval': APPROVAL } });
    const second = await taker.next();
    expect(second).toMatchObject({ digest, ticket: APPROVAL });
    expect((await again).body).toContain('nobody could be asked');
    await expect
      .poll(() => world.records())
      .toMatchObject([
        { outcome: 'held', approval: APPROVAL },
        { outcome: 'held', approval: null },
      ]);
  });

  it('is another one when anything of it is: method, path, query, header, body', async () => {
    await world.allow(ASK);
    const taker = new Taker();
    const base: [RequestOptions, string] = [{ method: 'POST', path: '/a?b=1', headers: { 'x-a': '1' } }, 'body'];
    const [options, body] = base;
    const digest = await digestOf(taker, send(...base));
    const others: [RequestOptions, string][] = [
      [{ ...options, method: 'PUT' }, body],
      [{ ...options, path: '/a?b=2' }, body],
      [{ ...options, path: '/a' }, body],
      [{ ...options, headers: { 'x-a': '2' } }, body],
      [{ ...options, headers: { 'x-a': '1', 'x-b': '' } }, body],
      [{ ...options, headers: {} }, body],
      [options, 'bodx'],
      [options, ''],
    ];
    const seen = new Set([digest]);
    for (const other of others) seen.add(await digestOf(taker, send(...other)));
    expect(seen.size).toBe(others.length + 1);
    const cased = { ...options, headers: { 'X-A': '1', date: 'tomorrow', traceparent: '00-1-2-3' } };
    expect(await digestOf(taker, send(cased, body))).toBe(digest);
  });

  it('is let go by the rules of now: one that denies it meanwhile denies it', async () => {
    await world.allow(ASK);
    const taker = new Taker();
    const sending = send();
    const { id } = await taker.next();
    await world.allow({ ask: [ask({ host: 'b.test' })], allow: [allow({ host: 'a.test', path: '/other' })] });
    await taker.letGo(id);
    expect(await sending).toMatchObject({ status: 403, body: expect.stringContaining('Rule: no rule') });
    expect(heard).toEqual([]);
  });

  it('goes on while it is under way when rules change that ask for it still', async () => {
    await world.allow(ASK);
    const [begun, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const slow = await world.serveHttp('b.test', async (_incoming, answer) => {
      answer.write('begun');
      begun.resolve();
      await answered.promise;
      answer.end(', done');
    });
    const both = { ask: [ask({ host: 'a.test' }), ask({ host: 'b.test' })] };
    await world.allow(both);
    const taker = new Taker();
    const { socket } = world.open('b.test', slow);
    const sending = send({ headers: { host: `b.test:${slow}` } }, undefined, socket);
    await taker.letGo((await taker.next()).id);
    await begun.promise;
    await world.allow({ ...both, deny: ['c.test'] });
    answered.resolve();
    expect(await sending).toMatchObject({ status: 200, body: 'begun, done' });
  });

  it('is gone when its program leaves, and nothing is sent then', async () => {
    await world.allow(ASK);
    const taker = new Taker();
    const { socket, carried } = world.open('a.test', port);
    send({}, undefined, socket).catch(() => undefined);
    const { id } = await taker.next();
    socket.destroy();
    await carried;
    expect(await taker.letGo(id)).toBe('gone');
    expect(heard).toEqual([]);
  });

  it('is let go once, however often that is said', async () => {
    await world.allow(ASK);
    const taker = new Taker();
    const sending = send();
    const { id } = await taker.next();
    expect([await taker.letGo(id), await taker.letGo(id)]).toEqual(['taken', 'taken']);
    expect((await sending).status).toBe(200);
    expect(heard).toHaveLength(1);
    expect(await taker.letGo('999')).toBe('unknown');
    const other = { instance: 'another', id, kind: 'let_go', approvalId: APPROVAL } as const;
    expect(await world.gateway.answerAsk(other)).toBe('unknown');
  });

  it('is not held when its body is larger than anybody is shown', async () => {
    await world.allow(ASK);
    const told = await send({ method: 'POST' }, 'x'.repeat(1024 * 1024 + 1));
    expect(told).toMatchObject({ status: 403, body: expect.stringContaining('larger than 1 MiB') });
    const taker = new Taker();
    const sending = send({ method: 'POST' }, 'x'.repeat(1024 * 1024));
    const { id, request: shown } = await taker.next();
    expect(shown.body).toMatchObject({ sizeBytes: 1024 * 1024, isWhole: false });
    await taker.letGo(id);
    expect((await sending).status).toBe(200);
    expect(heard[0]?.body).toHaveLength(1024 * 1024);
  });

  it('has no trailers behind it, which nobody was shown', async () => {
    await world.allow(ASK);
    const taker = new Taker();
    const { socket } = world.open('a.test', port);
    socket.write(
      `POST / HTTP/1.1\r\nHost: a.test:${port}\r\nTransfer-Encoding: chunked\r\nTrailer: X-Evil\r\n\r\n2\r\nok\r\n0\r\nX-Evil: 1\r\n\r\n`,
    );
    await taker.letGo((await taker.next()).id);
    await expect.poll(() => heard).toHaveLength(1);
    expect(heard[0]).toMatchObject({ body: 'ok', headers: { 'content-length': '2' } });
    expect(JSON.stringify(heard)).not.toMatch(/evil|chunked/i);
    socket.destroy();
  });

  it('is held in bounded numbers, and the next is told so', async () => {
    await world.allow(ASK);
    const taker = new Taker();
    const sending = Array.from({ length: 16 }, (_, index) => send({ path: `/${index}` }));
    const asks = await taker.all(16);
    const told = await send({ path: '/more' });
    expect(told).toMatchObject({ status: 503, body: expect.stringContaining('Too many requests are held') });
    for (const { id } of asks) await taker.letGo(id);
    expect((await Promise.all(sending)).map(({ status }) => status)).toEqual(Array(16).fill(200));
    const after = send({ path: '/after' });
    await taker.letGo((await taker.next()).id);
    expect((await after).status).toBe(200);
  });

  it('of several on one connection is held by itself', async () => {
    await world.allow({
      allow: [allow({ host: 'a.test', access: 'read' })],
      ask: [ask({ host: 'a.test', access: 'write' })],
    });
    const taker = new Taker();
    expect((await send({ path: '/read' })).status).toBe(200);
    const sending = send({ method: 'POST', path: '/write' }, 'x');
    await taker.letGo((await taker.next()).id);
    expect((await sending).status).toBe(200);
    expect(heard.map(({ url }) => url)).toEqual(['/read', '/write']);
  });
});

describe('what cannot be held', () => {
  it('is refused where a rule asks: an upgrade', async () => {
    await world.allow({ ...ASK, allow: [allow({ host: 'a.test' })] });
    const told = await send({ headers: { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-key': 'x' } });
    expect(told).toMatchObject({
      status: 403,
      body: expect.stringContaining('what follows an upgrade cannot be read'),
    });
  });

  it('is refused where a rule asks: bytes that are no request', async () => {
    const raw = await world.serveTcp('c.test', (socket) => {
      sentBytes++;
      socket.end('hello');
    });
    const tcp = allow({ host: 'c.test', protocol: 'tcp' });
    await world.allow({ allow: [tcp], ask: [ask({ host: 'c.test' })] });
    const { socket, carried } = world.open('c.test', raw);
    socket.write('\x00\x01\x02');
    expect(await carried).toMatchObject({ code: 'egress_refused' });
    expect(sentBytes).toBe(0);
  });
});

describe('over HTTP/2', () => {
  const streams: { headers: Record<string, unknown>; body: string; trailers: object | null }[] = [];
  let h2: number;

  beforeEach(async () => {
    streams.length = 0;
    h2 = await world.serveHttp2('h.test', (stream, headers) => {
      const one = { headers: headers as Record<string, unknown>, body: '', trailers: null as object | null };
      streams.push(one);
      stream.on('trailers', (trailers) => {
        one.trailers = trailers;
      });
      stream.on('data', (bytes: Buffer) => {
        one.body += bytes.toString();
      });
      stream.on('end', () => {
        stream.respond({ ':status': 200 });
        stream.end('done');
      });
    });
    await world.allow({ ask: [ask({ host: 'h.test' })] });
  });

  function post(
    session: ClientHttp2Session,
    headers: OutgoingHttpHeaders,
    body: string,
    trailers: OutgoingHttpHeaders = {},
  ) {
    const stream = session.request(
      { ':authority': `h.test:${h2}`, ':method': 'POST', ...headers },
      { waitForTrailers: true },
    );
    stream.on('error', () => undefined);
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    stream.end(body);
    const status = new Promise<number>((resolve) =>
      stream.once('response', (told) => resolve(Number(told[':status']))),
    );
    stream.resume();
    return status;
  }

  it('a stream is held, and leaves as it was shown', async () => {
    const taker = new Taker();
    const session = await world.http2('h.test', h2);
    const status = post(session, { ':path': '/pay', 'x-a': '1', traceparent: '00' }, 'body', { 'x-evil': '1' });
    const { id, request: shown } = await taker.next();
    expect(shown).toMatchObject({
      scheme: 'https',
      url: '/pay',
      headers: [{ name: 'x-a', value: '1' }],
      body: { text: 'body' },
    });
    expect(streams).toEqual([]);
    await taker.letGo(id);
    expect(await status).toBe(200);
    expect(streams).toMatchObject([{ body: 'body', headers: { ':path': '/pay', 'x-a': '1' } }]);
    expect(JSON.stringify(streams)).not.toMatch(/evil|traceparent/);
    session.destroy();
  });

  it('is the same request as over HTTP/1.1, and another one when it differs', async () => {
    const taker = new Taker();
    const session = await world.http2('h.test', h2);
    const digests: string[] = [];
    for (const [headers, body] of [
      [{ ':path': '/pay', 'x-a': '1', cookie: ['a=1', 'b=2'] }, 'body'],
      [{ ':path': '/pay', 'x-a': '1', cookie: ['a=1', 'b=3'] }, 'body'],
    ] as const) {
      const status = post(session, { ...headers, cookie: [...headers.cookie] }, body);
      const { id, digest } = await taker.next();
      digests.push(digest);
      await taker.answer(id, { kind: 'refuse', approvalId: null, reason: 'No.' });
      expect(await status).toBe(403);
    }
    session.destroy();
    const headers = [
      ['X-A', '1'],
      ['Cookie', 'a=1; b=2'],
      ['Host', `h.test:${h2}`],
    ] as const;
    const http1 = {
      secure: true,
      host: 'h.test',
      port: h2,
      method: 'POST',
      url: '/pay',
      headers,
      body: Buffer.from('body'),
      added: null,
    };
    const digest = createHash('sha256').update(canonicalRequest(http1)).digest('hex');
    expect(digest).toBe(digests[0]);
    expect(digests[1]).not.toBe(digest);
  });

  it('many streams are held in bounded numbers', async () => {
    const taker = new Taker();
    const session = await world.http2('h.test', h2);
    const statuses = Array.from({ length: 20 }, (_, index) => post(session, { ':path': `/${index}` }, 'x'));
    for (const { id } of await taker.all(16)) await taker.letGo(id);
    const told = await Promise.all(statuses);
    expect(told.filter((status) => status === 200)).toHaveLength(16);
    expect(told.filter((status) => status === 503)).toHaveLength(4);
    session.destroy();
  });
});
