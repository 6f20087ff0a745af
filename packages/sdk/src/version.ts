/**
 * Which servers this client works with: any from OLDEST on, below the major version NEXT. An older one refuses what it does
 * not know (`bad_request`); what a newer one says beyond what is known here is passed on or passed over.
 */
import { SpaceError } from './errors.ts';

export const SDK_VERSION = '0.1.0';
const OLDEST: readonly [major: number, minor: number] = [0, 1];
const NEXT_MAJOR = 2;

/** Throws `version_unfit`. A server that does not say its version may be behind a proxy that drops the header. */
export async function checkVersion(response: Response): Promise<void> {
  const said = response.headers.get('x-space-version');
  if (said === null || isFit(said)) return;
  await response.body?.cancel();
  throw new SpaceError({
    code: 'version_unfit',
    detail: `The server is of version ${said}, and this client of version ${SDK_VERSION}.`,
    nextStep: `Use the client of the server's version; this one works with servers from ${OLDEST.join('.')} to below ${NEXT_MAJOR}.0.`,
    retry: 'never',
    status: response.status,
  });
}

function isFit(version: string): boolean {
  const match = /^(\d{1,6})\.(\d{1,6})\./.exec(version);
  if (match === null) return false;
  const [major, minor] = [Number(match[1]), Number(match[2])];
  return major < NEXT_MAJOR && (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]));
}
