/** Paths as E2B's SDKs give them: absolute, from the home of the user, or with `~` for it. */
import { posix } from 'node:path';
import { Code, ConnectError } from '@connectrpc/connect';
import { MAX_PATH_LENGTH } from '@space/contract';
import type { EnvdCall } from './call.ts';
import type { GuestUser, Users } from './users.ts';

/** As it is in the sandbox: absolute, without dots and double slashes. Throws where the sandbox does not have the user. */
export async function absolutePath(call: EnvdCall, path: string, users: Users): Promise<string> {
  return pathFrom(await users.find(call), path);
}

export function pathFrom({ home }: GuestUser, path: string): string {
  checkPath(path);
  if (path === '~' || path.startsWith('~/')) return posix.join(home, path.slice(1));
  if (path.startsWith('~')) throw invalidPath('the home of another user cannot be meant by ~');
  return posix.resolve(home, path);
}

function checkPath(path: string): void {
  if (path.includes('\0')) throw invalidPath('a path has no zero byte');
  if (Buffer.byteLength(path) > MAX_PATH_LENGTH) throw invalidPath(`a path has at most ${MAX_PATH_LENGTH} bytes`);
  if (!path.isWellFormed()) throw invalidPath('a path is UTF-8');
}

function invalidPath(message: string): ConnectError {
  return new ConnectError(message, Code.InvalidArgument);
}

export function notThere(path: string): ConnectError {
  return new ConnectError(`path '${path}' does not exist`, Code.NotFound);
}
