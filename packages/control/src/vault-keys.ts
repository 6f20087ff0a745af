/**
 * The keys of vaults, as far as control has them: which vault an organisation's sandboxes go to, the key that opens one, and the
 * content keys of those that are open. Keys come from the KMS alone, and are wiped when a vault closes.
 *
 * A revocation that comes while a vault is being opened wins: the record is read before the KMS is asked, and again (`confirm`) once
 * the vault is open, when what was opened against it is closed again.
 */
import {
  AppError,
  type ArchiveKeyPlace,
  archiveKeyOf,
  DEFAULT_ORGANISATION,
  DEFAULT_VAULT,
  type KeyBytes,
  type Keyring,
  type KmsDirectory,
  type KmsReference,
  keyringToken,
  newKeyring,
  type OrganisationId,
  type ProjectId,
  unwrapArchiveKey,
  unwrapKeyring,
  type VaultName,
  type WrappedArchiveKey,
  wipeKeyring,
  wrapArchiveKey,
  wrapKeyring,
} from '@space/core';
import type { Asker } from './audit-records.ts';
import type { ControlPorts } from './ports.ts';
import { VaultAudit } from './vault-audit.ts';
import type { OnRevoke, RecordedVault } from './vault-records.ts';

export const INSTALLATION_KEY: KmsReference = { kms: 'local', key: 'installation' };
const DEFAULT_OUTAGE_MS = 24 * 60 * 60 * 1000;
/** A container is sparse, and grows when asked. */
export const DEFAULT_VAULT_BYTES = 1024 ** 4;
const KMS_WITHIN_MS = 15_000;
const ATTEMPTS = 5;

/** What opening a vault takes. At its end (`using`) the key is wiped, and unless it was confirmed all of the keyring is. */
export interface VaultOpening extends Disposable {
  /** Null: one from before there were keys. */
  readonly recorded: RecordedVault | null;
  /** Null: it is plain. */
  readonly key: KeyBytes | null;
  /** For the header of its container. */
  readonly token: string | null;
  /** To be called once it is open; throws `vault_revoked` when it has to be closed again. */
  confirm(): Promise<void>;
}

export interface ArchiveSeal {
  readonly key: KeyBytes;
  readonly wrapped: WrappedArchiveKey;
}

/** What seals the tenant's content in the records; whoever has it does not wipe it. */
export interface HeldContent {
  readonly key: KeyBytes;
  readonly organisationId: OrganisationId;
}

export interface NewVault {
  readonly name: VaultName;
  readonly organisationId: OrganisationId;
  readonly isDefault: boolean;
  readonly sizeBytes: number;
  readonly reference: KmsReference;
  readonly onRevoke: OnRevoke;
  readonly outageMs: number | null;
}

export class VaultKeys {
  readonly audit: VaultAudit;
  readonly #ports: ControlPorts;
  readonly #defaults = new Map<OrganisationId, Promise<VaultName>>();
  readonly #contents = new Map<VaultName, HeldContent>();
  readonly #revoked = new Set<VaultName>();
  /** Of the newest record that was seen of each. */
  readonly #versions = new Map<VaultName, number>();
  readonly #inUse = new Map<VaultName, AbortController>();

  constructor(ports: ControlPorts) {
    this.#ports = ports;
    this.audit = new VaultAudit(ports);
  }

