/** Against servers that answer as the documentation of each store says; none of them is the real thing (why: ADR 38). */
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type SecretReference, SecretValue } from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openStore, type StoreConfig } from '../src/index.ts';
import { envStore } from '../src/machine.ts';

interface Seen {
  readonly asked: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

let folder: string;
let url: string;
let seen: Seen[];
let answer: (seen: Seen) => {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body: unknown;
};
const server = createServer((incoming, response) => {
  void text(incoming).then((body) => {
    const one = { asked: `${incoming.method} ${incoming.url}`, headers: incoming.headers, body };
    seen.push(one);
    const { status = 200, headers = {}, body: told } = answer(one);
    response.writeHead(status, headers).end(typeof told === 'string' ? told : JSON.stringify(told));
  });
});

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-stores-'));
  await writeFile(join(folder, 'token'), 'store-token\n');
  seen = [];
  answer = () => ({ body: '' });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true });
});

const signal = AbortSignal.timeout(60_000);
async function fetched(
  config: StoreConfig,
  path: string,
  field: string | null = null,
  more: Partial<SecretReference> = {},
) {
  const { value, ...rest } = await openStore(config).fetch({ path, field, ...more }, signal);
  return { value: value.reveal(), ...rest };
}
const token = () => join(folder, 'token');

describe('Vault', () => {
  it('gives a field of KV version 2', async () => {
    answer = () => ({ body: { lease_duration: 0, data: { data: { key: 'value' }, metadata: { version: 3 } } } });
    const config = { kind: 'vault', url, tokenFile: token(), namespace: 'team' } as const;
    expect(await fetched(config, 'kv/data/app', 'key')).toEqual({ value: 'value', validMs: null });
    expect(seen[0]).toMatchObject({
      asked: 'GET /v1/kv/data/app',
      headers: { 'x-vault-token': 'store-token', 'x-vault-namespace': 'team' },
    });
    await expect(fetched(config, 'kv/data/app', 'other')).rejects.toMatchObject({ code: 'secret_unavailable' });
  });

  it('gives credentials that it makes, for as long as their lease, to who logs in with a role', async () => {
    answer = ({ asked }) =>
      asked.startsWith('POST')
        ? { body: { auth: { client_token: 'made', lease_duration: 3600 } } }
        : { body: { lease_id: 'x', lease_duration: 30, data: { username: 'u', password: 'p' } } };
    const store = openStore({ kind: 'vault', url, appRole: { roleId: 'role', secretIdFile: token() } });
    for (let count = 0; count < 2; count++) {
      const { value, validMs } = await store.fetch({ path: 'database/creds/reader', field: 'password' }, signal);
      expect([value.reveal(), validMs]).toEqual(['p', 30_000]);
    }
    expect(seen.map(({ asked }) => asked)).toEqual([
      'POST /v1/auth/approle/login',
      'GET /v1/database/creds/reader',
      'GET /v1/database/creds/reader',
    ]);
    expect(JSON.parse(seen[0]?.body ?? '')).toEqual({ role_id: 'role', secret_id: 'store-token' });
    expect(seen[1]?.headers['x-vault-token']).toBe('made');
  });

  it.each(['../sys/seal', 'kv/../sys', 'kv/data/a?x=1', 'kv//a', '/kv/a', 'kv'])(
    'is asked for no odd path: %s',
    async (path) => {
      const config = { kind: 'vault', url, tokenFile: token() } as const;
      await expect(fetched(config, path, 'key')).rejects.toMatchObject({ code: 'secret_unavailable' });
      expect(seen).toEqual([]);
    },
  );
});

