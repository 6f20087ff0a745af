import { randomBytes } from 'node:crypto';
import {
  archiveKeyOf,
  KeyBytes,
  newId,
  newKeyring,
  unwrapArchiveKey,
  unwrapKeyring,
  type VaultName,
  wrapArchiveKey,
  wrapKeyring,
} from '@space/core';
import { FakeKms } from '@space/testkit';
import { describe, expect, it } from 'vitest';

const chance = { bytes: (count: number) => randomBytes(count) };
const signal = AbortSignal.timeout(60_000);
const kms = new FakeKms().key('k');
const how = { kms, signal };
const place = {
  organisationId: newId('organisation', chance),
  vault: 'acme' as VaultName,
  projectId: newId('project', chance),
};
const wrong = expect.objectContaining({ code: 'vault_key_wrong' });

describe('a key of archives', () => {
  it('is unwrapped for the project, vault and organisation that it was wrapped for, and for no other', async () => {
    const key = archiveKeyOf(new KeyBytes(randomBytes(32)), place);
    const wrapped = await wrapArchiveKey(key, place, how);
    expect((await unwrapArchiveKey(wrapped, place, how)).reveal()).toEqual(key.reveal());
    for (const other of [
      { ...place, projectId: newId('project', chance) },
      { ...place, vault: 'other' as VaultName },
      { ...place, organisationId: newId('organisation', chance) },
    ]) {
      await expect(unwrapArchiveKey(wrapped, other, how)).rejects.toEqual(wrong);
    }
  });

  it('is another for each project, vault, organisation and content key', () => {
    const content = new KeyBytes(randomBytes(32));
    const keys = [
      archiveKeyOf(content, place),
      archiveKeyOf(content, { ...place, projectId: newId('project', chance) }),
      archiveKeyOf(content, { ...place, vault: 'other' as VaultName }),
      archiveKeyOf(content, { ...place, organisationId: newId('organisation', chance) }),
      archiveKeyOf(new KeyBytes(randomBytes(32)), place),
    ].map((key) => Buffer.from(key.reveal()).toString('hex'));
    expect(new Set(keys).size).toBe(5);
    const again = archiveKeyOf(content, place);
    expect(Buffer.from(again.reveal()).toString('hex')).toBe(keys[0]);
  });

  it('is not taken for the keyring of a vault, nor a keyring for it', async () => {
    const keyring = newKeyring(chance);
    const { wrapped } = await wrapKeyring(keyring, { kms: 'x', key: 'k' }, { ...how, context: place });
    await expect(unwrapArchiveKey(wrapped, place, how)).rejects.toEqual(wrong);
    const archives = await wrapArchiveKey(archiveKeyOf(keyring.contentKey, place), place, how);
    const reference = { kms: 'x', key: 'k' };
    await expect(unwrapKeyring({ reference, wrapped: archives }, { ...how, context: place })).rejects.toEqual(wrong);
  });
});
