/** How a key of this machine wraps: AES-256-GCM with a random nonce, bound to the name of the key and to the context. */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { AppError, boundBytes, KeyBytes, type KeyContext } from '@space/core';

export const LOCAL_KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export interface Place {
  /** Kind and name of the wrapping key. */
  readonly by: string;
  readonly context: KeyContext;
}

export function wrapWith(key: Uint8Array, wrapped: KeyBytes, place: Place): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(boundTo(place));
  return Buffer.concat([nonce, cipher.update(wrapped.reveal()), cipher.final(), cipher.getAuthTag()]);
}

/** Throws `vault_key_wrong`. */
export function unwrapWith(key: Uint8Array, bytes: Uint8Array, place: Place): KeyBytes {
  const tagAt = bytes.length - TAG_BYTES;
  if (tagAt < NONCE_BYTES) throw notOurs();
  const cipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  cipher.setAAD(boundTo(place));
  cipher.setAuthTag(bytes.subarray(tagAt));
  const body = cipher.update(bytes.subarray(NONCE_BYTES, tagAt));
  try {
    cipher.final();
  } catch {
    body.fill(0);
    throw notOurs();
  }
  return KeyBytes.movedFrom(body);
}

export function notOurs(): AppError {
  return new AppError('vault_key_wrong', 'The wrapped key is damaged, or of another key, organisation or vault.');
}

function boundTo({ by, context }: Place): Buffer {
  return boundBytes('space kms local', by, context.organisationId, context.vault);
}
