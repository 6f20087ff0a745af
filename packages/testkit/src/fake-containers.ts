/**
 * The containers of a node's vaults, in folders. As the real ones, an open one stays open when who opened it is gone; the
 * `successor` is what the next process finds.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import {
  AppError,
  DEFAULT_VAULT,
  type KeyBytes,
  type VaultContainer,
  type VaultContainers,
  type VaultName,
  type VaultSpace,
  type VaultWish,
} from '@space/core';
import { type FakeStorage, REAL_FOLDERS } from './fake-storage.ts';
import { FakeVault } from './fake-vault.ts';
import { Faults } from './faults.ts';

interface Container {
  sizeBytes: number;
  /** Of its key; null: it has none. */
  readonly keyDigest: string | null;
  token: string | null;
  isMounted: boolean;
  /** Held by a process that lives. */
  isHeld: boolean;
}

export class FakeContainers implements VaultContainers {
  readonly faults: Faults;
  /** Those that this process has opened, by name. */
  readonly opened = new Map<VaultName, FakeVault>();
  /** What was left in each when the process before ended. */
  readonly #free = new Map<VaultName, VaultSpace>();
  readonly #folder: string;
  readonly #storage: FakeStorage;
  readonly #containers: Map<VaultName, Container>;

  constructor(
    folder: string,
    faults = new Faults(),
    storage: FakeStorage = REAL_FOLDERS,
    containers = new Map<VaultName, Container>(),
  ) {
    this.#folder = folder;
    this.faults = faults;
    this.#storage = storage;
    this.#containers = containers;
  }

  /** With a plain one `default`, which an earlier process has opened. */
  static async withDefault(folder: string, faults?: Faults, storage?: FakeStorage): Promise<FakeContainers> {
    const containers = new FakeContainers(folder, new Faults(), storage);
    await containers.create(DEFAULT_VAULT, { sizeBytes: 2 ** 30, key: null, token: null });
    await containers.open(DEFAULT_VAULT, null);
    return containers.successor(faults);
  }

  /** What the next process finds when this one is dead: what was open is open still, and held by nobody. */
  successor(faults = this.faults): FakeContainers {
    for (const container of this.#containers.values()) container.isHeld = false;
    const next = new FakeContainers(this.#folder, faults, this.#storage, this.#containers);
    for (const [name, { free }] of this.opened) next.#free.set(name, free);
    return next;
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
    opened.free = this.#free.get(vault) ?? opened.free;
    opened.onClose = async () => {
      await this.faults.at('containers.close');
      container.isMounted = false;
      container.isHeld = false;
      this.opened.delete(vault);
    };
    this.opened.set(vault, opened);
    return opened;
  }

  async keepToken(vault: VaultName, key: KeyBytes, token: string): Promise<void> {
    await this.faults.at('containers.keepToken');
    const container = this.#get(vault);
    requireKey(vault, container, key);
    container.token = token;
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

  /** The machine was off: nothing is open. */
  powerOff(): void {
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
