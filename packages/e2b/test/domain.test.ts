/** Sandboxes that have names of hosts, over TLS: then all of what the SDKs hand out leads somewhere. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startFragile } from './world.ts';

const run = promisify(execFile);
let folder: string;
let inside: Server;
let tls: { readonly cert: string; readonly key: string };
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-e2b-'));
  const names = 'subjectAltName=DNS:sbx.test,DNS:*.sbx.test';
  const output = ['-keyout', join(folder, 'key.pem'), '-out', join(folder, 'cert.pem'), '-days', '1'];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  await run('openssl', ['req', '-x509', ...curve, '-subj', '/CN=sbx.test', '-addext', names, ...output]);
  const [cert = '', key = ''] = await Promise.all(
    ['cert.pem', 'key.pem'].map((name) => readFile(join(folder, name), 'utf8')),
  );
  tls = { cert, key };
  inside = createServer((asked, response) => response.end(`${asked.headers.host} ${asked.url}`));
  inside.on('upgrade', ({ headers }, socket) => {
    const accept = createHash('sha1').update(`${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`);
    const upgrade = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept.digest('base64')}`;
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${upgrade}\r\n\r\n`);
    socket.on('error', () => undefined).pipe(socket);
  });
  await new Promise<void>((resolve) => inside.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  inside.closeAllConnections();
  inside.close();
  await rm(folder, { recursive: true });
});

const insidePort = () => (inside.address() as AddressInfo).port;
const start = () => startFragile({ domain: { name: 'sbx.test' }, tls });

describe.each([
  ['2.51.0', 'e2b'],
  ['2.45.0', 'e2b-2-45'],
])('the SDK %s', (_version, name) => {
  it('finds the API, commands, signed URLs and ports by the domain alone, over TLS', async () => {
    await using world = await start();
    const { port } = new URL(world.url);
    const env = {
      PATH: process.env['PATH'] ?? '',
      E2B_DOMAIN: `sbx.test:${port}`,
      E2B_API_KEY: world.operatorKey,
      E2B_VALIDATE_API_KEY: 'false',
      NODE_EXTRA_CA_CERTS: join(folder, 'cert.pem'),
    };
    const client = [join(import.meta.dirname, 'domain-client.ts'), String(insidePort()), name];
    const shim = ['--require', join(import.meta.dirname, 'resolve-names.cjs')];
    const { stdout } = await run(process.execPath, [...shim, ...client], { env });
    const [ran, read, sent, served, opened, running, gone] = stdout.trim().split('\n');
    expect({ ran, read, sent, opened, running }).toEqual({
      ran: 'written',
      read: 'written',
      sent: 'sent up',
      opened: 'opened',
      running: 'false',
    });
    expect(served).toMatch(new RegExp(`^${insidePort()}-sbx[0-9a-z]{16}\\.sbx\\.test:${port} /there\\?$`));
    expect(gone).toMatch(/^502 \{"sandboxId":"sbx[0-9a-z]{16}","message":"The sandbox was not found","code":502\}$/);
  });
});

describe('a name', () => {
  async function visit(url: string, host: string, more: Record<string, string> = {}, path = '/') {
    const { port } = new URL(url);
    const headers = { host: `${host}:${port}`, ...more };
    const asked = request({ host: '127.0.0.1', port, path, ca: tls.cert, servername: host, agent: false, headers });
    const [answer] = await once(asked.end(), 'response');
    const text = (await Array.fromAsync(answer.setEncoding('utf8'))).join('');
    return { status: answer.statusCode, headers: answer.headers, text };
  }

  async function make(url: string, key: string, body: object = {}) {
    const { port } = new URL(url);
    const headers = { host: `api.sbx.test:${port}`, 'x-api-key': key, 'content-type': 'application/json' };
    const path = '/v2/sandboxes';
    const options = {
      host: '127.0.0.1',
      port,
      path,
      method: 'POST',
      ca: tls.cert,
      servername: 'api.sbx.test',
      headers,
    };
    const asked = request({ ...options, agent: false });
    asked.end(JSON.stringify({ templateID: 'base', ...body }));
    const [answer] = await once(asked, 'response');
    const made = JSON.parse((await Array.fromAsync(answer.setEncoding('utf8'))).join(''));
    return made as { domain: string; sandboxID: string; trafficAccessToken: string | null };
  }

  it('is what a create says, with the port that it is reached at', async () => {
    await using world = await start();
    const { port } = new URL(world.url);
    expect((await make(world.url, world.operatorKey)).domain).toBe(`sbx.test:${port}`);
    await using other = await startFragile({ domain: { name: 'sbx.test', port: 443 }, tls });
    expect((await make(other.url, other.operatorKey)).domain).toBe('sbx.test');
  });

  it('is served by HTTP/2 to who can, and by HTTP/1.1', async () => {
    await using world = await start();
    const { port } = new URL(world.url);
    const spoken = async (ALPNProtocols: string[]) => {
      const socket = connect({
        host: '127.0.0.1',
        port: Number(port),
        ca: tls.cert,
        servername: 'sbx.test',
        ALPNProtocols,
      });
      await once(socket, 'secureConnect');
      const { alpnProtocol } = socket;
      socket.destroy();
      return alpnProtocol;
    };
    expect(await spoken(['h2', 'http/1.1'])).toBe('h2');
    expect(await spoken(['http/1.1'])).toBe('http/1.1');
  });

  it('of what is not there, or of a port where nothing listens, is told of in the words of E2B', async () => {
    await using world = await start();
    const { sandboxID } = await make(world.url, world.operatorKey);
    const missing = (sandboxId: string) => ({ sandboxId, message: 'The sandbox was not found', code: 502 });
    for (const id of ['sbx0000000000000000', 'ifoobar0123456789', 'i-with-dashes']) {
      const { status, text } = await visit(world.url, `3000-${id}.sbx.test`);
      expect([status, JSON.parse(text)]).toEqual([502, missing(id)]);
    }
    const closed = await visit(world.url, `1-${sandboxID}.sbx.test`);
    const message = 'The sandbox is running but port is not open';
    expect([closed.status, JSON.parse(closed.text)]).toEqual([
      502,
      { sandboxId: sandboxID, message, port: 1, code: 502 },
    ]);
    const page = await visit(world.url, `1-${sandboxID}.sbx.test`, { accept: 'text/html,*/*' });
    expect(page).toMatchObject({ status: 502, headers: { 'content-type': 'text/html; charset=utf-8' } });
    expect(page.text).toContain(message);
    expect((await visit(world.url, '70000-sbx0000000000000000.sbx.test')).status).toBe(400);
  });

  it('of a private sandbox takes its traffic token', async () => {
    await using world = await start();
    const made = await make(world.url, world.operatorKey, { network: { allowPublicTraffic: false } });
    const host = `${insidePort()}-${made.sandboxID}.sbx.test`;
    expect((await visit(world.url, host)).status).toBe(403);
    const good = { 'e2b-traffic-access-token': made.trafficAccessToken ?? '' };
    expect(await visit(world.url, host, good)).toMatchObject({
      status: 200,
      text: `${host}:${new URL(world.url).port} /`,
    });
  });

  it('is no other than those of the domain', async () => {
    await using world = await start();
    for (const host of ['evil.test', 'x.sbx.test', 'api.api.sbx.test']) {
      const { port } = new URL(world.url);
      const headers = { host, 'x-api-key': world.operatorKey };
      const options = { host: '127.0.0.1', port, path: '/v2/sandboxes', ca: tls.cert, servername: 'sbx.test' };
      const [answer] = await once(request({ ...options, agent: false, headers }).end(), 'response');
      expect(answer.resume().statusCode).toBe(421);
    }
  });
});
