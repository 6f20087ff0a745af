/** Who calls: the one place where a request gets its principal. */
import type { ApiKeyId } from '@space/core';
import { AppError } from '@space/core';

export interface Principal {
  readonly apiKeyId: ApiKeyId;
}

/** The holder of a key, or null when there is no such key. Must compare in constant time. */
export type Authenticate = (token: string) => Principal | null | Promise<Principal | null>;

const BEARER = /^Bearer ([\x21-\x7e]{1,512})$/i;

export async function identify(authorization: string | undefined, authenticate: Authenticate): Promise<Principal> {
  const token = BEARER.exec(authorization ?? '')?.[1];
  if (token === undefined) {
    throw new AppError(
      'unauthenticated',
      authorization === undefined
        ? 'The request has no Authorization header.'
        : 'Authorization must be "Bearer <key>".',
    );
  }
  const principal = await authenticate(token);
  if (principal === null) throw new AppError('unauthenticated', 'The key is not known.');
  return principal;
}
