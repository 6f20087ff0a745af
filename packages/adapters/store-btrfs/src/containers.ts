/**
 * The containers of a node's vaults, each in a folder of its name: made, opened, grown and removed by the helper. Which process
 * has one open is the kernel's to say, by the lock in that folder.
 */
import { join } from 'node:path';
import type { KeyBytes, Vault, VaultContainer, VaultContainers, VaultName, VaultWish } from '@space/core';
import type { RootHelper } from '@space/root-helper';
import { openVault } from './open-vault.ts';

export interface ContainersOptions {
  /** The folder of the vaults' folders, as the helper knows it. */
  readonly folder: string;
  readonly helper: Pick<
    RootHelper,
    'createVault' | 'openVault' | 'closeVault' | 'keepToken' | 'growVault' | 'removeVault' | 'partLife' | 'vaults'
  >;
  /** Those that the helper's configuration puts on a device of their own. */
  readonly onDevices?: readonly VaultName[];
}

export class BtrfsContainers implements VaultContainers {
  readonly #options: ContainersOptions;

  constructor(options: ContainersOptions) {
    this.#options = options;
  }

  create(vault: VaultName, wish: VaultWish): Promise<void> {
    return this.#options.helper.createVault(vault, wish);
  }

  open(vault: VaultName, key: KeyBytes | null): Promise<Vault> {
    const { folder, helper, onDevices = [] } = this.#options;
    const backing = onDevices.includes(vault) ? 'device' : 'loop';
    return openVault({ name: vault, folder: join(folder, vault), backing, helper, key });
  }

  keepToken(vault: VaultName, key: KeyBytes, token: string): Promise<void> {
    return this.#options.helper.keepToken(vault, key, token);
  }

  grow(vault: VaultName, sizeBytes: number): Promise<void> {
    return this.#options.helper.growVault(vault, sizeBytes);
  }

  remove(vault: VaultName): Promise<void> {
    return this.#options.helper.removeVault(vault);
  }

  list(): Promise<readonly VaultContainer[]> {
    return this.#options.helper.vaults();
  }
}
