import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isLoopback } from '../src/hosts.ts';
import { createHttpServer, createLogger, listen, type Tls } from '../src/index.ts';
import type { OpenShare } from '../src/ports/ports-face.ts';
import { MemoryUseCases } from './memory-use-cases.ts';
import { IDENTITY } from './world.ts';

const server = (tls?: Tls, openShare: OpenShare = async () => null) =>
  createHttpServer({
    ...(tls === undefined ? {} : { tls }),
    useCases: new MemoryUseCases(),
    authenticate: () => IDENTITY,
    logger: createLogger({ level: 'silent' }),
    openShare,
    version: '0',
  });

test.each(['0.0.0.0', '::', '192.168.1.2', 'space.example', ''])('without TLS, %o is refused', async (host) => {
  const app = server();
  await expect(listen(app, { host, port: 0 })).rejects.toThrow(/Refusing to listen .* without TLS/);
  expect(app.server.listening).toBe(false);
  await app.close();
});

test.each(['127.0.0.1', 'localhost', '127.0.0.2'])('%s is fine', async (host) => {
  const app = server();
  expect(await listen(app, { host, port: 0 })).toMatch(/^http:\/\/127\.0\.0\.\d:\d+$/);
  await app.close();
});

test('with TLS, any address is fine, clear text is not spoken, and the cookie of a share is for TLS alone', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'space-tls-'));
  try {
    const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'];
    const output = ['-keyout', keyFile, '-out', certFile, '-days', '1'];
    execFileSync(
      'openssl',
      ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', ...subject, ...output],
      { stdio: 'pipe' },
    );
    const cert = await readFile(certFile);
    const opens = async () => ({
      expiresAt: new Date(Date.now() + 60_000),
      connect: () => Promise.reject(new Error()),
    });
    const app = server({ cert, key: await readFile(keyFile) }, opens);
    const { port } = new URL(await listen(app, { host: '0.0.0.0', port: 0 }));
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      get(`https://127.0.0.1:${port}/healthz`, { ca: cert, agent: false }, resolve).on('error', reject);
    });
    expect(answer.statusCode).toBe(200);
    answer.resume();
    const visit = await new Promise<IncomingMessage>((resolve, reject) => {
      const host = `3000-sbx-0123456789abcdef.localhost:${port}`;
      const options = { ca: cert, agent: false, headers: { host }, servername: 'localhost' };
      get(`https://127.0.0.1:${port}/?space_share=spaceshare_x`, options, resolve).on('error', reject);
    });
    expect(visit.statusCode).toBe(303);
    expect(visit.headers['set-cookie']?.[0]).toMatch(/^__Host-space_share=spaceshare_x; .*; SameSite=Lax; .*; Secure$/);
    visit.resume();
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow();
    await app.close();
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('what is loopback', () => {
  expect(['127.0.0.1', '127.255.0.1', '::1', 'localhost', '::ffff:127.0.0.1'].map(isLoopback)).toEqual(
    Array(5).fill(true),
  );
  expect(['128.0.0.1', '::2', 'localhost.', '127.0.0.1.', '0.0.0.0', '::'].map(isLoopback)).toEqual(
    Array(6).fill(false),
  );
});
