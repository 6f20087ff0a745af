/**
 * The use-cases on vaults and their keys. Each change is decided on the record as it is, and made only if it still is so; after a
 * revocation is recorded nothing in the vault begins any more.
 */
import type { Input, Vault, VaultList } from '@space/contract';
import {
  AppError,
  asAppError,
  type NodeVault,
  type OrganisationId,
  type ProjectId,
  type SandboxId,
  type VaultName,
} from '@space/core';
import type { GatedCaller } from './gated-caller.ts';
import type { ControlPorts } from './ports.ts';
import { removePoint } from './remove-point.ts';
import { eachOf, requireEmpty } from './vault-contents.ts';
import type { VaultHalt } from './vault-halt.ts';
import { changedMeanwhile, DEFAULT_VAULT_BYTES, revoked, type VaultKeys } from './vault-keys.ts';
import type { RecordedVault, VaultChanges } from './vault-records.ts';

export class VaultUseCases {
  readonly #ports: ControlPorts;
  readonly #keys: VaultKeys;
  readonly #halt: VaultHalt;
  readonly #remove: (id: SandboxId) => Promise<void>;
  readonly #removals = new Map<VaultName, Promise<void>>();

  constructor(
    ports: ControlPorts,
    { keys, halt, remove }: { keys: VaultKeys; halt: VaultHalt; remove: (id: SandboxId) => Promise<void> },
  ) {
    this.#remove = remove;
    this.#ports = ports;
    this.#keys = keys;
    this.#halt = halt;
  }

  async listVaults({ principal: { organisationId } }: GatedCaller): Promise<VaultList> {
    const recorded = await this.#ports.records.vaults.list(organisationId);
    const open = await this.#openOnes();
    return {
      vaults: recorded.map((vault) => viewVault(vault, open)),
      kms: [...(this.#ports.kms?.list(organisationId) ?? [])],
    };
  }

  async getVault({ principal }: GatedCaller, { id }: Input<'getVault'>): Promise<Vault> {
    return this.#view(await this.#find(principal.organisationId, id));
  }

  async createVault({ principal }: GatedCaller, input: Input<'createVault'>): Promise<Vault> {
    const { name, kms, key, ...rest } = input;
    const made = await this.#keys.make({
      ...rest,
      name: name as VaultName,
      organisationId: principal.organisationId,
      sizeBytes: DEFAULT_VAULT_BYTES,
      reference: { kms, key },
    });
    if (made.isDefault) this.#keys.forgetDefaults();
    return this.#view(made);
  }

  async updateVault({ principal }: GatedCaller, { id, ...changes }: Input<'updateVault'>): Promise<Vault> {
    const seen = await this.#findKept(principal.organisationId, id);
    if (changes.isDefault === true && seen.revocation !== null) throw revoked(seen.name, seen.revocation.detail);
    const changed = await this.#change(seen, changes);
    this.#keys.forgetDefaults();
    return this.#view(changed);
  }

  /** Both keys are asked; what is wrapped by the new one is recorded only if nothing changed meanwhile. */
  async rotateVaultKey(caller: GatedCaller, { id, ...reference }: Input<'rotateVaultKey'>): Promise<Vault> {
    const seen = await this.#findKept(caller.principal.organisationId, id);
    if (seen.revocation !== null) throw revoked(seen.name, seen.revocation.detail);
    return this.#view(await this.#keys.rewrap(seen, reference, caller.asker));
  }

