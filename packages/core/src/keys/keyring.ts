/**
 * The keys of one vault, as one thing to wrap: the **volume key** (LUKS2's, for what lies in the vault) and the **content key** (for
 * the tenant's content in the database). Both are random, made with the vault, and never written but wrapped.
 *
 * ```
 * plain, for the KMS alone:   version 1 │ SHA-256 of the context, 32 │ volume key, 64 │ content key, 32
 * ```
 *
 * The KMS binds what it wraps to the context; that the keyring repeats it is for a KMS that was asked to and does not, as a server
 * of an older version that leaves out what it does not know.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { AppError } from '../errors.ts';
import type { Chance } from '../ids.ts';
import type { KeyContext } from '../ports/kms.ts';
import { boundBytes } from './bound-bytes.ts';
import { KeyBytes } from './key-bytes.ts';

const VERSION = 1;
const DIGEST_BYTES = 32;
const VOLUME_KEY_BYTES = 64;
const CONTENT_KEY_BYTES = 32;
const VOLUME_KEY_AT = 1 + DIGEST_BYTES;
const CONTENT_KEY_AT = VOLUME_KEY_AT + VOLUME_KEY_BYTES;
const KEYRING_BYTES = CONTENT_KEY_AT + CONTENT_KEY_BYTES;

export interface Keyring {
  readonly volumeKey: KeyBytes;
  readonly contentKey: KeyBytes;
}

export function newKeyring(chance: Chance): Keyring {
  return {
    volumeKey: KeyBytes.movedFrom(chance.bytes(VOLUME_KEY_BYTES)),
    contentKey: KeyBytes.movedFrom(chance.bytes(CONTENT_KEY_BYTES)),
  };
}

export function wipeKeyring({ volumeKey, contentKey }: Keyring): void {
  volumeKey.wipe();
  contentKey.wipe();
}

/** For wrapping; whoever asks for it wipes it, and the keyring stays. */
export function packKeyring({ volumeKey, contentKey }: Keyring, context: KeyContext): KeyBytes {
  if (volumeKey.length !== VOLUME_KEY_BYTES || contentKey.length !== CONTENT_KEY_BYTES) {
    throw new Error('the keys of a keyring have other lengths');
  }
  const packed = Buffer.allocUnsafeSlow(KEYRING_BYTES);
  packed[0] = VERSION;
  packed.set(contextDigest(context), 1);
  packed.set(volumeKey.reveal(), VOLUME_KEY_AT);
  packed.set(contentKey.reveal(), CONTENT_KEY_AT);
  return new KeyBytes(packed);
}

/** Wipes what it is given. Throws `vault_key_wrong` for what is no keyring, or is another's. */
export function unpackKeyring(packed: KeyBytes, context: KeyContext): Keyring {
  using whole = packed;
  const bytes = whole.reveal();
  if (bytes.length !== KEYRING_BYTES) throw new AppError('vault_key_wrong', 'What was unwrapped is no keyring.');
  if (bytes[0] !== VERSION) {
    throw new AppError('vault_key_wrong', `The keyring has the format ${bytes[0]}, which this version does not know.`);
  }
  if (!timingSafeEqual(bytes.subarray(1, VOLUME_KEY_AT), contextDigest(context))) {
    throw new AppError('vault_key_wrong', 'The keyring is of another vault, or of another organisation.');
  }
  return {
    volumeKey: KeyBytes.movedFrom(bytes.subarray(VOLUME_KEY_AT, CONTENT_KEY_AT)),
    contentKey: KeyBytes.movedFrom(bytes.subarray(CONTENT_KEY_AT)),
  };
}

function contextDigest({ organisationId, vault }: KeyContext): Buffer {
  return createHash('sha256')
    .update(boundBytes('space keyring', organisationId, vault))
    .digest();
}