it('1Password gives a field of an item, by its label or id', async () => {
  answer = () => ({
    body: {
      id: 'item',
      fields: [
        { id: 'f1', label: 'username', value: 'u' },
        { id: 'f2', label: 'credential', value: 'c' },
      ],
    },
  });
  const config = { kind: 'onepassword', url, tokenFile: token() } as const;
  expect((await fetched(config, 'v1/i1', 'credential')).value).toBe('c');
  expect((await fetched(config, 'v1/i1', 'f1')).value).toBe('u');
  expect(seen[0]).toMatchObject({
    asked: 'GET /v1/vaults/v1/items/i1',
    headers: { authorization: 'Bearer store-token' },
  });
  await expect(fetched(config, '../v1/i1', 'f1')).rejects.toMatchObject({ code: 'secret_unavailable' });
});

it('any server gives all of an answer, or what JSON has at a field', async () => {
  answer = ({ asked }) => ({ body: asked.endsWith('/json') ? { a: { b: 'deep' } } : 'plain\n' });
  const config = { kind: 'http', url: `${url}/base`, tokenFile: token() } as const;
  expect((await fetched(config, 'text')).value).toBe('plain');
  expect((await fetched(config, 'json', 'a.b')).value).toBe('deep');
  expect(seen[0]).toMatchObject({ asked: 'GET /base/text', headers: { authorization: 'Bearer store-token' } });
  for (const path of ['../text', 'a/../../text', '//x', 'a%2f..']) {
    await expect(fetched(config, path)).rejects.toMatchObject({ code: 'secret_unavailable' });
  }
  expect(seen).toHaveLength(2);
});

describe('AWS Secrets Manager', () => {
  const config = () => ({ kind: 'aws', region: 'eu-central-1', endpoint: url, credentialsFile: token() }) as const;
  beforeEach(async () => {
    const profile = ['[default]', 'aws_access_key_id = AKIDEXAMPLE', 'aws_secret_access_key = the-key', ''];
    await writeFile(token(), profile.join('\n'));
  });

  it('gives a secret by its name, asked for as its client signs it, and a field of one that is JSON', async () => {
    answer = () => ({ body: { Name: 'team/app', SecretString: '{"key":"value"}' } });
    expect(await fetched(config(), 'team/app')).toEqual({ value: '{"key":"value"}', validMs: null });
    expect(await fetched(config(), 'team/app', 'key')).toEqual({ value: 'value', validMs: null });
    expect(seen[0]).toMatchObject({
      asked: 'POST /',
      headers: {
        'x-amz-target': 'secretsmanager.GetSecretValue',
        authorization: expect.stringMatching(
          /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/\d{8}\/eu-central-1\/secretsmanager\//,
        ),
      },
    });
    expect(JSON.parse(seen[0]?.body ?? '')).toEqual({ SecretId: 'team/app' });
  });

  it('takes new credentials from their file', async () => {
    answer = () => ({ body: { SecretString: 'value' } });
    const store = openStore(config());
    await store.fetch({ path: 'app', field: null }, signal);
    await writeFile(token(), '[default]\naws_access_key_id = AKIDNEXT\naws_secret_access_key = the-next-key\n');
    await store.fetch({ path: 'app', field: null }, signal);
    expect(seen[1]?.headers.authorization).toContain('AKIDNEXT');
  });

  it('says what is wrong by its name alone', async () => {
    answer = () => ({
      status: 400,
      body: { __type: 'ResourceNotFoundException', message: 'no secret of account 123456789012' },
    });
    await expect(fetched(config(), 'none')).rejects.toMatchObject({
      code: 'secret_unavailable',
      message: 'AWS Secrets Manager: ResourceNotFoundException.',
    });
    answer = () => ({ body: { SecretBinary: 'AAAA' } });
    await expect(fetched(config(), 'binary')).rejects.toMatchObject({ code: 'secret_unavailable' });
    answer = () => ({ body: { SecretString: 'plain' } });
    await expect(fetched(config(), 'plain', 'key')).rejects.toMatchObject({ code: 'secret_unavailable' });
  });

  it('is asked in TLS, or on this machine only', () => {
    expect(() => openStore({ kind: 'aws', region: 'x', endpoint: 'http://aws.example' })).toThrow(/clear text/);
  });
});

