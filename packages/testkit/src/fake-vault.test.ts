import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_VAULT } from '@space/core';
import { FakeVault } from './fake-vault.ts';
import { vaultSuite } from './vault-suite.ts';

vaultSuite('the fake', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'space-fake-vault-'));
  const vault = await FakeVault.open(DEFAULT_VAULT, folder);
  return {
    vault,
    reopen: async () => {
      await vault.close();
      return await FakeVault.open(DEFAULT_VAULT, folder);
    },
    dispose: () => rm(folder, { recursive: true, force: true }),
  };
});
