/**
 * The key of a project's archives out of one vault. It follows from the vault's content key, so that archives of one project share
 * pieces, and nothing more is to be kept; an archive has it along, wrapped by the customer's KMS, and so is read wherever that
 * unwraps it, also when the vault and its installation are gone.
 *
 * ```
 * plain, for the KMS alone:   version 2 │ SHA-256 of whose it is, vault and project, 32 │ key, 32
 * ```
 *
 * It is no keyring (`keyring.ts`), nor taken for one: another version, and another length.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { AppError } from '../errors.ts';
import type { ProjectId } from '../ids.ts';
import type { KeyContext, Kms, KmsReference } from '../ports/kms.ts';
import { boundBytes } from './bound-bytes.ts';
import { KeyBytes } from './key-bytes.ts';
import { boundKey } from './sealed-bytes.ts';

const VERSION = 2;
const DIGEST_BYTES = 32;
const KEY_AT = 1 + DIGEST_BYTES;
const KEY_BYTES = 32;

/** Where a key of archives belongs. */
export interface ArchiveKeyPlace extends KeyContext {
  readonly projectId: ProjectId;
}

/** As an archive has it along. */
export interface WrappedArchiveKey extends KeyContext {
  readonly reference: KmsReference;
  readonly wrapped: Uint8Array;
}

interface Wrapping {
  readonly kms: Kms;
  readonly signal: AbortSignal;
}

/** Whoever asks for it wipes it. */
export function archiveKeyOf(contentKey: KeyBytes, { organisationId, vault, projectId }: ArchiveKeyPlace): KeyBytes {
  const bound = boundBytes('space archive key', organisationId, vault, projectId);
  return KeyBytes.movedFrom(boundKey(contentKey, bound));
}

export async function wrapArchiveKey(
  key: KeyBytes,
  place: ArchiveKeyPlace,
  { kms, signal }: Wrapping,
): Promise<Uint8Array> {
  const packed = Buffer.allocUnsafeSlow(KEY_AT + KEY_BYTES);
  packed[0] = VERSION;
  packed.set(placeDigest(place), 1);
  packed.set(key.reveal(), KEY_AT);
  using whole = new KeyBytes(packed);
  return await kms.wrap(whole, contextOf(place), signal);
}

/** Whoever asks for it wipes it. Throws `vault_key_wrong` for what is none, or is another's; else as the KMS. */
export async function unwrapArchiveKey(
  wrapped: Uint8Array,
  place: ArchiveKeyPlace,
  { kms, signal }: Wrapping,
): Promise<KeyBytes> {
  using whole = await kms.unwrap(wrapped, contextOf(place), signal);
  const bytes = whole.reveal();
  if (bytes.length !== KEY_AT + KEY_BYTES || bytes[0] !== VERSION) {
    throw new AppError('vault_key_wrong', 'What was unwrapped is no key of archives.');
  }
  if (!timingSafeEqual(bytes.subarray(1, KEY_AT), placeDigest(place))) {
    throw new AppError('vault_key_wrong', 'The key is of archives of another project, vault or organisation.');
  }
  return KeyBytes.movedFrom(bytes.subarray(KEY_AT));
}

function contextOf({ organisationId, vault }: KeyContext): KeyContext {
  return { organisationId, vault };
}

function placeDigest({ organisationId, vault, projectId }: ArchiveKeyPlace): Buffer {
  return createHash('sha256')
    .update(boundBytes('space archive key', organisationId, vault, projectId))
    .digest();
}
