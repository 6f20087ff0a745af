/**
 * The containers that the helper was told of when it was started: plain ones, each with a place of its own. They are made at their
 * first opening, and neither made nor removed by an order.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, type VaultContainers, type VaultName } from '@space/core';
import type { RootHelper } from '@space/root-helper';
import { openVault } from '@space/store-btrfs';

interface PlainVault {
  readonly name: VaultName;
  readonly folder: string;
  readonly backing: 'loop' | 'device';
}

export function plainContainers(vaults: readonly PlainVault[], helper: RootHelper): VaultContainers {
  const find = (name: VaultName): PlainVault => {
    const found = vaults.find((vault) => vault.name === name);
    if (found === undefined) throw new AppError('not_found', `This node has no vault ${name}.`);
    return found;
  };
  const refuse = async (): Promise<never> => {
    throw new AppError('wrong_state', 'The vaults of this installation are those of its configuration.');
  };
  return {
    create: async (name, { key }) => {
      find(name);
      if (key !== null) await refuse();
    },
    open: async (name, key) => {
      if (key !== null) throw new AppError('vault_key_wrong', `The vault ${name} has no key.`);
      return openVault({ ...find(name), helper });
    },
    grow: refuse,
    remove: refuse,
    list: () =>
      Promise.all(
        vaults.map(async ({ name, folder }) => {
          const open = await isMounted(folder);
          return { vault: name, encrypted: false, open, way: 'plain' as const };
        }),
      ),
  };
}

/** By whichever process: what is mounted is another file system than the folder that it is mounted in. */
async function isMounted(folder: string): Promise<boolean> {
  const deviceOf = async (path: string) => (await stat(path).catch(() => null))?.dev;
  const inside = await deviceOf(join(folder, 'mnt'));
  return inside !== undefined && inside !== (await deviceOf(folder));
}
