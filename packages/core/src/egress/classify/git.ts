/** Fetches and pushes of git's smart HTTP, told by their paths: a fetch's body may be of any length, and is often compressed. */
import type { Call } from './spoken.ts';

const FETCH = 'upload-pack';
const PUSH = 'receive-pack';

/** Whether a push begins with it: a host that answers it does no more than read, but whoever may only read has no use for it. */
export function asksForPush(path: string, search: string): boolean {
  if (!/\/info\/refs\/?$/i.test(path)) return false;
  const unescaped = search.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return /receive-pack/i.test(unescaped);
}

/** Of a request with a body; null: it is neither a fetch nor a push. */
export function callsOfGit(path: string, search: string, contentType: string | null): readonly Call[] | null {
  if (search !== '') return null;
  for (const service of [FETCH, PUSH]) {
    if (path.endsWith(`/git-${service}`) && contentType === `application/x-git-${service}-request`) {
      return [{ method: service }];
    }
  }
  return null;
}

export function fetches({ method }: Call): boolean {
  return method === FETCH;
}

export const PUSHES: readonly Call[] = [{ method: PUSH }];
