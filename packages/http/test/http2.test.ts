/** HTTP/2 in front of the server: what a stream asks is what a request of HTTP/1.1 asks, and to cut one is to cut that one alone. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { type ClientHttp2Session, connect } from 'node:http2';
import { get } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { createNodeServer, replaceTls, type Tls } from '../src/node-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'space-h2-'));
const closers: (() => unknown)[] = [];
let tls: Tls;

function certificate(name: string): Tls {
  const [certFile, keyFile] = [join(folder, `${name}.pem`), join(folder, `${name}-key.pem`)];
  const subject = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  execFileSync('openssl', ['req', '-x509', ...curve, ...subject, '-keyout', keyFile, '-out', certFile, '-days', '1'], {
    stdio: 'pipe',
  });
  return { cert: readFileSync(certFile), key: readFileSync(keyFile) };
}

beforeAll(() => {
  tls = certificate('one');
});
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});
afterAll(() => rmSync(folder, { recursive: true }));

async function serve(listener: RequestListener) {
  const server = createNodeServer(
    listener,
    { tls, headersMs: 6_000 },
    { shouldUpgrade: () => false, upgrade: () => undefined, isForeign: () => false, foreign: () => undefined },
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { server, url: `https://127.0.0.1:${port}` };
}

function open(url: string, ca: Tls['cert'] = tls.cert): ClientHttp2Session {
  const session = connect(url, { ca });
  session.on('error', () => undefined);
  closers.push(() => session.destroy());
  return session;
}

async function ask(session: ClientHttp2Session, headers: Record<string, string | string[]>, body?: string | Buffer) {
  const stream = session.request(headers, { endStream: body === undefined });
  let trailers: Record<string, unknown> = {};
  stream.on('trailers', (given) => {
    trailers = given;
  });
  if (body !== undefined) stream.end(body);
  const [answer] = await once(stream, 'response');
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part);
  return { status: answer[':status'], headers: answer, text: Buffer.concat(parts).toString(), trailers };
}

it('a request is what it would be in HTTP/1.1, whatever it is made of', async () => {
  const { url } = await serve((request, response) => {
    const { method, url: path, headers, httpVersion } = request;
    const { remoteAddress } = request.socket;
    const parts: Buffer[] = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      response.setHeader('x-two', ['a', 'b']);
      response.writeHead(200, { trailer: 'x-after', 'transfer-encoding': 'chunked' });
      response.write('{');
      response.addTrailers({ 'x-after': 'all' });
      const body = Buffer.concat(parts).toString();
      response.end(JSON.stringify({ method, path, headers, httpVersion, remoteAddress, body }).slice(1));
    });
  });
  const session = open(url);
  const made = { ':method': 'POST', ':path': '/a?b=c', cookie: ['a=1', 'b=2'], 'x-mine': 'yes' };
  const { status, text, headers, trailers } = await ask(session, made, 'the body');
  expect(status).toBe(200);
  const heard = JSON.parse(text);
  expect(heard).toMatchObject({ method: 'POST', path: '/a?b=c', body: 'the body', remoteAddress: '127.0.0.1' });
  expect(heard.headers).toMatchObject({ host: new URL(url).host, 'x-mine': 'yes', 'transfer-encoding': 'chunked' });
  expect(heard.headers.cookie).toBe('a=1; b=2');
  expect(Object.keys(heard.headers).filter((name) => name.startsWith(':'))).toEqual([]);
  expect(headers).toMatchObject({ 'x-two': 'a, b' });
  expect(headers['connection'] ?? headers['transfer-encoding'] ?? headers['keep-alive']).toBeUndefined();
  expect(trailers).toMatchObject({ 'x-after': 'all' });
  const plain = JSON.parse((await ask(session, { ':path': '/' })).text);
  expect(plain.headers['transfer-encoding'] ?? plain.headers['content-length']).toBeUndefined();
  expect(JSON.parse((await ask(session, { ':path': '/', ':method': 'POST' })).text).headers['content-length']).toBe(
    '0',
  );
  expect((await ask(session, { ':path': '/', ':method': 'HEAD' })).text).toBe('');
});

it('many go over one connection at once, each at its own pace, and large ones come whole', async () => {
  const { url, server } = await serve((request, response) => {
    response.flushHeaders();
    request.pipe(response);
  });
  const session = open(url);
  const sent = Array.from({ length: 40 }, (_, at) => Buffer.alloc(200_000, `${at} `));
  const echoed = await Promise.all(sent.map((body) => ask(session, { ':path': '/', ':method': 'POST' }, body)));
  expect(echoed.map(({ text }, at) => text === sent[at]?.toString())).toEqual(sent.map(() => true));
  const held = session.request({ ':path': '/', ':method': 'POST' }, { endStream: false });
  held.write('first');
  expect(String((await once(held, 'data'))[0])).toBe('first');
  held.write('second');
  expect(String((await once(held, 'data'))[0])).toBe('second');
  held.close();
  const connections = await new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
  expect(connections).toBe(1);
});

it('an answer that is cut ends its stream with a reset, and no other; a client that leaves is noticed', async () => {
  let left = 0;
  const { url } = await serve((request, response) => {
    response.write('begun');
    if (request.url === '/cut') setImmediate(() => response.destroy());
    response.once('close', () => {
      if (request.url === '/left') left += 1;
    });
  });
  const session = open(url);
  const other = session.request({ ':path': '/left' });
  await once(other, 'data');
  const cut = session.request({ ':path': '/cut' });
  cut.resume();
  const [error] = await once(cut, 'error');
  expect(error).toMatchObject({ code: 'ERR_HTTP2_STREAM_ERROR' });
  expect([other.closed, session.closed]).toEqual([false, false]);
  other.close();
  await expect.poll(() => left).toBe(1);
});

it('what is no request in HTTP/1.1 is refused, and tells the server nothing', async () => {
  let asked = 0;
  const { url } = await serve((_request, response) => {
    asked += 1;
    response.end();
  });
  const session = open(url);
  for (const headers of [
    { ':path': '*' },
    { ':path': 'http://other/' },
    { ':method': 'CONNECT', ':authority': 'a:1' },
  ]) {
    const stream = session.request(headers);
    await once(stream, 'error');
  }
  const smuggled = session.request({ ':path': '/ HTTP/1.1\r\nx: y' });
  await once(smuggled, 'error');
  expect(asked).toBe(0);
});

it('closing says goodbye to idle connections, and waits for the others', async () => {
  let finish: () => void = () => undefined;
  const { url, server } = await serve((_request, response) => {
    response.write('begun');
    finish = () => response.end('ended');
  });
  const [idle, busy] = [open(url), open(url)];
  const held = busy.request({ ':path': '/' });
  await once(held, 'data');
  if (idle.connecting) await once(idle, 'connect');
  const closed = once(server, 'close');
  server.close();
  const look = setInterval(() => server.closeIdleConnections(), 20);
  await once(idle, 'close');
  finish();
  expect(String((await once(held, 'data'))[0])).toBe('ended');
  await closed;
  clearInterval(look);
});

it('a certificate that takes the place of another is shown to who comes next', async () => {
  const { url, server } = await serve((_request, response) => response.end('hello'));
  const answers = (ca: Tls['cert']) =>
    new Promise<string>((resolve) => {
      get(url, { ca, agent: false }, (answer) => resolve(String(answer.resume().statusCode))).on('error', (error) =>
        resolve(String((error as NodeJS.ErrnoException).code)),
      );
    });
  const next = certificate('two');
  expect(await answers(tls.cert)).toBe('200');
  replaceTls({ server }, next);
  expect(await answers(next.cert)).toBe('200');
  expect(await answers(tls.cert)).not.toBe('200');
});
