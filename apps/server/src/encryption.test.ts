/** What the server proves its names with: made here, or files that are replaced while it runs. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { authorityFrom, generateKeys, makeLeaf, pemOf } from '@space/gateway/certificates';
import type { Tls } from '@space/http';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openEncryption } from './encryption.ts';

let dataDir: string;
const warnings: string[] = [];
const changes: Tls[] = [];
const closers: (() => void)[] = [];
beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'space-tls-'));
  await mkdir(join(dataDir, 'tls'));
  warnings.length = 0;
  changes.length = 0;
});
afterEach(() => {
  for (const close of closers.splice(0)) close();
  rmSync(dataDir, { recursive: true });
});

async function open(tls: NonNullable<Parameters<typeof openEncryption>[0]['config']['tls']>) {
  const encryption = await openEncryption({
    config: { dataDir, tls },
    onChange: (next) => changes.push(next),
    onWarning: (message) => warnings.push(message),
    lookEveryMs: 20,
  });
  if (encryption === null) throw new Error('there is TLS');
  closers.push(() => encryption.close());
  return encryption;
}

/** Whether a client that believes `ca` reaches the name; else why not. */
async function reaches({ cert, key }: Tls, name: string, ca: string): Promise<string> {
  const server: Server = createServer({ cert, key });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  // The name is checked also where it is an address, which is no server name.
  const socket = connect({ host: '127.0.0.1', port, ca, ...(name === '127.0.0.1' ? {} : { servername: name }) });
  return new Promise<string>((resolve) => {
    socket.once('secureConnect', () => resolve('yes'));
    socket.once('error', (error) => resolve(`${(error as NodeJS.ErrnoException).code}: ${error.message}`));
  }).finally(() => {
    socket.destroy();
    server.close();
  });
}

it('is made for a domain: all names of it are proved by an authority whose key is read by nobody else', async () => {
  const encryption = await open({ kind: 'made', domain: 'sbx.localhost' });
  const { authorityPath } = encryption;
  expect(authorityPath).toBe(join(dataDir, 'tls', 'sbx.localhost.ca.pem'));
  const ca = await readFile(authorityPath ?? '', 'utf8');
  expect(ca).not.toContain('PRIVATE');
  expect((await stat(authorityPath ?? '')).mode & 0o777).toBe(0o644);
  const kept = join(dataDir, 'tls', 'sbx.localhost.authority.pem');
  expect((await stat(kept)).mode & 0o777).toBe(0o600);
  for (const name of ['sbx.localhost', 'api.sbx.localhost', '3000-sbx0123456789abcdef.sbx.localhost', '127.0.0.1']) {
    expect(await reaches(encryption.current(), name, ca), name).toBe('yes');
  }
  expect(await reaches(encryption.current(), 'other.example', ca)).toMatch('ERR_TLS_CERT_ALTNAME_INVALID');
  // As another program reads it, too.
  const shown = execFileSync('openssl', ['x509', '-in', authorityPath ?? '', '-noout', '-text'], { encoding: 'utf8' });
  expect(shown.replaceAll(/\s+/g, ' ')).toContain(
    'X509v3 Name Constraints: critical Permitted: DNS:sbx.localhost DNS:localhost IP:127.0.0.1/255.255.255.255',
  );
  // The same one at the next start, so that whoever believes it goes on to.
  expect(await readFile((await open({ kind: 'made', domain: 'sbx.localhost' })).authorityPath ?? '', 'utf8')).toBe(ca);
});

it('believing that authority lets nobody speak for other hosts', async () => {
  const { authorityPath } = await open({ kind: 'made', domain: 'sbx.localhost' });
  const authority = await authorityFrom(await readFile(join(dataDir, 'tls', 'sbx.localhost.authority.pem'), 'utf8'));
  const { publicKey, privateKey } = await generateKeys();
  const names = [{ type: 'dns', value: 'bank.example' }] as const;
  const cert = (await makeLeaf(authority, { names, lifetimeMs: 60_000, publicKey })) + authority.certificatePem;
  const ca = await readFile(authorityPath ?? '', 'utf8');
  expect(await reaches({ cert, key: await pemOf(privateKey) }, 'bank.example', ca)).toMatch(
    'permitted subtree violation',
  );
});

it('files that change are read again, and what does not fit together is told and not taken', async () => {
  const [certPath, keyPath] = [join(dataDir, 'cert.pem'), join(dataDir, 'key.pem')];
  const put = async (name: string, only?: 'cert' | 'key') => {
    const made = (await open({ kind: 'made', domain: name })).current();
    for (const [part, path] of [
      ['cert', certPath],
      ['key', keyPath],
    ] as const) {
      if (only !== undefined && only !== part) continue;
      await writeFile(`${path}.new`, made[part]);
      await rename(`${path}.new`, path);
    }
    return made;
  };
  const first = await put('one.test');
  const encryption = await open({ kind: 'files', certPath, keyPath });
  expect(encryption.authorityPath).toBeNull();
  expect(encryption.current()).toEqual(first);
  await put('two.test', 'cert');
  await expect.poll(() => warnings.join()).toContain('is not the key of the certificate');
  expect(encryption.current()).toEqual(first);
  const third = await put('three.test');
  await expect.poll(() => changes.at(-1)).toEqual(third);
  expect(encryption.current()).toEqual(third);
});

it('files that do not fit together are no beginning', async () => {
  const [a, b] = [await open({ kind: 'made', domain: 'a.test' }), await open({ kind: 'made', domain: 'b.test' })];
  const [certPath, keyPath] = [join(dataDir, 'cert.pem'), join(dataDir, 'key.pem')];
  await writeFile(certPath, a.current().cert);
  await writeFile(keyPath, b.current().key);
  await expect(open({ kind: 'files', certPath, keyPath })).rejects.toThrow('is not the key of the certificate');
});
