import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KeyBytes, newId, type VaultName } from '@space/core';
import { type KmsUnderTest, kmsSuite } from '@space/testkit/kms-suite';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { fileKms, makeKeyFile, passphraseKms } from '../src/index.ts';

const chance = { bytes: (count: number) => randomBytes(count) };
const context = { organisationId: newId('organisation', chance), vault: 'v1' as VaultName };
const signal = AbortSignal.timeout(60_000);
const COST = { costLog2: 15 };

let parent: string;
let folder: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'space-kms-'));
  folder = join(parent, 'keys');
});
afterEach(() => rm(parent, { recursive: true, force: true }));

/** Taking the file away disables its key; taking the folder away is a place that is not mounted. */
function worldOf(file: string, keys: Pick<KmsUnderTest, 'kms' | 'other'>): KmsUnderTest {
  const path = join(folder, file);
  return {
    ...keys,
    disable: () => rename(path, `${path}.away`),
    enable: () => rename(`${path}.away`, path),
    remove: () => rm(path),
    outages: {
      'not mounted': {
        begin: () => rename(folder, `${folder}.away`),
        end: () => rename(`${folder}.away`, folder),
      },
    },
    dispose: async () => undefined,
  };
}

kmsSuite('a key file', async () => {
  await makeKeyFile(folder, 'one');
  await makeKeyFile(folder, 'two');
  return worldOf('one.key', { kms: fileKms(folder, 'one'), other: fileKms(folder, 'two') });
}, ['not mounted']);

kmsSuite('a passphrase', async () => {
  await makeKeyFile(folder, 'unused');
  await writeFile(join(folder, 'one'), 'correct horse battery\n', { mode: 0o600 });
  await writeFile(join(folder, 'two'), 'another horse battery\n', { mode: 0o600 });
  return worldOf('one', {
    kms: passphraseKms(join(folder, 'one'), COST),
    other: passphraseKms(join(folder, 'two'), COST),
  });
}, ['not mounted']);

it('a key file is private, is made once whoever comes first, and leaves no draft', async () => {
  await Promise.all(Array.from({ length: 8 }, () => makeKeyFile(folder, 'one')));
  const made = await readFile(join(folder, 'one.key'), 'latin1');
  await makeKeyFile(folder, 'one');
  expect(await readFile(join(folder, 'one.key'), 'latin1')).toBe(made);
  expect(Buffer.from(made, 'base64').length).toBe(32);
  expect((await stat(join(folder, 'one.key'))).mode & 0o777).toBe(0o600);
  expect((await stat(folder)).mode & 0o777).toBe(0o700);
  expect(await readdir(folder)).toEqual(['one.key']);
});

it.each([0o640, 0o604, 0o660])('a key file that others may read (%o) is not used', async (mode) => {
  await makeKeyFile(folder, 'one');
  await chmod(join(folder, 'one.key'), mode);
  const wrapping = fileKms(folder, 'one').wrap(new KeyBytes(randomBytes(8)), context, signal);
  await expect(wrapping).rejects.toMatchObject({ code: 'kms_refused' });
});

it('a key file that holds no whole key wraps nothing', async () => {
  await makeKeyFile(folder, 'one');
  for (const content of ['', 'AAAA\n', `${Buffer.alloc(33).toString('base64')}\n`]) {
    await writeFile(join(folder, 'one.key'), content);
    const wrapping = fileKms(folder, 'one').wrap(new KeyBytes(randomBytes(8)), context, signal);
    await expect(wrapping).rejects.toMatchObject({ code: 'kms_unavailable' });
  }
});

it.each(['../one', 'one/two', '', 'One', 'a.b', '-a'])('no file is read for the name "%s"', (name) => {
  expect(() => fileKms(folder, name)).toThrow(expect.objectContaining({ code: 'bad_request' }));
});

it('what one passphrase wrapped, another does not unwrap; nor is a memory-eating cost believed', async () => {
  await makeKeyFile(folder, 'unused');
  const path = join(folder, 'passphrase');
  await writeFile(path, 'correct horse battery', { mode: 0o600 });
  const kms = passphraseKms(path, COST);
  const wrapped = await kms.wrap(new KeyBytes(randomBytes(129)), context, signal);
  await writeFile(path, 'another horse battery');
  await expect(kms.unwrap(wrapped, context, signal)).rejects.toMatchObject({ code: 'vault_key_wrong' });
  await writeFile(path, 'correct horse battery');
  (await kms.unwrap(wrapped, context, signal)).wipe();
  for (const cost of [0, 1, 14, 19, 63, 255]) {
    const changed = Buffer.from(wrapped);
    changed[1] = cost;
    await expect(kms.unwrap(changed, context, signal)).rejects.toMatchObject({ code: 'vault_key_wrong' });
  }
  await writeFile(path, 'short\n');
  await expect(kms.check(wrapped, context, signal)).rejects.toMatchObject({ code: 'kms_unavailable' });
});
