/** The system user that PostgreSQL runs as. It refuses to run as root, so root hands it to a user that owns nothing else. */
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { AppError } from '@space/core';

export interface ServerUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

const OUTPUT_LIMIT = 4_000;

/** By name or numbers; when we are not root, ourselves. Throws `unavailable` when there is no such user. */
export async function findServerUser(
  asked: string | { readonly uid: number; readonly gid: number },
): Promise<ServerUser> {
  const ownUid = process.getuid?.() ?? -1;
  const users = await systemUsers();
  const found = users.find((user) => {
    if (ownUid !== 0) return user.uid === ownUid;
    return typeof asked === 'string' ? user.name === asked : user.uid === asked.uid;
  });
  if (found === undefined) {
    const who = ownUid !== 0 ? `uid ${ownUid}` : typeof asked === 'string' ? `"${asked}"` : `uid ${asked.uid}`;
    throw new AppError('unavailable', `PostgreSQL needs a system user and there is no user ${who}. Set-up makes it.`);
  }
  return ownUid === 0 && typeof asked !== 'string' ? { ...found, gid: asked.gid } : found;
}

/** Names by which the kernel may announce us on the socket. */
export async function namesOfThisProcess(): Promise<readonly string[]> {
  const uid = process.geteuid?.();
  return (await systemUsers()).filter((user) => user.uid === uid).map((user) => user.name);
}

/** The command line that runs a program as the user, with no other group and no way to more rights. */
export function commandAs(user: ServerUser, argv: readonly string[]): readonly [string, readonly string[]] {
  if (process.getuid?.() !== 0) return [argv[0] ?? '', argv.slice(1)];
  const become = [`--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups', '--no-new-privs'];
  return ['setpriv', [...become, '--', ...argv]];
}

/** What every program of PostgreSQL is given: nothing of our own environment. */
export const SERVER_ENVIRONMENT = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C.UTF-8', TZ: 'UTC' };

/** Runs a program to its end. Throws `unavailable` with the end of its output. */
export async function runAs(user: ServerUser, argv: readonly string[], timeoutMs: number): Promise<void> {
  const [file, args] = commandAs(user, argv);
  const child = spawn(file, args, {
    cwd: '/',
    env: SERVER_ENVIRONMENT,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-OUTPUT_LIMIT);
    });
  }
  const { promise, resolve, reject } = Promise.withResolvers<string | null>();
  child.once('error', reject);
  child.once('close', (code, signal) => resolve(code === 0 ? null : `${code ?? signal}`));
  const failed = await promise.catch((cause: unknown) => {
    throw new AppError('unavailable', `${file} could not be run.`, { cause });
  });
  if (failed !== null) throw new AppError('unavailable', `${argv[0]} failed (${failed}): ${output.trim()}`);
}

async function systemUsers(): Promise<readonly ServerUser[]> {
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n');
  return lines.flatMap((line) => {
    const [name, , uid, gid] = line.split(':');
    return name && uid && gid ? [{ name, uid: Number(uid), gid: Number(gid) }] : [];
  });
}
