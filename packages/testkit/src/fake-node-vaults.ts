/** The vaults of a fake node: which there are, which are open, and by what key each opens. */
import { createHash } from 'node:crypto';
import {
  AppError,
  type CreateVaultOrder,
  DEFAULT_VAULT,
  type KeepVaultTokenOrder,
  type NodeVault,
  type OpenVaultOrder,
  type VaultName,
} from '@space/core';

interface FakeNodeVault {
  sizeBytes: number;
  readonly keyDigest: string | null;
  token: string | null;
  isOpen: boolean;
}

export class FakeNodeVaults {
  /** `default` is there from the start, and is open, as one that was made before. */
  readonly #vaults = new Map<VaultName, FakeNodeVault>([
    [DEFAULT_VAULT, { sizeBytes: 2 ** 33, keyDigest: null, token: null, isOpen: true }],
  ]);

  /** Every key that was given to it: all of them wiped by now, if it keeps its word. */
  readonly keys: Uint8Array[] = [];

  create({ vault, sizeBytes, key, token }: CreateVaultOrder): void {
    const keyDigest = this.#take(key);
    const there = this.#vaults.get(vault);
    if (there === undefined) this.#vaults.set(vault, { sizeBytes, keyDigest, token, isOpen: false });
    else if (there.keyDigest !== keyDigest) throw new AppError('vault_key_wrong', `${vault} has another key.`);
  }

  open({ vault, key }: OpenVaultOrder): void {
    const keyDigest = this.#take(key);
    const there = this.#get(vault);
    if (!there.isOpen && there.keyDigest !== keyDigest)
      throw new AppError('vault_key_wrong', `${vault} has another key.`);
    there.isOpen = true;
  }

  keepToken({ vault, key, token }: KeepVaultTokenOrder): void {
    const keyDigest = this.#take(key);
    const there = this.#get(vault);
    if (there.keyDigest !== keyDigest) throw new AppError('vault_key_wrong', `${vault} has another key.`);
    there.token = token;
  }

  /** What the header of its container keeps. */
  tokenOf(vault: VaultName): string | null {
    return this.#get(vault).token;
  }

  close(vault: VaultName): void {
    const there = this.#vaults.get(vault);
    if (there !== undefined) there.isOpen = false;
  }

  grow(vault: VaultName, sizeBytes: number): void {
    const there = this.#get(vault);
    there.sizeBytes = Math.max(there.sizeBytes, sizeBytes);
  }

  remove(vault: VaultName): void {
    if (this.isOpen(vault)) throw new AppError('vault_in_use', `${vault} is open.`);
    this.#vaults.delete(vault);
  }

  isOpen(vault: VaultName): boolean {
    return this.#vaults.get(vault)?.isOpen === true;
  }

  requireOpen(vault: VaultName): void {
    if (!this.isOpen(vault)) throw new AppError('vault_closed', `The vault ${vault} is not open on this node.`);
  }

  get someAreClosed(): boolean {
    return [...this.#vaults.values()].some(({ isOpen }) => !isOpen);
  }

  list(livesIn: (vault: VaultName) => number, availableBytes: number): readonly NodeVault[] {
    return [...this.#vaults].map(([vault, { keyDigest, isOpen, sizeBytes }]) => ({
      vault,
      encrypted: keyDigest !== null,
      way: keyDigest === null ? 'plain' : 'server',
      state: isOpen ? 'open' : 'closed',
      lives: livesIn(vault),
      space: isOpen ? { totalBytes: sizeBytes, availableBytes } : null,
    }));
  }

  #take(key: Uint8Array | null): string | null {
    if (key === null) return null;
    const digest = createHash('sha256').update(key).digest('hex');
    this.keys.push(key);
    key.fill(0);
    return digest;
  }

  #get(vault: VaultName): FakeNodeVault {
    const there = this.#vaults.get(vault);
    if (there === undefined) throw new AppError('not_found', `This node has no vault ${vault}.`);
    return there;
  }
}
