/**
 * Bytes as ciphertext that opens in its own place only: what it is bound to makes its key, an HMAC under the key that is given, and is
 * its associated data.
 *
 * ```
 * version 1 │ nonce, 12 │ AES-256-GCM of the bytes │ tag, 16
 * ```
 */
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto';
import type { KeyBytes } from './key-bytes.ts';

const VERSION = 1;
const TAG_BYTES = 16;
export const NONCE_BYTES = 12;
const OVERHEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES;

/** `nonce`: random, so few (2^32) may be sealed in one place. */
export function sealBytes(key: KeyBytes, bound: Uint8Array, bytes: Uint8Array, nonce: Uint8Array): Uint8Array {
  const own = boundKey(key, bound);
  const cipher = createCipheriv('aes-256-gcm', own, nonce, { authTagLength: TAG_BYTES });
  own.fill(0);
  cipher.setAAD(bound);
  const body = cipher.update(bytes);
  return Buffer.concat([Uint8Array.of(VERSION), nonce, body, cipher.final(), cipher.getAuthTag()]);
}

export function hasSealedForm(sealed: Uint8Array): boolean {
  return sealed.length >= OVERHEAD_BYTES && sealed[0] === VERSION;
}

/** Null: it has no form that is known, is damaged, or was sealed in another place or under another key. */
export function openBytes(key: KeyBytes, bound: Uint8Array, sealed: Uint8Array): Buffer | null {
  if (!hasSealedForm(sealed)) return null;
  const own = boundKey(key, bound);
  const nonce = sealed.subarray(1, 1 + NONCE_BYTES);
  const decipher = createDecipheriv('aes-256-gcm', own, nonce, { authTagLength: TAG_BYTES });
  own.fill(0);
  decipher.setAAD(bound);
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES));
  try {
    const body = decipher.update(sealed.subarray(1 + NONCE_BYTES, sealed.length - TAG_BYTES));
    return Buffer.concat([body, decipher.final()]);
  } catch {
    return null;
  }
}

/** What follows from a key for one place; whoever asks for it wipes it. */
export function boundKey(key: KeyBytes, bound: Uint8Array): Buffer {
  return createHmac('sha256', key.reveal()).update(bound).digest();
}