  async revokeVault({ principal }: GatedCaller, { id, reason }: Input<'revokeVault'>): Promise<Vault> {
    const seen = await this.#findKept(principal.organisationId, id);
    if (seen.keyring === null) throw new AppError('wrong_state', `The vault ${id} has no key that could be revoked.`);
    const at = new Date(this.#ports.clock.now());
    const revocation = { cause: 'asked', by: principal.apiKeyId, detail: reason ?? null, at } as const;
    const already = seen.revocation?.cause === 'asked';
    const changed = already ? seen : await this.#change(seen, { revocation });
    this.#keys.note(changed);
    void this.#halt.begin(changed);
    return this.#view(changed);
  }

  /** The KMS has to allow it: else it would be revoked again by the next look. */
  async reinstateVault({ principal }: GatedCaller, { id }: Input<'reinstateVault'>): Promise<Vault> {
    const seen = await this.#findKept(principal.organisationId, id);
    if (seen.revocation === null) return this.#view(seen);
    await this.#keys.look(seen);
    // What it stops is stopped before it is taken back, so that nothing is stopped after.
    await this.#halt.begin(seen);
    const changed = await this.#change(seen, { revocation: null });
    this.#keys.note(changed);
    return this.#view(changed);
  }

  /** Once its keys are destroyed it is finished by rounds too; it answers when all is gone, and says so where that fails for now. */
  async deleteVault({ principal }: GatedCaller, { id }: Input<'deleteVault'>): Promise<void> {
    const seen = await this.#find(principal.organisationId, id);
    if (seen.state === 'removing') return this.#finishRemoval(seen);
    if (seen.keyring === null) throw new AppError('wrong_state', `The vault ${id} has no key that could be destroyed.`);
    if (seen.isDefault) {
      throw new AppError('vault_in_use', `New sandboxes go to the vault ${id}: make another the default first.`);
    }
    if (seen.revocation === null) await requireEmpty(this.#ports.records, seen);
    // From here on it is lost: the only copies of its keys that are left are those in memory, and in its header.
    await this.#finishRemoval(await this.#change(seen, { state: 'removing', keyring: null }));
  }

  /** Goes on with those whose deletion was begun, by whatever process. None of them is awaited: each may take a minute. */
  async goOnRemoving(): Promise<void> {
    const { records, logger } = this.#ports;
    const failed = (vault: VaultName) => (err: unknown) =>
      logger.warn({ vault, err }, 'a vault whose keys are destroyed is not gone yet; the next round will try');
    for (const vault of await records.vaults.all()) {
      if (vault.state === 'removing') void this.#finishRemoval(vault).catch(failed(vault.name));
    }
  }

  async settled(): Promise<void> {
    await Promise.allSettled(this.#removals.values());
  }

  /** Joins the one that is under way. */
  #finishRemoval(vault: RecordedVault): Promise<void> {
    const present = this.#removals.get(vault.name);
    if (present !== undefined) return present;
    const removal = this.#removeAll(vault)
      .catch((cause: unknown) => {
        throw removalGoesOn(vault.name, cause);
      })
      .finally(() => this.#removals.delete(vault.name));
    this.#removals.set(vault.name, removal);
    return removal;
  }

  async #removeAll(vault: RecordedVault): Promise<void> {
    await this.#halt.begin({ name: vault.name, onRevoke: 'kill' });
    await this.#ports.node.removeVault(vault.name);
    await this.#forget(vault);
    const { vaults } = this.#ports.records;
    const now = await vaults.find(vault.name);
    // Another process was quicker.
    if (now === null || now.state === 'removed') return;
    await this.#change(now, { state: 'removed' });
  }

  /** What lay in it is listed no more. Throws, at its end, when some of it could not be taken out now. */
  async #forget({ name, organisationId }: RecordedVault): Promise<void> {
    const { records, logger } = this.#ports;
    const failures: unknown[] = [];
    const failed = (err: unknown) => {
      failures.push(err);
      logger.warn({ vault: name, err }, 'what lay in a destroyed vault is listed still');
    };
    const own = new Set<ProjectId>();
    const projects = eachOf((page) => records.tenants.listProjects({ ...page, organisationId, only: null }));
    for await (const { id } of projects) own.add(id);
    for (const { id, vault, projectId } of await records.allSandboxes()) {
      // Whatever the vault is called: of nobody else's is anything removed.
      if (vault === name && own.has(projectId)) await this.#remove(id).catch(failed);
    }
    for (const projectId of own) {
      for await (const snapshot of eachOf((page) => records.listSnapshots({ ...page, projectId }))) {
        if (snapshot.vault === name) await removePoint(this.#ports, snapshot).catch(failed);
      }
    }
    if (failures.length > 0) throw failures[0];
  }

  /** One that is not being deleted. */
  async #findKept(organisationId: OrganisationId, name: string): Promise<RecordedVault> {
    const found = await this.#find(organisationId, name);
    if (found.state !== 'removing') return found;
    throw new AppError('not_found', `The vault ${name} is being deleted, and its key is destroyed.`);
  }

  async #find(organisationId: OrganisationId, name: string): Promise<RecordedVault> {
    const found = await this.#ports.records.vaults.find(name as VaultName);
    if (found?.organisationId !== organisationId || found.state === 'removed') {
      throw new AppError('not_found', `There is no vault "${name}".`);
    }
    return found;
  }

  async #change(seen: RecordedVault, changes: VaultChanges): Promise<RecordedVault> {
    const changed = await this.#ports.records.vaults.change(seen, changes, new Date(this.#ports.clock.now()));
    if (changed === null) throw changedMeanwhile(seen);
    return changed;
  }

  async #view(vault: RecordedVault): Promise<Vault> {
    return viewVault(vault, await this.#openOnes());
  }

  async #openOnes(): Promise<readonly NodeVault[] | null> {
    return this.#ports.node.vaults().catch(() => null);
  }
}

/** It is lost, and goes: whoever asked is told that there is more to do, and not that nothing was done. */
function removalGoesOn(name: VaultName, cause: unknown): AppError {
  const why = asAppError(cause).message;
  const detail = `The keys of the vault ${name} are destroyed, but it is not gone from its node and the lists yet: ${why} This goes on by itself.`;
  return new AppError('operation_in_progress', { detail, facts: { vault: name } }, { cause });
}

function viewVault(vault: RecordedVault, onNode: readonly NodeVault[] | null): Vault {
  const { name, isDefault, state, keyring, headerIsBehind, revocation, onRevoke, outageMs, createdAt, updatedAt } =
    vault;
  const there = onNode?.find((one) => one.vault === name);
  return {
    name,
    isDefault,
    state: stateOf(vault),
    open: onNode === null ? null : there !== undefined && there.state !== 'closed',
    encrypted: keyring !== null || state === 'removing' || state === 'removed',
    kms: keyring?.reference.kms ?? null,
    key: keyring?.reference.key ?? null,
    headerIsBehind,
    revocation:
      revocation === null
        ? null
        : {
            cause: revocation.cause,
            by: revocation.by,
            reason: revocation.detail,
            at: revocation.at.toISOString(),
          },
    onRevoke,
    outageMs,
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
  };
}

function stateOf({ state, revocation }: RecordedVault): Vault['state'] {
  if (state === 'removed') return 'deleted';
  if (state === 'removing') return 'deleting';
  return revocation === null ? 'ready' : 'revoked';
}