  /** Where the organisation's new sandboxes go; made at the first use. Asked of the database once, since every create needs it. */
  async defaultFor(organisationId: OrganisationId): Promise<VaultName> {
    if (this.#ports.kms === undefined) return DEFAULT_VAULT;
    const known = this.#defaults.get(organisationId) ?? this.#findDefault(organisationId);
    this.#defaults.set(organisationId, known);
    try {
      return await known;
    } catch (thrown) {
      if (this.#defaults.get(organisationId) === known) this.#defaults.delete(organisationId);
      throw thrown;
    }
  }

  /** Another one is the default now, or may be. */
  forgetDefaults(): void {
    this.#defaults.clear();
  }

  /** A vault to be: recorded with its keyring, which nobody but its KMS can unwrap. The node makes it when it is opened first. */
  async make(wish: NewVault): Promise<RecordedVault> {
    const { reference, ...vault } = wish;
    requireFree(vault);
    const keyring = newKeyring(this.#ports.chance);
    try {
      const wrapped = await wrapKeyring(keyring, reference, this.#how(reference, vault));
      return await this.#ports.records.vaults.add({
        ...vault,
        keyring: wrapped,
        state: 'making',
        headerIsBehind: false,
        revocation: null,
        createdAt: this.#now(),
      });
    } finally {
      wipeKeyring(keyring);
    }
  }

  async opening(name: VaultName, by: Asker | null): Promise<VaultOpening> {
    const recorded = await this.#ports.records.vaults.find(name);
    if (recorded === null || recorded.keyring === null) {
      if (recorded !== null) {
        requireThere(recorded);
        // None was ever made so. Who writes to the database, and has no key, must not have one made in plain.
        throw new AppError('vault_key_wrong', `The record of the vault ${name} has lost its keyring.`);
      }
      const confirm = () => this.#confirm(recorded);
      return { recorded, key: null, token: null, confirm, [Symbol.dispose]: () => undefined };
    }
    this.note(recorded);
    requireNotRevoked(recorded);
    requireThere(recorded);
    const { volumeKey, contentKey } = await this.unwrap(recorded, { cause: 'open', by });
    return {
      recorded,
      key: volumeKey,
      token: keyringToken(recorded.keyring, contextOf(recorded)),
      confirm: async () => {
        await this.#confirm(recorded);
        this.closed(name);
        this.#contents.set(name, { key: contentKey, organisationId: recorded.organisationId });
      },
      [Symbol.dispose]: () => {
        volumeKey.wipe();
        if (this.#contents.get(name)?.key !== contentKey) contentKey.wipe();
      },
    };
  }

  /** Whoever asks for it wipes it. */
  async unwrap(
    recorded: RecordedVault,
    { cause, by }: { readonly cause: 'open' | 'rotate'; readonly by: Asker | null },
  ): Promise<Keyring> {
    const { keyring } = recorded;
    if (keyring === null) throw new AppError('vault_key_wrong', `The vault ${recorded.name} has no keyring.`);
    const how = this.#howKept(keyring.reference, recorded);
    return this.audit.around({ vault: recorded, cause, by }, () => unwrapKeyring(keyring, how));
  }

  /** What archives of the project out of the vault, which is open, are encrypted with; null: it is plain. Whoever asks for it wipes the key. */
  async archiveSeal(name: VaultName, projectId: ProjectId): Promise<ArchiveSeal | null> {
    const recorded = await this.#ports.records.vaults.find(name);
    if (recorded === null || recorded.keyring === null) return null;
    const held = this.content(name);
    if (held === null) throw new AppError('kms_unavailable', `The KMS of the vault ${name} does not answer.`);
    const place = { ...contextOf(recorded), projectId };
    const key = archiveKeyOf(held.key, place);
    try {
      const { reference } = recorded.keyring;
      const wrapped = await wrapArchiveKey(key, place, this.#howKept(reference, recorded));
      return { key, wrapped: { ...contextOf(recorded), reference, wrapped } };
    } catch (thrown) {
      key.wipe();
      throw thrown;
    }
  }

  /**
   * The key of an archive of the project, also of one of another installation. Whoever asks for it wipes it. Throws as its KMS;
   * `vault_revoked` when its vault is one of ours, and is.
   */
  async archiveKey({ reference, wrapped, ...owner }: WrappedArchiveKey, projectId: ProjectId): Promise<KeyBytes> {
    const vault = { name: owner.vault, organisationId: owner.organisationId };
    const place: ArchiveKeyPlace = { ...owner, projectId };
    const { tenants, vaults } = this.#ports.records;
    const recorded = await vaults.find(vault.name);
    if (recorded?.organisationId === vault.organisationId) {
      this.note(recorded);
      requireNotRevoked(recorded);
    }
    const how = this.#howKept(reference, vault);
    // What is of no organisation here is brought in by who runs the installation.
    const isOurs = (await tenants.organisationOf(projectId)) === vault.organisationId;
    const audited = { ...vault, organisationId: isOurs ? vault.organisationId : DEFAULT_ORGANISATION };
    const use = { vault: audited, cause: 'archive', by: null } as const;
    return this.audit.around(use, () => unwrapArchiveKey(wrapped, place, how));
  }

  /** Whether its KMS would unwrap it now. Throws as `unwrap`; leaves no key, and no record. */
  async look({ keyring, ...recorded }: RecordedVault): Promise<void> {
    if (keyring === null) return;
    const { kms, context, signal } = this.#howKept(keyring.reference, recorded);
    await kms.check(keyring.wrapped, context, signal);
  }

  /**
   * The same keyring under another key. Nothing that is encrypted is written again. Throws where it changed meanwhile. The header of its
   * container is told of it now or later.
   */
  async rewrap(recorded: RecordedVault, reference: KmsReference, by: Asker): Promise<RecordedVault> {
    const keyring = await this.unwrap(recorded, { cause: 'rotate', by });
    try {
      const wrapped = await wrapKeyring(keyring, reference, this.#how(reference, recorded));
      const changes = { keyring: wrapped, headerIsBehind: true };
      const changed = await this.#ports.records.vaults.change(recorded, changes, this.#now());
      if (changed === null) throw changedMeanwhile(recorded);
      return await this.tellHeader(changed, keyring.volumeKey);
    } finally {
      wipeKeyring(keyring);
    }
  }

  /**
   * Has the header of its container keep the keyring as it is wrapped now, so that the key it was wrapped by before is needed no more.
   * Where that fails, as while its node is away, it is behind still; the next opening does it, and rounds do.
   */
  async tellHeader(recorded: RecordedVault, volumeKey: KeyBytes): Promise<RecordedVault> {
    const { name: vault, keyring } = recorded;
    if (keyring === null) return recorded;
    const token = keyringToken(keyring, contextOf(recorded));
    try {
      using copy = volumeKey.copy();
      await this.#ports.node.keepVaultToken({ vault, key: copy.reveal(), token });
    } catch (err) {
      // One that nobody has used yet has no header, and gets one with this keyring.
      if (recorded.state !== 'making') {
        this.#ports.logger.warn({ vault, err }, 'the header of a vault keeps its earlier keyring still');
      }
      return recorded;
    }
    return this.#headerTold(recorded, token);
  }

  /** Somebody may have rotated the key since the record was read, and told the header before we did: then it is behind again. */
  async #headerTold(told: RecordedVault, token: string): Promise<RecordedVault> {
    let seen: RecordedVault | null = told;
    for (let attempt = 0; attempt < ATTEMPTS && seen?.keyring; attempt++) {
      const headerIsBehind = keyringToken(seen.keyring, contextOf(seen)) !== token;
      const changed = await this.#ports.records.vaults.change(seen, { headerIsBehind }, this.#now());
      if (changed !== null) return changed;
      seen = await this.#ports.records.vaults.find(told.name);
    }
    return seen ?? told;
  }

  /** For rounds: those whose headers could not be told at once. */
  async tellHeaders(): Promise<void> {
    const behind = (await this.#ports.records.vaults.all()).filter(
      ({ headerIsBehind, state, revocation }) => headerIsBehind && state === 'ready' && revocation === null,
    );
    if (behind.length === 0) return;
    const onNode = new Set((await this.#ports.node.vaults()).map(({ vault }) => vault));
    for (const recorded of behind) {
      if (!onNode.has(recorded.name)) continue;
      const keyring = await this.unwrap(recorded, { cause: 'rotate', by: null }).catch(() => null);
      if (keyring === null) continue;
      try {
        await this.tellHeader(recorded, keyring.volumeKey);
      } finally {
        wipeKeyring(keyring);
      }
    }
  }

  /** The vault is closed: its keys are wiped. */
  closed(name: VaultName): void {
    this.#contents.get(name)?.key.wipe();
    this.#contents.delete(name);
  }

  /** Null: the vault is not open, or plain. */
  content(name: VaultName): HeldContent | null {
    return this.#contents.get(name) ?? null;
  }

  /** Vaults of the organisation whose keys are held. */
  heldOf(organisationId: OrganisationId): readonly VaultName[] {
    return [...this.#contents].filter(([, held]) => held.organisationId === organisationId).map(([name]) => name);
  }

  /** Vaults whose keys are held. */
  held(): readonly VaultName[] {
    return [...this.#contents.keys()];
  }

  /** Takes over whether it is revoked; for whoever reads or changes the record. One that was read before another counts for nothing. */
  note({ name, revocation, version }: Pick<RecordedVault, 'name' | 'revocation' | 'version'>): void {
    if (version < (this.#versions.get(name) ?? 0)) return;
    this.#versions.set(name, version);
    if (revocation === null) this.#revoked.delete(name);
    else this.#bar(name);
  }

  /** For what reaches into sandboxes that run, while they are being stopped. Asks nobody. */
  requireUsable(name: VaultName): void {
    if (this.#revoked.has(name)) throw revoked(name);
  }

  /** For what goes on in a sandbox that runs: aborts, with `vault_revoked`, when that becomes known. */
  whileUsable(name: VaultName): AbortSignal {
    if (this.#revoked.has(name)) return AbortSignal.abort(revoked(name));
    const stop = this.#inUse.get(name) ?? new AbortController();
    this.#inUse.set(name, stop);
    return stop.signal;
  }

  #bar(name: VaultName): void {
    this.#revoked.add(name);
    const stop = this.#inUse.get(name);
    this.#inUse.delete(name);
    stop?.abort(revoked(name));
  }

  async #confirm(before: RecordedVault | null): Promise<void> {
    if (before === null) return;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const now = await this.#ports.records.vaults.find(before.name);
      if (now === null) throw new AppError('not_found', `There is no vault ${before.name}.`);
      this.note(now);
      requireNotRevoked(now);
      requireThere(now);
      if (now.state === 'ready') return;
      if ((await this.#ports.records.vaults.change(now, { state: 'ready' }, this.#now())) !== null) return;
    }
    throw changedMeanwhile(before);
  }

  async #findDefault(organisationId: OrganisationId): Promise<VaultName> {
    const found = await this.#ports.records.vaults.defaultOf(organisationId);
    if (found !== null) return found.name;
    const name = vaultNameOf(organisationId);
    const wish = { name, organisationId, isDefault: true, sizeBytes: DEFAULT_VAULT_BYTES, reference: INSTALLATION_KEY };
    try {
      return (await this.make({ ...wish, onRevoke: 'pause', outageMs: DEFAULT_OUTAGE_MS })).name;
    } catch (thrown) {
      // Another process was quicker.
      const made = await this.#ports.records.vaults.defaultOf(organisationId);
      if (made === null) throw thrown;
      return made.name;
    }
  }

  #how(reference: KmsReference, vault: Pick<RecordedVault, 'name' | 'organisationId'>) {
    const kms = kmsOf(this.#ports.kms, reference, vault.organisationId);
    return { kms, context: contextOf(vault), signal: AbortSignal.timeout(KMS_WITHIN_MS) };
  }

  /** Of a key that wraps a vault already: that its organisation may not name it any more is a refusal, as one of the KMS's. */
  #howKept(reference: KmsReference, vault: Pick<RecordedVault, 'name' | 'organisationId'>) {
    try {
      return this.#how(reference, vault);
    } catch (thrown) {
      if (!(thrown instanceof AppError) || thrown.code !== 'bad_request') throw thrown;
      throw new AppError('kms_refused', thrown.message, { cause: thrown });
    }
  }

  #now(): Date {
    return new Date(this.#ports.clock.now());
  }
}

/** Of the organisation's id: unique, and nobody has to think of it. */
export function vaultNameOf(organisationId: OrganisationId): VaultName {
  return organisationId.replace('_', '-') as VaultName;
}

/** A vault that all share, or that is another organisation's to be, is nobody's to make. */
function requireFree({ name, organisationId }: Pick<RecordedVault, 'name' | 'organisationId'>): void {
  const isReserved = name === DEFAULT_VAULT || name.startsWith('org-');
  if (!isReserved || name === vaultNameOf(organisationId)) return;
  throw new AppError('bad_request', `The name "${name}" is reserved: choose one that does not begin with "org-".`);
}

export function changedMeanwhile({ name }: Pick<RecordedVault, 'name'>): AppError {
  return new AppError('operation_in_progress', `The vault ${name} was changed by somebody else at the same time.`);
}

export function revoked(name: VaultName, detail?: string | null): AppError {
  const why = detail === undefined || detail === null ? '' : ` (${detail})`;
  return new AppError('vault_revoked', {
    detail: `The key of the vault ${name} is revoked${why}.`,
    facts: { vault: name },
  });
}

function kmsOf(directory: KmsDirectory | undefined, reference: KmsReference, organisationId: OrganisationId) {
  if (directory === undefined) throw new AppError('kms_unavailable', 'This installation has no KMS.');
  return directory.keyOf(reference, organisationId);
}

function contextOf({ organisationId, name }: Pick<RecordedVault, 'name' | 'organisationId'>) {
  return { organisationId, vault: name };
}

function requireNotRevoked({ name, revocation }: RecordedVault): void {
  if (revocation !== null) throw revoked(name, revocation.detail);
}

function requireThere({ name, state }: RecordedVault): void {
  if (state === 'removing' || state === 'removed')
    throw new AppError('not_found', `The vault ${name} was deleted, and its key with it.`);
}
