/**
 * Files belong to the user who asked for them, wherever they lie: E2B's daemon is root and gives away what it has made. So
 * this face makes them as root of the sandbox, and gives them away.
 */
import { posix } from 'node:path';
import { Code, ConnectError } from '@connectrpc/connect';
import { AppError } from '@space/core';
import type { EnvdCall } from './call.ts';
import { isAbsence } from './entry.ts';
import type { GuestUser } from './users.ts';

export async function giveTo(call: EnvdCall, path: string, { uid, gid }: GuestUser): Promise<void> {
  if (uid === 0 && gid === 0) return;
  const { useCases, caller, sandboxId: id } = call;
  const given = { id, path, user: 'root', owner: `${uid}`, group: `${gid}` };
  await useCases.setFileAttributes(caller, { ...given, follow: false });
}

/**
 * Whether the user may make files there, and so can do it without us: they are the user's own then. Asked as the user, since
 * the way there may be closed.
 */
export async function isOwnDirectory(call: EnvdCall, path: string, { name, uid }: GuestUser): Promise<boolean> {
  const { useCases, caller, sandboxId: id } = call;
  const status = await useCases.statFile(caller, { id, path, user: name }).catch((thrown) => {
    if (thrown instanceof AppError && thrown.code.startsWith('file_')) return undefined;
    throw thrown;
  });
  return status?.type === 'directory' && status.uid === uid && (status.mode & 0o300) === 0o300;
}

/** Makes a directory and those above it that are missing; throws `invalid_argument` for one that is a file. */
export async function ensureDirectory(call: EnvdCall, path: string, owner: GuestUser): Promise<void> {
  const { useCases, caller, sandboxId: id } = call;
  const missing: string[] = [];
  for (let at = path; ; at = posix.dirname(at)) {
    const status = await useCases.statFile(caller, { id, path: at, user: 'root' }).catch((thrown) => {
      if (isAbsence(thrown) && at !== '/') return undefined;
      throw thrown;
    });
    if (status?.type === 'directory') break;
    if (status !== undefined) throw new ConnectError(`path '${at}' is not a directory`, Code.InvalidArgument);
    missing.push(at);
  }
  for (const at of missing.reverse()) {
    // Somebody else may make it at the same time.
    await useCases.makeDirectory(caller, { id, path: at, user: 'root', parents: true });
    await giveTo(call, at, owner);
  }
}
