import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KeyBytes, newId, type VaultName } from '@space/core';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openKms, parseKms } from './kms.ts';

const chance = { bytes: (count: number) => randomBytes(count) };
const organisationId = newId('organisation', chance);
const other = newId('organisation', chance);
const context = { organisationId, vault: 'v1' as VaultName };
const signal = AbortSignal.timeout(60_000);

let parent: string;
let folder: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'space-kms-'));
  folder = join(parent, 'keys');
});
afterEach(() => rm(parent, { recursive: true }));

it('the first start makes the key of the installation, and the next ones use it', async () => {
  const key = { kms: 'local', key: 'installation' };
  const wrapped = await (await openKms(folder))
    .keyOf(key, organisationId)
    .wrap(new KeyBytes(randomBytes(129)), context, signal);
  const made = await readFile(join(folder, 'installation.key'));
  expect((await stat(join(folder, 'installation.key'))).mode & 0o777).toBe(0o600);
  (await (await openKms(folder)).keyOf(key, other).unwrap(wrapped, context, signal)).wipe();
  expect(await readFile(join(folder, 'installation.key'))).toEqual(made);
});

it('an organisation names the keys that it is granted, and sees no other KMS', async () => {
  const file = join(parent, 'passphrase');
  await writeFile(file, 'correct horse battery', { mode: 0o600 });
  const grants = { [organisationId]: ['alias/acme-*', 'exactly'] };
  const config = parseKms(
    JSON.stringify({
      cloud: { kind: 'aws', region: 'eu-central-1', grants },
      corp: { kind: 'transit', url: 'https://vault.corp.test:8200', tokenFile: '/run/token', grants },
      typed: { kind: 'passphrase', file, grants },
    }),
  );
  const kms = await openKms(folder, config);
  for (const [name, key] of [
    ['cloud', 'alias/acme-vaults'],
    ['corp', 'exactly'],
    ['typed', 'exactly'],
  ] as const) {
    kms.keyOf({ kms: name, key }, organisationId);
    const refused = expect.objectContaining({ code: 'bad_request' });
    expect(() => kms.keyOf({ kms: name, key }, other)).toThrow(refused);
    expect(() => kms.keyOf({ kms: name, key: 'alias/acm' }, organisationId)).toThrow(refused);
  }
  expect(() => kms.keyOf({ kms: 'none', key: 'exactly' }, organisationId)).toThrow('may use no key');
  expect(kms.list(other)).toEqual([{ name: 'local', kind: 'local' }]);
  expect(kms.list(organisationId).map(({ name }) => name)).toEqual(['local', 'cloud', 'corp', 'typed']);
});

it.each([
  ['a name that is ours', { local: { kind: 'passphrase', file: '/a', grants: {} } }],
  ['an unknown kind', { a: { kind: 'gcp', grants: {} } }],
  ['a field that is none', { a: { kind: 'passphrase', file: '/a', grants: {}, more: 1 } }],
  ['clear text', { a: { kind: 'transit', url: 'http://vault.corp.test', tokenFile: '/a', grants: {} } }],
  ['a relative path', { a: { kind: 'passphrase', file: 'a', grants: {} } }],
])('a file with %s stops the start', (_what, config) => {
  expect(() => parseKms(JSON.stringify(config))).toThrow();
});
