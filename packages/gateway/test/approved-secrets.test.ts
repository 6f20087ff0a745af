/** Requests that a reviewer has to approve, and that a secret is then placed in: over both forms of HTTP. */
import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { gzipSync } from 'node:zlib';
import {
  AppError,
  type ApprovalId,
  type BoundSecret,
  type EgressPosition,
  type HeldAsk,
  type NetworkPolicy,
  SecretValue,
} from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ORGANISATION, text, World } from './world.ts';

const APPROVAL = 'apr_0000000000000001' as ApprovalId;
const VALUE = 's3cr3t-value-of-the-token';
const PLACEHOLDER = 'space-secret-0123456789abcdefghjk';
const HOST = 'a.test';
const ASK: Partial<NetworkPolicy> = { ask: [{ host: HOST, ports: 'all', access: 'any', path: '/' }] };
const BOUND: BoundSecret = {
  binding: 'api',
  placeholder: PLACEHOLDER,
  secret: { name: 'token', source: { kind: 'local' }, version: 1 },
  ...{ hosts: [HOST], ports: 'all', methods: 'all', paths: ['/'], place: { in: 'bearer' } },
};
const ADDED = { binding: 'api', secret: 'token', place: 'the header Authorization' };

interface Heard {
  readonly url: string;
  readonly authorization: string | undefined;
  readonly body: string;
}
interface Told {
  readonly status: number;
  readonly body: string;
}
type Send = (sent: {
  readonly url?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
}) => Promise<Told>;

let world: World;
let heard: Heard[];
let port: number;
let position: EgressPosition | null;
let session: ClientHttp2Session | null;
/** What the store gives, or why it does not. */
let stored: () => SecretValue;

beforeEach(async () => {
  [heard, position, session] = [[], null, null];
  stored = () => new SecretValue('of the store');
  const store = { fetch: async () => ({ value: stored(), validMs: 0 }) };
  world = await World.open({
    holdMs: 60_000,
    secretStores: { vault: { store, grants: { [ORGANISATION]: ['*'] } } },
  });
  await world.put('token', VALUE);
  world.bound = [BOUND];
});
afterEach(async () => {
  session?.destroy();
  await world.close();
});

const sendHttp1: Send = async ({ url = '/pay', headers = {}, body = 'body' }) => {
  const socket = await world.tls(HOST, port);
  const sent = { method: 'POST', path: url, headers: { host: `${HOST}:${port}`, ...headers } };
  const asked = request({ createConnection: () => socket as never, ...sent });
  asked.on('error', () => undefined).end(body);
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await text(response) };
};
const sendHttp2: Send = async ({ url = '/pay', headers = {}, body = 'body' }) => {
  session ??= await world.http2(HOST, port);
  const pseudo = { ':authority': `${HOST}:${port}`, ':method': 'POST', ':path': url };
  const stream: ClientHttp2Stream = session.request({ ...pseudo, ...headers });
  const parts: Buffer[] = [];
  stream.on('error', () => undefined).on('data', (bytes: Buffer) => parts.push(bytes));
  stream.end(body);
  const ended = once(stream, 'close');
  const [head] = (await once(stream, 'response')) as [IncomingHttpHeaders & { ':status'?: number }];
  await ended;
  return { status: head[':status'] ?? 0, body: Buffer.concat(parts).toString() };
};

/** Each host answers with what it got, so that a secret comes back. */
const serveHttp1 = () =>
  world.serveHttps(HOST, async (incoming, answer) => {
    const { authorization } = incoming.headers;
    heard.push({ url: incoming.url ?? '', authorization, body: await text(incoming) });
    answer.end(`you are ${authorization}`);
  });
const serveHttp2 = () =>
  world.serveHttp2(HOST, (stream, given) => {
    const headers = given as IncomingHttpHeaders & { ':path'?: string };
    void text(stream).then((body) => {
      heard.push({ url: headers[':path'] ?? '', authorization: headers.authorization, body });
      stream.respond({ ':status': 200 });
      stream.end(`you are ${headers.authorization}`);
    });
  });

async function next(): Promise<HeldAsk> {
  for (;;) {
    const { asks, instance, next: at } = await world.gateway.takeAsks(position, new AbortController().signal);
    position = { instance, next: at };
    if (asks[0] !== undefined) return asks[0];
  }
}
const answer = (
  id: string,
  end: { kind: 'let_go'; approvalId: ApprovalId } | { kind: 'refuse'; approvalId: null; reason: string },
) => world.gateway.answerAsk({ instance: position?.instance ?? '', id, ...end });
const letGo = (id: string) => answer(id, { kind: 'let_go', approvalId: APPROVAL });
/** What it was held as, and then refused. */
async function heldAs(sending: Promise<Told>): Promise<HeldAsk> {
  const held = await next();
  await answer(held.id, { kind: 'refuse', approvalId: null, reason: 'No.' });
  expect((await sending).status).toBe(403);
  return held;
}

