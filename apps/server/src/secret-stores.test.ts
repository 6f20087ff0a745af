/** Stores in TLS, by authorities of the operator's own, and by a proxy that alone knows where their names lead. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createTls } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { type SecretReference, SecretValue } from '@space/core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openStores, parseStores, type SecretStoresConfig } from './secret-stores.ts';

const HOST = 'store.corp.test';
const folder = mkdtempSync(join(tmpdir(), 'space-way-'));
const inFolder = (name: string) => join(folder, name);
const textOf = (name: string) => readFileSync(inFolder(name), 'utf8');

let port: number;
/** What the proxy was asked for, and as whom. */
let asked: { readonly authority: string | undefined; readonly authorization: string | undefined }[];
/** What the proxy answers instead of letting through; null: it lets through. */
let answers: string | null;
const sockets = new Set<Duplex>();

const ANSWERS: Readonly<Record<string, unknown>> = {
  '/v1/kv/data/app': { lease_duration: 0, data: { data: { key: 'of-vault' } } },
  '/v1/vaults/v1/items/i1': { fields: [{ id: 'key', value: 'of-1password' }] },
  '/plain/app': { key: 'of-http' },
  '/token': { access_token: 'of-oauth2' },
  '/': { SecretString: '{"key":"of-aws"}' },
};
let store: ReturnType<typeof createTls>;
const proxy = createServer().on('connect', (incoming: IncomingMessage, socket: Duplex) => {
  sockets.add(socket.on('error', () => undefined));
  asked.push({ authority: incoming.url, authorization: incoming.headers['proxy-authorization'] });
  if (answers === '') return void socket.resume();
  if (answers !== null) return void socket.end(answers);
  const far = connect(port, '127.0.0.1', () => {
    socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
    socket.pipe(far).pipe(socket);
  });
  sockets.add(far.on('error', () => socket.destroy()));
});

beforeAll(async () => {
  const run = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
  const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  run('req', '-x509', ...made, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=Corp');
  run('req', ...made, '-keyout', 'host.key', '-out', 'host.csr', '-subj', `/CN=${HOST}`);
  writeFileSync(inFolder('host.ext'), `subjectAltName=DNS:${HOST},IP:127.0.0.1\n`);
  const by = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'host.ext', '-days', '2'];
  run('x509', '-req', '-in', 'host.csr', ...by, '-out', 'host.pem');
  writeFileSync(inFolder('token'), 'store-token\n');
  writeFileSync(inFolder('aws'), '[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = the-key\n');
  store = createTls({ key: textOf('host.key'), cert: textOf('host.pem') }, (incoming, response) => {
    response.end(JSON.stringify(ANSWERS[incoming.url ?? ''] ?? {}));
  });
  for (const server of [store, proxy]) await once(server.listen(0, '127.0.0.1'), 'listening');
  ({ port } = store.address() as AddressInfo);
});
beforeEach(() => {
  asked = [];
  answers = null;
});
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
});
afterAll(async () => {
  for (const server of [store, proxy]) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  rmSync(folder, { recursive: true });
});