describe('OAuth 2', () => {
  const oauth2 = (changes: object = {}) => ({
    oauth2: { clientId: 'me:x', clientSecret: new SecretValue('s/1'), refreshToken: null, scope: 'a b', ...changes },
  });

  it('gives a token for client credentials', async () => {
    answer = () => ({ body: { access_token: 't', token_type: 'Bearer', expires_in: 120 } });
    const config = { kind: 'oauth2', tokenUrl: `${url}/token` } as const;
    expect(await fetched(config, 'me', null, oauth2())).toEqual({ value: 't', validMs: 120_000 });
    const basic = Buffer.from('me%3Ax:s%2F1').toString('base64');
    expect(seen[0]).toMatchObject({ asked: 'POST /token', headers: { authorization: `Basic ${basic}` } });
    expect(seen[0]?.body).toBe('grant_type=client_credentials&scope=a+b');
  });

  it('gives a token for a refresh token, and the one that comes after it', async () => {
    answer = () => ({ body: { access_token: 't', refresh_token: 'next' } });
    const more = oauth2({ refreshToken: new SecretValue('r'), clientSecret: null, scope: null });
    const given = await fetched({ kind: 'oauth2', tokenUrl: `${url}/token` }, 'me', null, more);
    expect(given).toMatchObject({ value: 't', validMs: null });
    expect(given.nextRefreshToken?.reveal()).toBe('next');
    expect(seen[0]?.body).toBe('grant_type=refresh_token&refresh_token=r&client_id=me%3Ax');
  });
});

describe('on the machine', () => {
  it('a file of the folder is a value, and nothing outside of it', async () => {
    const own = join(folder, 'own');
    await mkdir(own);
    await writeFile(join(own, 'key'), 'value\n');
    await symlink(token(), join(own, 'out'));
    const config = { kind: 'files', folder: own } as const;
    expect((await fetched(config, 'key')).value).toBe('value');
    for (const path of ['out', '../token', 'absent', '.', '']) {
      await expect(fetched(config, path)).rejects.toMatchObject({ code: 'secret_unavailable' });
    }
  });

  it('a variable is one when it is named as one', async () => {
    const store = envStore({ SPACE_SECRET_A: 'a', HOME: '/root' });
    expect((await store.fetch({ path: 'SPACE_SECRET_A', field: null }, signal)).value.reveal()).toBe('a');
    for (const path of ['HOME', 'SPACE_SECRET_B', '__proto__']) {
      await expect(store.fetch({ path, field: null }, signal)).rejects.toMatchObject({ code: 'secret_unavailable' });
    }
  });
});

describe('whatever a store answers', () => {
  const config = () => ({ kind: 'http', url, tokenFile: token() }) as const;

  it.each<[string, () => ReturnType<typeof answer>]>([
    ['a refusal', () => ({ status: 403, body: 'token store-token is not good' })],
    ['a redirect', () => ({ status: 302, headers: { location: `${url}/elsewhere` }, body: '' })],
    ['too much', () => ({ body: 'x'.repeat(2 * 1024 * 1024) })],
    ['nothing', () => ({ body: '' })],
  ])('%s is a failure that can be repeated, and says nothing of what it said', async (_what, told) => {
    answer = told;
    const failed = await fetched(config(), 'a').catch((thrown: unknown) => thrown);
    expect(failed).toMatchObject({ code: 'secret_unavailable', kind: { retry: 'later' } });
    expect(String(failed)).not.toContain('store-token');
    expect(seen).toHaveLength(1);
  });

  it('it is asked in clear text on this machine only', () => {
    expect(() => openStore({ kind: 'http', url: 'http://vault.example/' })).toThrow(/clear text/);
    expect(() => openStore({ kind: 'oauth2', tokenUrl: 'http://10.0.0.1/' })).toThrow(/clear text/);
  });
});
