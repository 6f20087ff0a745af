/**
 * Secrets that let in whoever holds one: 32 random bytes behind a prefix that says what they are. Only their SHA-256 is kept
 * and looked up (a secret has full entropy, so a slow hash would add nothing, and how long a look-up takes tells nothing of
 * use).
 */
import { createHash } from 'node:crypto';
import type { Chance } from '@space/core';

const SECRET_BYTES = 32;
const LETTERS = /^[A-Za-z0-9_-]{43}$/;

export function newSecret(prefix: string, chance: Chance): string {
  return `${prefix}${Buffer.from(chance.bytes(SECRET_BYTES)).toString('base64url')}`;
}

export function isSecret(prefix: string, text: string): boolean {
  return text.startsWith(prefix) && LETTERS.test(text.slice(prefix.length));
}

export function digestOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
