/** The system users that the processes of the platform run as. Set-up makes them; nobody logs in as them. */
import { readFile } from 'node:fs/promises';
import type { RoleName } from './places.ts';

export interface User {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

export type Users = Readonly<Record<RoleName, User>>;

export const ROOT: User = { name: 'root', uid: 0, gid: 0 };

/** Throws when one is missing, with what to do. */
export async function findUsers(): Promise<Users> {
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'));
  const find = (wanted: string): User => {
    const [name, , uid, gid] = lines.find(([known]) => known === wanted) ?? [];
    if (name === undefined) {
      throw new Error(
        `There is no system user ${wanted}. Run setup/bootstrap.sh, which makes it (npm start does so too).`,
      );
    }
    return { name, uid: Number(uid), gid: Number(gid) };
  };
  return { node: find('space-node'), control: find('space-control'), gateway: find('space-gateway') };
}

/**
 * Becomes the user for good, with no other group and no capability. The code of a process is loaded before, so that it may
 * lie where only root can read; input of any kind is read afterwards.
 */
export function becomeUser({ uid, gid }: Pick<User, 'uid' | 'gid'>): void {
  const { setgroups, setgid, setuid, getuid, getgid } = process;
  if (!setgroups || !setgid || !setuid || !getuid || !getgid) throw new Error('This system has no users.');
  if (uid === 0) return;
  setgroups([]);
  setgid(gid);
  setuid(uid);
  if (getuid() !== uid || getgid() !== gid || canBeRoot(setuid))
    throw new Error(`The process did not become user ${uid}.`);
}

function canBeRoot(setuid: (id: number) => void): boolean {
  try {
    setuid(0);
    return true;
  } catch {
    return false;
  }
}