describe.each<[string, Send, () => Promise<number>]>([
  ['HTTP/1.1', sendHttp1, serveHttp1],
  ['HTTP/2', sendHttp2, serveHttp2],
])('a request over %s that is asked for and gets a secret', (_form, send, serve) => {
  beforeEach(async () => {
    port = await serve();
    await world.allow(ASK);
  });

  it('is shown as the guest sent it and with the name of what is added, and gets the value once it is approved', async () => {
    const sending = send({ headers: { authorization: `Bearer ${PLACEHOLDER}`, 'x-note': 'hi' } });
    const held = await next();
    expect(held.request).toMatchObject({ added: ADDED, body: { text: 'body' } });
    expect(held.request.headers).toEqual([
      { name: 'authorization', value: `⟨masked, ${`Bearer ${PLACEHOLDER}`.length} characters⟩` },
      { name: 'x-note', value: 'hi' },
    ]);
    expect(JSON.stringify(held)).not.toContain(VALUE);
    expect(heard).toEqual([]);
    await letGo(held.id);
    expect(await sending).toEqual({ status: 200, body: `you are Bearer ${'*'.repeat(VALUE.length)}` });
    expect(heard).toEqual([{ url: '/pay', authorization: `Bearer ${VALUE}`, body: 'body' }]);
    await expect
      .poll(() => world.records())
      .toMatchObject([{ approval: APPROVAL, secret: 'token', outcome: 'allowed' }]);
    expect(JSON.stringify(await world.records())).not.toContain(VALUE);
  });

  it('is the same request whatever the value is, and another one with another secret, or none', async () => {
    const first = await heldAs(send({}));
    await world.put('token', 'another-value-of-the-token');
    world.bound = [{ ...BOUND, secret: { ...BOUND.secret, version: 2 } }];
    await world.allow(ASK);
    expect((await heldAs(send({}))).digest).toBe(first.digest);
    const digests = [first.digest];
    for (const bound of [
      [],
      [{ ...BOUND, secret: { ...BOUND.secret, name: 'other' } }],
      [{ ...BOUND, binding: 'b' }],
    ]) {
      await world.put('other', 'the-value-of-another');
      world.bound = bound;
      await world.allow(ASK);
      digests.push((await heldAs(send({}))).digest);
    }
    expect(new Set(digests).size).toBe(digests.length);
  });

  it('does not leave with a secret that nobody has seen when the binding changes while it waits', async () => {
    for (const bound of [[], [{ ...BOUND, place: { in: 'header', name: 'X-Key', prefix: '' } as const }]]) {
      world.bound = [BOUND];
      await world.allow(ASK);
      const sending = send({});
      const { id } = await next();
      world.bound = bound;
      await world.allow(ASK);
      await letGo(id);
      expect(await sending).toMatchObject({
        status: 403,
        body: expect.stringContaining('another one than a reviewer has seen'),
      });
    }
    expect(heard).toEqual([]);
  });

  it('is not asked for while its secret cannot be had, so that no approval is used up', async () => {
    const source = { kind: 'store', store: 'vault', path: 'a', field: null } as const;
    world.bound = [{ ...BOUND, secret: { name: 'token', source, version: 1 } }];
    await world.allow(ASK);
    stored = () => {
      throw new AppError('secret_unavailable', 'The store does not answer.');
    };
    expect(await send({})).toMatchObject({ status: 503, body: expect.stringContaining('The store does not answer.') });
    stored = () => new SecretValue('of the store');
    const sending = send({});
    await letGo((await next()).id);
    expect((await sending).status).toBe(200);
    expect(heard).toMatchObject([{ authorization: 'Bearer of the store' }]);
  });

  it('is not asked for with a credential of its own, or with a placeholder where none is placed', async () => {
    for (const sent of [
      { headers: { authorization: 'Bearer mine' } },
      { headers: { 'x-other': PLACEHOLDER } },
      { url: `/pay?key=${PLACEHOLDER}` },
      { body: `{"key":"${PLACEHOLDER}"}` },
    ]) {
      expect((await send(sent)).status).toBe(403);
    }
    expect((await heldAs(send({ url: '/last' }))).request.url).toBe('/last');
    expect(heard).toEqual([]);
  });

  it('shows a packed body unpacked, and leaves as it was packed, with the digest of that', async () => {
    const body = gzipSync('{"cents":1}');
    const sending = send({ headers: { 'content-encoding': 'gzip' }, body });
    const held = await next();
    expect(held.request.body).toMatchObject({
      text: '{"cents":1}',
      readAs: ['gzip'],
      sizeBytes: body.length,
      isWhole: true,
    });
    await letGo(held.id);
    expect((await sending).status).toBe(200);
    expect(Buffer.from(heard[0]?.body ?? '').length).toBeGreaterThan(0);
  });
});
