/**
 * What requests into a sandbox prove themselves with. All of it follows from the token of that sandbox, which the platform keeps: the
 * SDKs send that one to what runs commands, another that is derived from it to other ports, and sign URLs of files with it.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';

/** Knowing it tells nothing of the token: what is in the sandbox may see it. */
export function trafficTokenOf(token: string): string {
  return createHmac('sha256', token).update('traffic').digest('base64url');
}

export function isSame(given: string, expected: string): boolean {
  const [a, b] = [given, expected].map((text) => createHash('sha256').update(text).digest());
  return a !== undefined && b !== undefined && timingSafeEqual(a, b);
}

export type Signed = 'good' | 'missing' | 'wrong' | 'expired';

/** Whether the query of a request for a file is signed with the token. */
export function checkSignature(method: string, query: URLSearchParams, token: string, nowMs: number): Signed {
  const [path, username] = [query.get('path') ?? '', query.get('username') ?? ''];
  const [signature, expiration] = [query.get('signature'), query.get('signature_expiration')];
  if (signature === null) return 'missing';
  const operation = method === 'GET' ? 'read' : 'write';
  const signed = [path, operation, username, token, ...(expiration === null ? [] : [expiration])].join(':');
  const expected = `v1_${createHash('sha256').update(signed).digest('base64').replace(/=+$/, '')}`;
  if (!isSame(signature, expected)) return 'wrong';
  if (expiration === null) return 'good';
  return /^[0-9]{1,12}$/.test(expiration) && Number(expiration) * 1000 >= nowMs ? 'good' : 'expired';
}
