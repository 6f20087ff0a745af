/** What every adapter of the records does about vaults. */
import { randomBytes } from 'node:crypto';
import {
  DEFAULT_ORGANISATION,
  NO_CONSTRAINTS,
  NO_LIMITS,
  newId,
  type OrganisationId,
  type VaultName,
} from '@space/core';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Records } from '../src/records.ts';
import type { RecordedVault, VaultRecords } from '../src/vault-records.ts';

const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1_000);
const chance = { bytes: (count: number) => randomBytes(count) };

type NewVault = Omit<RecordedVault, 'version' | 'updatedAt'>;

function newVault(name: string, changes: Partial<NewVault> = {}): NewVault {
  return {
    name: name as VaultName,
    organisationId: DEFAULT_ORGANISATION,
    isDefault: false,
    state: 'making',
    sizeBytes: 8 * 1024 ** 3,
    keyring: { reference: { kms: 'local', key: 'installation' }, wrapped: Uint8Array.from([0, 1, 254, 255]) },
    headerIsBehind: false,
    revocation: null,
    onRevoke: 'pause',
    outageMs: null,
    createdAt: at(0),
    ...changes,
  };
}

export function vaultsSuite(suite: string, open: () => Promise<Records>): void {
  describe(`vaults: ${suite}`, () => {
    let records: Records;
    let vaults: VaultRecords;
    let other: OrganisationId;
    beforeEach(async () => {
      records = await open();
      vaults = records.vaults;
      other = await addOrganisation(records);
    });

    it('are found as they were added, also plain ones', async () => {
      expect(await vaults.find('a' as VaultName)).toBeNull();
      expect(await vaults.all()).toEqual([]);
      const added = await vaults.add(newVault('b'));
      expect(added).toEqual({ ...newVault('b'), version: 1, updatedAt: at(0) });
      const plain = await vaults.add(newVault('a', { keyring: null, onRevoke: 'kill', outageMs: 60_000 }));
      expect(await vaults.find('b' as VaultName)).toEqual(added);
      expect(await vaults.list(DEFAULT_ORGANISATION)).toEqual([plain, added]);
      expect(await vaults.list(other)).toEqual([]);
      expect(await vaults.all()).toEqual([plain, added]);
    });

    it('have a name that nobody else has, in no organisation, also once they are removed', async () => {
      const added = await vaults.add(newVault('a'));
      await expect(vaults.add(newVault('a', { organisationId: other }))).rejects.toMatchObject({ code: 'name_taken' });
      const removing = await vaults.change(added, { state: 'removing', keyring: null }, at(1));
      if (removing === null) throw new Error('it was changed by nobody');
      expect((await vaults.all()).map(({ name }) => name)).toContain('a');
      await vaults.change(removing, { state: 'removed' }, at(1));
      await expect(vaults.add(newVault('a'))).rejects.toMatchObject({ code: 'name_taken' });
      expect(await vaults.all()).toEqual([]);
      expect(await vaults.list(DEFAULT_ORGANISATION)).toMatchObject([{ name: 'a', state: 'removed', keyring: null }]);
    });

    it('are the default one at a time, for each organisation', async () => {
      expect(await vaults.defaultOf(DEFAULT_ORGANISATION)).toBeNull();
      await vaults.add(newVault('a', { isDefault: true }));
      await vaults.add(newVault('o', { organisationId: other, isDefault: true }));
      const second = await vaults.add(newVault('b', { isDefault: true, createdAt: at(1) }));
      expect(await vaults.defaultOf(DEFAULT_ORGANISATION)).toEqual(second);
      const first = await vaults.find('a' as VaultName);
      expect(first).toMatchObject({ isDefault: false, version: 2 });
      if (first === null) throw new Error('it is gone');
      await vaults.change(first, { isDefault: true }, at(2));
      expect(await vaults.defaultOf(DEFAULT_ORGANISATION)).toMatchObject({ name: 'a' });
      expect(await vaults.defaultOf(other)).toMatchObject({ name: 'o' });
    });

    it('change by comparison: who comes with what is no longer so changes nothing', async () => {
      const added = await vaults.add(newVault('a'));
      const revocation = { cause: 'asked', by: newId('apiKey', chance), detail: 'left', at: at(1) } as const;
      const revoked = await vaults.change(added, { revocation }, at(1));
      expect(revoked).toEqual({ ...added, revocation, version: 2, updatedAt: at(1) });
      // An opening that began before the revocation.
      expect(await vaults.change(added, { state: 'ready' }, at(2))).toBeNull();
      expect(await vaults.find(added.name)).toEqual(revoked);
      if (revoked === null) throw new Error('it did not change');
      const keyring = { reference: { kms: 'aws', key: 'alias/b' }, wrapped: Uint8Array.from([9]) };
      const rewrapped = await vaults.change(revoked, { keyring, revocation: null }, at(3));
      expect(rewrapped).toMatchObject({ keyring, revocation: null, version: 3 });
      expect(await vaults.find(added.name)).toEqual(rewrapped);
    });

    it('of two changes at once, one is made', async () => {
      const added = await vaults.add(newVault('a'));
      const results = await Promise.all([1, 2, 3, 4].map((sizeBytes) => vaults.change(added, { sizeBytes }, at(1))));
      expect(results.filter((result) => result !== null)).toHaveLength(1);
    });
  });
}

async function addOrganisation(records: Records): Promise<OrganisationId> {
  const id = newId('organisation', chance);
  const projectId = newId('project', chance);
  await records.tenants.addOrganisation(
    { id, name: id, operator: false, limits: NO_LIMITS, network: NO_CONSTRAINTS, createdAt: at(0) },
    { id: projectId, organisationId: id, name: 'first', snapshotPolicy: {}, createdAt: at(0) },
    {
      id: newId('apiKey', chance),
      organisationId: id,
      projectId: null,
      name: null,
      roles: ['admin'],
      prefix: 'sk',
      sha256: randomBytes(32),
      createdAt: at(0),
      revokedAt: null,
    },
  );
  return id;
}
