/** Looks up a system user that set-up made. */
import { readFile } from 'node:fs/promises';

/** Throws when there is no such user. */
export async function systemUser(name: string): Promise<{ readonly uid: number; readonly gid: number }> {
  const line = (await readFile('/etc/passwd', 'utf8')).split('\n').find((entry) => entry.startsWith(`${name}:`));
  const [, , uid, gid] = line?.split(':') ?? [];
  if (uid === undefined || gid === undefined) {
    throw new Error(`There is no system user "${name}". Run setup/bootstrap.sh, which makes it.`);
  }
  return { uid: Number(uid), gid: Number(gid) };
}
