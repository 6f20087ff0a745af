/**
 * The part of the records that says which vaults there are, whose, and by which key of the customer's each is opened. No key is in it
 * but wrapped.
 *
 * - A vault belongs to one organisation for good; its name is unique, and is never used again.
 * - At most one of an organisation's is where its new sandboxes go.
 * - A change is compared with what it was decided on (`version`): a revocation, or a rotation, that came in between wins.
 */
import type { ApiKeyId, OrganisationId, VaultName, WrappedKeyring } from '@space/core';

export interface RecordedVault {
  readonly name: VaultName;
  readonly organisationId: OrganisationId;
  /** Whether the new sandboxes of the organisation lie in it. */
  readonly isDefault: boolean;
  /**
   * `making`: recorded, and perhaps not on the node yet. `removing`: its keyring is gone, and with it all that lay in it, but not yet
   * from the node and from lists. `removed`: from these too.
   */
  readonly state: 'making' | 'ready' | 'removing' | 'removed';
  /** As its container was asked for. */
  readonly sizeBytes: number;
  /** Null: it is plain, or being removed, or removed. */
  readonly keyring: WrappedKeyring | null;
  /** Whether the header of its container is still to be told of the keyring as it is wrapped now. */
  readonly headerIsBehind: boolean;
  readonly revocation: VaultRevocation | null;
  /** What becomes of the sandboxes that run in it when it is revoked. */
  readonly onRevoke: OnRevoke;
  /** How long they run on while its KMS does not answer; null: for ever. */
  readonly outageMs: number | null;
  readonly version: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** `pause`: to their disks, in the vault, before it closes; what cannot be paused in time is ended. `kill`: ended at once. */
export type OnRevoke = 'pause' | 'kill';

export interface VaultRevocation {
  /** `asked`: by a key holder, who alone can reinstate it. `refused`: by its KMS, and over when that allows it again. */
  readonly cause: 'asked' | 'refused';
  /** Null: the platform, on the word of the KMS. */
  readonly by: ApiKeyId | null;
  readonly detail: string | null;
  readonly at: Date;
}

export type VaultChanges = Partial<
  Pick<
    RecordedVault,
    'isDefault' | 'state' | 'sizeBytes' | 'keyring' | 'headerIsBehind' | 'revocation' | 'onRevoke' | 'outageMs'
  >
>;

export interface VaultRecords {
  /** Version 1. Where it is to be the default, the one before is no more. Throws `name_taken`. */
  add(vault: Omit<RecordedVault, 'version' | 'updatedAt'>): Promise<RecordedVault>;
  find(name: VaultName): Promise<RecordedVault | null>;
  /** By name, those that are removed too. */
  list(organisationId: OrganisationId): Promise<readonly RecordedVault[]>;
  /** All that are not removed. */
  all(): Promise<readonly RecordedVault[]>;
  defaultOf(organisationId: OrganisationId): Promise<RecordedVault | null>;
  /** Null: it is no longer as it was seen. */
  change(seen: RecordedVault, changes: VaultChanges, at: Date): Promise<RecordedVault | null>;
}