type Way = Omit<Parameters<typeof openStores>[0], 'secretStores'>;
const oauth2 = { clientId: 'me', clientSecret: new SecretValue('s'), refreshToken: null, scope: null };
type Config = SecretStoresConfig[string];
type Asked = readonly [Config, SecretReference, string];
/** Each kind of store, what it is asked for, and what it gives. */
const kinds = (at: string, direct = false): readonly Asked[] => {
  const tokenFile = inFolder('token');
  const aws = { region: 'eu-central-1', endpoint: at, credentialsFile: inFolder('aws') };
  const configs = {
    vault: { kind: 'vault', url: at, tokenFile },
    onepassword: { kind: 'onepassword', url: at, tokenFile },
    http: { kind: 'http', url: `${at}/plain` },
    oauth2: { kind: 'oauth2', tokenUrl: `${at}/token` },
    aws: { kind: 'aws', ...aws },
  };
  const all = Object.entries(configs).map(([name, config]) => [name, { ...config, direct, grants: {} }]);
  const stores = parseStores(JSON.stringify(Object.fromEntries(all)));
  const of = (name: keyof typeof configs): Config => stores[name] as Config;
  return [
    [of('vault'), { path: 'kv/data/app', field: 'key' }, 'of-vault'],
    [of('onepassword'), { path: 'v1/i1', field: 'key' }, 'of-1password'],
    [of('http'), { path: 'app', field: 'key' }, 'of-http'],
    [of('oauth2'), { path: '', field: null, oauth2 }, 'of-oauth2'],
    [of('aws'), { path: 'app', field: 'key' }, 'of-aws'],
  ];
};
const theProxy = () => ({
  ...{ host: '127.0.0.1', port: (proxy.address() as AddressInfo).port },
  authorization: `Basic ${Buffer.from('us/er:p@w:x').toString('base64')}`,
});
const authorities = () => [textOf('ca.pem')];
const soon = () => AbortSignal.timeout(10_000);

async function outcomeOf([config, reference]: Asked, way: Way, signal = soon()) {
  const { store: opened } = openStores({ secretStores: { one: config }, ...way })['one'] ?? {};
  return opened?.fetch(reference, signal).then(
    ({ value }) => value.reveal(),
    (thrown: { readonly code?: string; readonly message: string }) => `${thrown.code}: ${thrown.message}`,
  );
}

describe('stores behind a proxy that all leaves by', () => {
  it('are asked by their names, as the proxy’s user, and prove themselves by the operator’s authority', async () => {
    for (const one of kinds(`https://${HOST}`)) {
      asked = [];
      expect(await outcomeOf(one, { upstreamProxy: theProxy(), upstreamAuthorities: authorities() })).toBe(one[2]);
      expect(asked, one[0].kind).toEqual([{ authority: `${HOST}:443`, authorization: theProxy().authorization }]);
    }
  });

  it('are not had without that authority, or when the proxy leads to another', async () => {
    for (const one of kinds(`https://${HOST}`)) {
      expect(await outcomeOf(one, { upstreamProxy: theProxy() })).toMatch(/^secret_unavailable: /);
    }
    for (const one of kinds('https://other.corp.test')) {
      expect(await outcomeOf(one, { upstreamProxy: theProxy(), upstreamAuthorities: authorities() })).toMatch(
        /^secret_unavailable: /,
      );
    }
    expect(asked).not.toEqual([]);
  });

  it.each(['HTTP/1.1 407 Proxy Authentication Required\r\n\r\n', 'what\r\n\r\n', ''])(
    'are not had, in bounded time and with no word of the proxy’s, when it answers %j',
    async (said) => {
      answers = said;
      const way = { upstreamProxy: theProxy(), upstreamAuthorities: authorities() };
      await Promise.all(
        kinds(`https://${HOST}`).map(async (one) => {
          const outcome = await outcomeOf(one, way, AbortSignal.timeout(250));
          expect(outcome, one[0].kind).toMatch(/^secret_unavailable: /);
          expect(outcome).not.toMatch(/us.?er|p@w/);
        }),
      );
    },
  );

  it('on this machine are asked directly, and so are those of which the operator says so', async () => {
    const way = { upstreamProxy: theProxy(), upstreamAuthorities: authorities() };
    for (const one of kinds(`https://127.0.0.1:${port}`)) expect(await outcomeOf(one, way)).toBe(one[2]);
    // Of a name that is found nowhere but by the proxy.
    for (const one of kinds(`https://${HOST}`, true))
      expect(await outcomeOf(one, way)).toMatch(/^secret_unavailable: /);
    expect(asked).toEqual([]);
  });
});

it('stores without a proxy prove themselves by the operator’s authority too', async () => {
  for (const one of kinds(`https://127.0.0.1:${port}`)) {
    expect(await outcomeOf(one, { upstreamAuthorities: authorities() })).toBe(one[2]);
    expect(await outcomeOf(one, {})).toMatch(/^secret_unavailable: /);
  }
});
