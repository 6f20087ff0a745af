import { once } from 'node:events';
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { allow, World } from './world.ts';

let world: World;
let port: number;
const heard: IncomingHttpHeaders[] = [];

beforeEach(async () => {
  world = await World.open();
  heard.length = 0;
  port = await world.serveHttp2('a.test', (stream, headers) => {
    const asked = headers as IncomingHttpHeaders;
    heard.push(asked);
    if (asked[':path'] === '/grpc') {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      stream.pipe(stream);
    } else if (asked[':path'] === '/claims') {
      stream.respond({ ':status': 200, 'proxy-status': 'space; error=http_request_denied', 'x-own': '1' });
      stream.end();
    } else if (asked[':path'] === '/short') {
      stream.respond({ ':status': 200, 'grpc-status': '5' }, { endStream: true });
    } else {
      stream.respond({ ':status': 200 });
      stream.pipe(stream);
    }
  });
  await world.allow({ allow: [allow({ host: 'a.test' })] });
});
afterEach(() => world.close());

function ask(session: ClientHttp2Session, headers: OutgoingHttpHeaders): ClientHttp2Stream {
  const stream = session.request({ ':authority': `a.test:${port}`, ...headers });
  stream.on('error', () => undefined);
  return stream;
}

/** Its events may all come in one turn, so they are listened for from the start. */
function answered(stream: ClientHttp2Stream): Promise<{ status: unknown; body: string; headers: IncomingHttpHeaders }> {
  let headers: IncomingHttpHeaders = {};
  let body = '';
  stream.on('response', (told: IncomingHttpHeaders) => {
    headers = told;
  });
  stream.on('data', (bytes: Buffer) => {
    body += bytes.toString();
  });
  return new Promise((resolve) => stream.on('close', () => resolve({ status: headers[':status'], body, headers })));
}

describe('HTTP/2', () => {
  it('hands on nothing that is for the next hop alone, as in HTTP/1.1, and no host speaks for the gateway', async () => {
    const session = await world.http2('a.test', port);
    const stream = ask(session, {
      ':path': '/claims',
      'proxy-authorization': 'Basic eDp5',
      'x-own': '1',
    });
    stream.end();
    const { status, headers } = await answered(stream);
    expect([status, headers['x-own'], headers['proxy-status']]).toEqual([200, '1', undefined]);
    expect(heard[0]).toMatchObject({ 'x-own': '1' });
    expect(Object.keys(heard[0] ?? {})).not.toEqual(expect.arrayContaining([expect.stringMatching(/^proxy-/)]));
    session.destroy();
  });

  it('is spoken to a host that speaks it, with many streams at once', async () => {
    const session = await world.http2('a.test', port);
    const streams = Array.from({ length: 20 }, (_, index) => {
      const stream = ask(session, { ':method': 'POST', ':path': `/${index}` });
      stream.end(`body ${index}`);
      return answered(stream);
    });
    expect(await Promise.all(streams)).toMatchObject(
      Array.from({ length: 20 }, (_, index) => ({ status: 200, body: `body ${index}` })),
    );
    session.close();
    expect(await world.records()).toHaveLength(20);
  });

  it('carries a call of gRPC both ways at once, with its trailers', async () => {
    const session = await world.http2('a.test', port);
    const stream = ask(session, { ':method': 'POST', ':path': '/grpc', te: 'trailers' });
    stream.write('one');
    await once(stream, 'response');
    expect((await once(stream, 'data'))[0].toString()).toBe('one');
    stream.write('two');
    expect((await once(stream, 'data'))[0].toString()).toBe('two');
    stream.end();
    const [trailers] = (await once(stream, 'trailers')) as [IncomingHttpHeaders];
    expect(trailers['grpc-status']).toBe('0');
  });

  it('carries an answer that is a head alone', async () => {
    const session = await world.http2('a.test', port);
    const stream = ask(session, { ':path': '/short' });
    const { status, headers } = await answered(stream);
    expect({ status, grpc: headers['grpc-status'] }).toEqual({ status: 200, grpc: '5' });
  });

  it('is judged stream by stream, whatever the others on the connection were', async () => {
    await world.allow({ allow: [allow({ host: 'a.test', access: 'read' }), allow({ host: 'b.test' })] });
    const session = await world.http2('a.test', port);
    const head = { ':path': '/' };
    expect(await answered(ask(session, head))).toMatchObject({ status: 200 });
    expect(await answered(ask(session, { ...head, ':authority': 'b.test' }))).toMatchObject({ status: 403 });
    expect(await answered(ask(session, { ...head, ':authority': 'a.test:1' }))).toMatchObject({ status: 403 });
    expect(await answered(ask(session, { ...head, host: 'b.test' }))).toMatchObject({ status: 403 });
    const post = ask(session, { ...head, ':method': 'POST' });
    post.end();
    expect(await answered(post)).toMatchObject({ status: 403, body: expect.stringContaining('no rule') });
    const connect = session.request({ ':method': 'CONNECT', ':authority': `a.test:${port}` });
    connect.on('error', () => undefined);
    connect.end();
    expect(await answered(connect)).toMatchObject({ status: 403 });
    expect(await answered(ask(session, head))).toMatchObject({ status: 200 });
    expect(heard).toHaveLength(2);
  });

  it('is told why it is refused', async () => {
    await world.allow({});
    const session = await world.http2('a.test', port);
    expect(await answered(ask(session, { ':path': '/' }))).toMatchObject({
      status: 403,
      body: expect.stringMatching(/Rule: no rule/),
    });
    expect(world.lookedUp).toEqual([]);
  });

  it('takes back only the streams that new rules do not allow', async () => {
    const session = await world.http2('a.test', port);
    const [kept, cut] = ['/kept', '/cut'].map((path) => ask(session, { ':method': 'POST', ':path': path })) as [
      ClientHttp2Stream,
      ClientHttp2Stream,
    ];
    for (const stream of [kept, cut]) {
      stream.write('x');
      await once(stream, 'data');
    }
    const closed = new Promise((resolve) => cut.on('close', resolve));
    await world.allow({ allow: [allow({ host: 'a.test', path: '/kept' })] });
    await closed;
    kept.write('y');
    expect((await once(kept, 'data'))[0].toString()).toBe('y');
  });
});
