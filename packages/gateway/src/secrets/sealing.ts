/**
 * How a value comes from whoever sets it to the gateway, through processes that may not read it: sealed for the gateway's public
 * key, and bound to the organisation and the name that it was set for.
 *
 *     1 │ public key of the sender, 32 │ AES-256-GCM of the value: ciphertext and tag
 *
 * X25519, then HKDF-SHA-256 over both public keys gives a key that is used once, and so its nonce is zero. SDK and command line
 * seal (`sdk/src/sealing.ts`).
 */
import { webcrypto } from 'node:crypto';
import { AppError, MAX_SECRET_BYTES, type SecretName, SecretValue } from '@space/core';

const FORMAT = 1;
const KEY_BYTES = 32;
const { subtle } = webcrypto;

export interface SealingKey {
  /** Raw, 32 bytes. */
  readonly publicKey: Buffer;
  readonly privateKey: webcrypto.CryptoKey;
}

/** PKCS #8. */
export async function newSealingKey(): Promise<Buffer> {
  const pair = (await subtle.generateKey('X25519', true, ['deriveBits'])) as webcrypto.CryptoKeyPair;
  return Buffer.from(await subtle.exportKey('pkcs8', pair.privateKey));
}

export async function sealingKeyFrom(pkcs8: Uint8Array): Promise<SealingKey> {
  const extractable = await subtle.importKey('pkcs8', pkcs8, 'X25519', true, ['deriveBits']);
  const { x = '' } = await subtle.exportKey('jwk', extractable);
  const privateKey = await subtle.importKey('pkcs8', pkcs8, 'X25519', false, ['deriveBits']);
  return { publicKey: Buffer.from(x, 'base64url'), privateKey };
}

/** Throws `bad_request`. */
export async function openSealed(key: SealingKey, name: SecretName, sealed: string): Promise<SecretValue> {
  try {
    const bytes = Buffer.from(sealed, 'base64');
    if (bytes[0] !== FORMAT) throw new Error('it is of another format');
    const sender = bytes.subarray(1, 1 + KEY_BYTES);
    const publicKey = await subtle.importKey('raw', sender, 'X25519', false, []);
    const shared = await subtle.deriveBits({ name: 'X25519', public: publicKey }, key.privateKey, KEY_BYTES * 8);
    const salt = Buffer.concat([sender, key.publicKey]);
    const info = Buffer.from(`space secret\n${name.organisationId}\n${name.name}`);
    const from = await subtle.importKey('raw', shared, 'HKDF', false, ['deriveKey']);
    const how = { name: 'HKDF', hash: 'SHA-256', salt, info };
    const once = await subtle.deriveKey(how, from, { name: 'AES-GCM', length: 256 }, false, ['decrypt']);
    const opened = await subtle.decrypt(
      { name: 'AES-GCM', iv: new Uint8Array(12) },
      once,
      bytes.subarray(1 + KEY_BYTES),
    );
    const text = new TextDecoder('utf-8', { fatal: true }).decode(opened);
    if (text.length === 0 || opened.byteLength > MAX_SECRET_BYTES) throw new Error('its length is not possible');
    return new SecretValue(text);
  } catch {
    // Why not is of no use to who sealed it well, and a hint to who did not.
    throw new AppError('bad_request', {
      detail: `The value was not sealed for the secret "${name.name}" of this organisation, or not for this gateway.`,
      facts: { field: 'sealed' },
    });
  }
}
