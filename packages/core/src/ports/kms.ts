/**
 * A key of the customer's, where the customer keeps it. It wraps the keys of vaults and never leaves; the platform has what it
 * wrapped, and has to ask each time. Adapters: `kms-*`, and the fake of testkit; all pass the suite of testkit.
 *
 * Three errors, since they mean three things to a vault:
 * - `kms_unavailable`: it did not answer, or could not for now. Nothing is revoked; ask again.
 * - `kms_refused`: it answered that the key may not be used: disabled, deleted, or not ours to use. The vault is revoked.
 * - `vault_key_wrong`: what was to be unwrapped is damaged, of another key, or of another owner or vault.
 * No message holds a byte of a key, nor text of a KMS that could.
 */
import type { OrganisationId, VaultName } from '../ids.ts';
import type { KeyBytes } from '../keys/key-bytes.ts';

/** Whose key it is and what for; what is wrapped for one is not unwrapped for another. */
export interface KeyContext {
  readonly organisationId: OrganisationId;
  readonly vault: VaultName;
}

/** Which key of which KMS. What is in it is no secret, and is shown. */
export interface KmsReference {
  /** A name of the operator's configuration; `local` is always there. */
  readonly kms: string;
  /** What it means is the KMS's: the name of a key, or an ARN. */
  readonly key: string;
}

/** The most that is wrapped in one piece: what every KMS takes. */
export const MAX_WRAPPED_KEY_BYTES = 4096;

/** One key of one KMS. Everything ends within the adapter's own limits of time, or when the signal aborts. */
export interface Kms {
  /** Does not keep the key, nor wipe it. */
  wrap(key: KeyBytes, context: KeyContext, signal: AbortSignal): Promise<Uint8Array>;
  /** Whoever asks for it wipes it. */
  unwrap(wrapped: Uint8Array, context: KeyContext, signal: AbortSignal): Promise<KeyBytes>;
  /** Whether it would be unwrapped now; throws as `unwrap` does, and leaves no key anywhere. */
  check(wrapped: Uint8Array, context: KeyContext, signal: AbortSignal): Promise<void>;
}

/** Finds the key that a reference names. Throws `bad_request` where the operator allows the organisation no such KMS, or the name is none. */
export interface KmsDirectory {
  keyOf(reference: KmsReference, organisationId: OrganisationId): Kms;
  /** What the organisation may name, with what a key's name looks like there. */
  list(organisationId: OrganisationId): readonly KmsOffer[];
}

export interface KmsOffer {
  readonly name: string;
  readonly kind: KmsKind;
}

export type KmsKind = 'local' | 'passphrase' | 'aws' | 'transit';
