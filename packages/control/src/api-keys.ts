/**
 * API keys. A key is 32 random bytes behind a fixed prefix; only its SHA-256 is kept (the key has full entropy, so a slow
 * hash would add nothing). A given key is compared with every kept digest in constant time.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { type ApiKeyId, newId } from '@space/core';
import type { ControlPorts } from './ports.ts';

const PREFIX = 'space_';
const KEY_BYTES = 32;
const SHOWN_LETTERS = PREFIX.length + 4;
const MAX_KEY_LENGTH = 256;

/** Makes and records a key. `secretKey` is shown once and kept nowhere. */
export async function createApiKey({
  records,
  chance,
  clock,
}: Pick<ControlPorts, 'records' | 'chance' | 'clock'>): Promise<{ readonly id: ApiKeyId; readonly secretKey: string }> {
  const secretKey = `${PREFIX}${Buffer.from(chance.bytes(KEY_BYTES)).toString('base64url')}`;
  const id = newId('apiKey', chance);
  const createdAt = new Date(clock.now());
  await records.addApiKey({ id, prefix: secretKey.slice(0, SHOWN_LETTERS), sha256: digest(secretKey), createdAt });
  return { id, secretKey };
}

/** The id of the key, or null when it is none of ours. */
export async function verifyApiKey(records: ControlPorts['records'], given: string): Promise<ApiKeyId | null> {
  if (given.length > MAX_KEY_LENGTH) return null;
  const givenDigest = digest(given);
  let found: ApiKeyId | null = null;
  for (const { id, sha256 } of await records.apiKeys()) {
    if (timingSafeEqual(sha256, givenDigest)) found = id;
  }
  return found;
}

function digest(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
