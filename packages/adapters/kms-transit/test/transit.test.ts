/** Against a double of the documented API, since no package brings Vault or OpenBao. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KeyBytes, newId, newKeyring, unwrapKeyring, type VaultName, wrapKeyring } from '@space/core';
import { type KmsUnderTest, kmsSuite } from '@space/testkit/kms-suite';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { transitKms } from '../src/index.ts';
import { TransitServer, type Trouble } from './transit-server.ts';

const TROUBLES: readonly Trouble[] = [
  'silent',
  'sealed',
  'standby',
  'slow down',
  'page of a proxy',
  'cut',
  'too long',
  'other json',
];
const chance = { bytes: (count: number) => randomBytes(count) };
const context = { organisationId: newId('organisation', chance), vault: 'v1' as VaultName };
const signal = AbortSignal.timeout(60_000);

let folder: string;
let server: TransitServer;
let url: string;
let tokenFile: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-transit-'));
  tokenFile = join(folder, 'token');
  await writeFile(tokenFile, 'token-of-the-platform\n', { mode: 0o600 });
  server = new TransitServer();
  url = await server.listen();
});
afterEach(async () => {
  await server.close();
  await rm(folder, { recursive: true });
});

const open = () => transitKms({ url, tokenFile, answerWithinMs: 200 });

function worldOf(how: { readonly derived: boolean }): KmsUnderTest {
  server.addKey('one', how);
  server.addKey('two', how);
  const port = Number(new URL(url).port);
  const trouble = (kind: Trouble) => ({
    begin: async () => {
      server.trouble = kind;
    },
    end: async () => {
      server.trouble = null;
    },
  });
  return {
    kms: open()('one'),
    other: open()('two'),
    // The engine cannot disable a key; a policy that names it no more does.
    disable: async () => void server.denied.add('one'),
    enable: async () => void server.denied.delete('one'),
    remove: async () => void server.keys.delete('one'),
    outages: {
      ...Object.fromEntries(TROUBLES.map((kind) => [kind, trouble(kind)])),
      'not there': {
        begin: () => server.close(),
        end: async () => void (await server.listen(port)),
      },
    },
    dispose: async () => undefined,
  };
}

const OUTAGES = [...TROUBLES, 'not there'];
kmsSuite('a transit key', async () => worldOf({ derived: false }), OUTAGES);
kmsSuite('a derived transit key', async () => worldOf({ derived: true }), ['sealed']);

it('asks as the token says, of the file as it is now, in the namespace', async () => {
  server.addKey('one');
  const kms = transitKms({ url, tokenFile, namespace: 'team', answerWithinMs: 200 })('one');
  const wrapped = await kms.wrap(new KeyBytes(randomBytes(8)), context, signal);
  expect(server.seen[0]).toMatchObject({ url: '/v1/transit/encrypt/one', headers: { 'x-vault-namespace': 'team' } });
  server.token = 'renewed';
  // Of an expired token it is no refusal of the key, though the answer is the same.
  await expect(kms.check(wrapped, context, signal)).rejects.toMatchObject({ code: 'kms_unavailable' });
  await writeFile(tokenFile, 'renewed');
  await kms.check(wrapped, context, signal);
  await rm(tokenFile);
  await expect(kms.check(wrapped, context, signal)).rejects.toMatchObject({ code: 'kms_unavailable' });
});

it('unwraps what an older version of the key wrapped, until the customer allows that no more', async () => {
  server.addKey('one');
  const kms = open()('one');
  const wrapped = await kms.wrap(new KeyBytes(randomBytes(129)), context, signal);
  const key = server.keys.get('one');
  if (key === undefined) throw new Error('there is no key');
  key.versions.push(randomBytes(32));
  await kms.check(wrapped, context, signal);
  key.minDecryptionVersion = 2;
  await expect(kms.check(wrapped, context, signal)).rejects.toMatchObject({ code: 'kms_refused' });
});

it('a server that leaves out associated data cannot have one keyring put in the place of another', async () => {
  server.addKey('one', { ignoresAssociatedData: true });
  const kms = open()('one');
  const reference = { kms: 'transit', key: 'one' };
  const kept = await wrapKeyring(newKeyring(chance), reference, { kms, context, signal });
  const other = { ...context, vault: 'v2' as VaultName };
  await expect(unwrapKeyring(kept, { kms, context: other, signal })).rejects.toMatchObject({ code: 'vault_key_wrong' });
  await unwrapKeyring(kept, { kms, context, signal });
});

it.each(['../sys/seal', 'a/b', 'a?b', '', '.', 'a.', 'a b'])('is asked for no odd name of a key: "%s"', (name) => {
  expect(() => open()(name)).toThrow(expect.objectContaining({ code: 'bad_request' }));
});

it('asks nobody in clear text over a network', () => {
  expect(() => transitKms({ url: 'http://vault.example:8200', tokenFile })).toThrow('clear text');
});
