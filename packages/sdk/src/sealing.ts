/**
 * Seals the value of a secret for the gateway, which alone can open it, and for one secret of one organisation: the format that
 * `gateway/src/secrets/sealing.ts` draws. What is between here and the gateway sees nothing of it.
 */
const FORMAT = 1;
const KEY_BITS = 256;

export interface SealedFor {
  /** Of the gateway: raw, in base64. */
  readonly publicKey: string;
  readonly organisation: string;
  readonly name: string;
}

export async function seal({ publicKey, organisation, name }: SealedFor, value: string): Promise<string> {
  const { subtle } = globalThis.crypto;
  const gateway = Uint8Array.from(atob(publicKey), (letter) => letter.charCodeAt(0));
  const own = await subtle.generateKey('X25519', false, ['deriveBits']);
  if (!('publicKey' in own)) throw new Error('keys of X25519 come in pairs');
  const sender = new Uint8Array(await subtle.exportKey('raw', own.publicKey));
  const far = await subtle.importKey('raw', gateway, 'X25519', false, []);
  const shared = await subtle.deriveBits({ name: 'X25519', public: far }, own.privateKey, KEY_BITS);
  const from = await subtle.importKey('raw', shared, 'HKDF', false, ['deriveKey']);
  const info = new TextEncoder().encode(`space secret\n${organisation}\n${name}`);
  const how = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array([...sender, ...gateway]), info };
  const once = await subtle.deriveKey(how, from, { name: 'AES-GCM', length: KEY_BITS }, false, ['encrypt']);
  const bytes = await subtle.encrypt(
    { name: 'AES-GCM', iv: new Uint8Array(12) },
    once,
    new TextEncoder().encode(value),
  );
  const sealed = new Uint8Array([FORMAT, ...sender, ...new Uint8Array(bytes)]);
  return btoa(Array.from(sealed, (byte) => String.fromCharCode(byte)).join(''));
}
