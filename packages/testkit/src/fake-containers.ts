/**
 * The containers of a node's vaults, in folders. As the real ones, an open one stays open when who opened it is gone: `crash` is
 * the death of that process, and the same object is then what the next process finds.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import {
  AppError,
  type KeyBytes,
  type VaultContainer,
  type VaultContainers,
  type VaultName,
  type VaultWish,
} from '@space/core';
import { type FakeStorage, REAL_FOLDERS } from './fake-storage.ts';
import { FakeVault } from './fake-vault.ts';
import { Faults } from './faults.ts';

interface Container {
  sizeBytes: number;
  /** Of its key; null: it has none. */
  readonly keyDigest: string | null;
  readonly token: string | null;
  isMounted: boolean;
  /** Held by a process that lives. */
  isHeld: boolean;
}

export class FakeContainers implements VaultContainers {
  readonly faults: Faults;
  readonly #folder: string;
  readonly #storage: FakeStorage;
  readonly #containers = new Map<VaultName, Container>();

  constructor(folder: string, faults = new Faults(), storage: FakeStorage = REAL_FOLDERS) {
    this.#folder = folder;
    this.faults = faults;
    this.#storage = storage;
  }

  async create(vault: VaultName, wish: VaultWish): Promise<void> {
    await this.faults.at('containers.create');
    const there = this.#containers.get(vault);
    if (there !== undefined) return requireKey(vault, there, wish.key);
    this.#storage.makeFolder(join(this.#folder, vault));
    const { sizeBytes, token } = wish;
    const keyDigest = digestOf(wish.key);
    this.#containers.set(vault, { sizeBytes, keyDigest, token, isMounted: false, isHeld: false });
  }

  async open(vault: VaultName, key: KeyBytes | null): Promise<FakeVault> {
    await this.faults.at('containers.open');
    const container = this.#get(vault);
    if (container.isHeld) throw new AppError('vault_busy', `The vault ${vault} is open in another process.`);
    if (!container.isMounted) requireKey(vault, container, key);
    container.isMounted = true;
    container.isHeld = true;
    const opened = await FakeVault.open(vault, join(this.#folder, vault), this.faults, this.#storage);
    opened.onClose = async () => {
      await this.faults.at('containers.close');
      container.isMounted = false;
      container.isHeld = false;
    };
    return opened;
  }

  async grow(vault: VaultName, sizeBytes: number): Promise<void> {
    await this.faults.at('containers.grow');
    const container = this.#get(vault);
    container.sizeBytes = Math.max(container.sizeBytes, sizeBytes);
  }

  async remove(vault: VaultName): Promise<void> {
    await this.faults.at('containers.remove');
    if (this.#containers.get(vault)?.isMounted) throw new AppError('vault_in_use', `The vault ${vault} is open.`);
    this.#containers.delete(vault);
    this.#storage.remove(join(this.#folder, vault));
  }

  async list(): Promise<readonly VaultContainer[]> {
    await this.faults.at('containers.list');
    return [...this.#containers].map(([vault, { keyDigest, isMounted }]) => ({
      vault,
      encrypted: keyDigest !== null,
      open: isMounted,
      way: keyDigest === null ? 'plain' : 'server',
    }));
  }

  /** Whoever opened them is dead; what was open is open still. */
  crash(): void {
    for (const container of this.#containers.values()) container.isHeld = false;
  }

  /** The machine was off: nothing is open. */
  powerOff(): void {
    this.crash();
    for (const container of this.#containers.values()) container.isMounted = false;
  }

  /** What its header says, and how large it is. */
  headerOf(vault: VaultName): { readonly token: string | null; readonly sizeBytes: number } {
    const { token, sizeBytes } = this.#get(vault);
    return { token, sizeBytes };
  }

  #get(vault: VaultName): Container {
    const container = this.#containers.get(vault);
    if (container === undefined) throw new AppError('not_found', `There is no vault ${vault} on this node.`);
    return container;
  }
}

function requireKey(vault: VaultName, { keyDigest }: Container, key: KeyBytes | null): void {
  if (keyDigest === digestOf(key)) return;
  throw new AppError('vault_key_wrong', `The vault ${vault} does not open with that key.`);
}

function digestOf(key: KeyBytes | null): string | null {
  return key === null ? null : createHash('sha256').update(key.reveal()).digest('hex');
}
