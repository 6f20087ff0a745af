/** Vaults in memory, for tests. */
import { AppError, type OrganisationId, type VaultName } from '@space/core';
import type { RecordedVault, VaultChanges, VaultRecords } from '../src/vault-records.ts';

export class MemoryVaults implements VaultRecords {
  readonly #turn: () => Promise<void>;
  readonly #vaults = new Map<VaultName, RecordedVault>();

  constructor(turn: () => Promise<void>) {
    this.#turn = turn;
  }

  async add(vault: Omit<RecordedVault, 'version' | 'updatedAt'>) {
    await this.#turn();
    if (this.#vaults.has(vault.name)) throw new AppError('name_taken', `There is, or was, a vault "${vault.name}".`);
    const added = { ...vault, version: 1, updatedAt: vault.createdAt };
    if (added.isDefault) this.#dropDefault(added.organisationId, added.createdAt);
    this.#vaults.set(added.name, added);
    return added;
  }

  async find(name: VaultName) {
    await this.#turn();
    return this.#vaults.get(name) ?? null;
  }

  async list(organisationId: OrganisationId) {
    await this.#turn();
    return this.#sorted().filter((vault) => vault.organisationId === organisationId);
  }

  async all() {
    await this.#turn();
    return this.#sorted().filter(({ state }) => state !== 'removed');
  }

  async defaultOf(organisationId: OrganisationId) {
    await this.#turn();
    return this.#sorted().find((vault) => vault.isDefault && vault.organisationId === organisationId) ?? null;
  }

  async change(seen: RecordedVault, changes: VaultChanges, at: Date) {
    await this.#turn();
    const now = this.#vaults.get(seen.name);
    if (now?.version !== seen.version) return null;
    if (changes.isDefault === true && !now.isDefault) this.#dropDefault(now.organisationId, at);
    const changed = { ...now, ...changes, version: now.version + 1, updatedAt: at };
    this.#vaults.set(changed.name, changed);
    return changed;
  }

  #dropDefault(organisationId: OrganisationId, at: Date): void {
    for (const vault of this.#vaults.values()) {
      if (!vault.isDefault || vault.organisationId !== organisationId) continue;
      this.#vaults.set(vault.name, { ...vault, isDefault: false, version: vault.version + 1, updatedAt: at });
    }
  }

  #sorted(): RecordedVault[] {
    return [...this.#vaults.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }
}
