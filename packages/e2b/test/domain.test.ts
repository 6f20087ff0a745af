/** Sandboxes that have names of hosts, over TLS: then all of what the SDKs hand out leads somewhere. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startFragile } from './world.ts';

const run = promisify(execFile);
let folder: string;
let inside: Server;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-e2b-'));
  const names = 'subjectAltName=IP:127.0.0.1,DNS:sbx.test,DNS:*.sbx.test';
  const output = ['-keyout', join(folder, 'key.pem'), '-out', join(folder, 'cert.pem'), '-days', '1'];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  await run('openssl', ['req', '-x509', ...curve, '-subj', '/CN=sbx.test', '-addext', names, ...output]);
  inside = createServer((request, response) => response.end(`${request.headers.host} ${request.url}`));
  await new Promise<void>((resolve) => inside.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  inside.close();
  await rm(folder, { recursive: true });
});

async function tls() {
  const [cert = '', key = ''] = await Promise.all(
    ['cert.pem', 'key.pem'].map((name) => readFile(join(folder, name), 'utf8')),
  );
  return { cert, key };
}

it('the SDK finds commands, signed URLs and ports by names', async () => {
  await using world = await startFragile({ previews: 'http://sbx.test', tls: await tls() });
  const { port } = new URL(world.url);
  const env = {
    PATH: process.env['PATH'] ?? '',
    E2B_API_URL: `https://127.0.0.1:${port}`,
    E2B_DOMAIN: `sbx.test:${port}`,
    E2B_API_KEY: world.operatorKey,
    NODE_EXTRA_CA_CERTS: join(folder, 'cert.pem'),
  };
  const guestPort = (inside.address() as AddressInfo).port;
  const client = [join(import.meta.dirname, 'domain-client.ts'), String(guestPort)];
  const shim = ['--require', join(import.meta.dirname, 'resolve-names.cjs')];
  const { stdout } = await run(process.execPath, [...shim, ...client], { env });
  const [ran, read, sent, served, running] = stdout.trim().split('\n');
  expect({ ran, read, sent, running }).toEqual({ ran: 'written', read: 'written', sent: 'sent up', running: 'false' });
  expect(served).toMatch(new RegExp(`^${guestPort}-sbx[0-9a-z]{16}\\.sbx\\.test:${port} /there\\?$`));
});

it('a create says the names, where they are reached by TLS', async () => {
  await using world = await startFragile({ previews: 'https://sbx.test:8443' });
  const make = async () => {
    const headers = { 'x-api-key': world.operatorKey, 'content-type': 'application/json' };
    const body = JSON.stringify({ templateID: 'base' });
    const answer = await fetch(`${world.url}/v2/sandboxes`, { method: 'POST', headers, body });
    return (await answer.json()) as { domain: string; sandboxID: string };
  };
  expect((await make()).domain).toBe('sbx.test:8443');
});
