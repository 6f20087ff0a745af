/** A value sealed for a gateway, made by other means than the SDK's: what both make is opened alike. */
import { createCipheriv, createPublicKey, diffieHellman, generateKeyPairSync, hkdfSync } from 'node:crypto';
import type { SecretName } from '@space/core';

/** What stands before a raw key of X25519 in its DER form. */
const SPKI = Buffer.from('302a300506032b656e032100', 'hex');

export function sealed(publicKey: string, { organisationId, name }: SecretName, value: string): string {
  const gateway = Buffer.from(publicKey, 'base64');
  const own = generateKeyPairSync('x25519');
  const sender = own.publicKey.export({ type: 'spki', format: 'der' }).subarray(SPKI.length);
  const far = createPublicKey({ key: Buffer.concat([SPKI, gateway]), type: 'spki', format: 'der' });
  const shared = diffieHellman({ privateKey: own.privateKey, publicKey: far });
  const info = `space secret\n${organisationId}\n${name}`;
  const key = Buffer.from(hkdfSync('sha256', shared, Buffer.concat([sender, gateway]), info, 32));
  const cipher = createCipheriv('aes-256-gcm', key, Buffer.alloc(12));
  const bytes = [cipher.update(value), cipher.final(), cipher.getAuthTag()];
  return Buffer.concat([Buffer.of(1), sender, ...bytes]).toString('base64');
}
