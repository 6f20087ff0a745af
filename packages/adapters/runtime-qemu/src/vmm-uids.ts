/**
 * Each VMM runs as a user of its own, from a range that nothing else on the machine uses.
 *
 *     <registry>/<uid>  ══ hard link ══  <run folder>/uid
 *
 * A uid is taken by linking the run folder's file into the registry, which fails when it is taken. So it is recorded
 * before it is used, a folder can be renamed, and the removal of the folder (which follows the proof of death) is what
 * sets the uid free, in whatever process and however suddenly: an entry with one link left belongs to nobody.
 */
import { chmod, link, mkdir, open, readdir, readFile, stat, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lock } from './kernel.ts';
import { isErrno } from './process-identity.ts';

export interface VmmUids {
  readonly first: number;
  readonly count: number;
  /** A folder on the file system of the run folders; shared by all that use the range. */
  readonly registry: string;
}

const UID_FILE = 'uid';
const LOCK_FILE = '.lock';
const LOCK_LIMIT_MS = 5_000;

/** A uid that no living VMM has, taken for this run folder. The next in turn: one that was just freed is used last. */
export async function takeUid(uids: VmmUids, runFolder: string): Promise<number> {
  return await locked(uids.registry, async () => {
    const taken = new Set(await readdir(uids.registry));
    const file = join(runFolder, UID_FILE);
    const last = Number(await readFile(join(uids.registry, LOCK_FILE), 'utf8')) || 0;
    for (let step = 1; step <= uids.count; step++) {
      const uid = uids.first + ((Math.max(last - uids.first, 0) + step) % uids.count);
      const entry = join(uids.registry, String(uid));
      if (taken.has(String(uid)) && !(await freeWhenAbandoned(entry))) continue;
      await writeFile(file, JSON.stringify({ uid }), { flag: 'w', mode: 0o600 });
      await link(file, entry);
      await writeFile(join(uids.registry, LOCK_FILE), String(uid));
      return uid;
    }
    throw new Error(`All ${uids.count} user ids of VMMs, from ${uids.first} on, are in use`);
  });
}

/** The uid that was taken for a run folder; null when there is none. */
export async function uidOf(runFolder: string): Promise<number | null> {
  try {
    const { uid } = JSON.parse(await readFile(join(runFolder, UID_FILE), 'utf8'));
    return Number.isInteger(uid) ? uid : null;
  } catch (thrown) {
    if (isErrno(thrown, 'ENOENT') || thrown instanceof SyntaxError) return null;
    throw thrown;
  }
}

/** Tidies the registry after a run folder was removed. */
export async function releaseUid(registry: string, uid: number): Promise<void> {
  await locked(registry, () => freeWhenAbandoned(join(registry, String(uid))));
}

async function freeWhenAbandoned(entry: string): Promise<boolean> {
  try {
    if ((await stat(entry)).nlink > 1) return false;
    await unlink(entry);
  } catch (thrown) {
    if (!isErrno(thrown, 'ENOENT')) throw thrown;
  }
  return true;
}

async function locked<T>(registry: string, action: () => Promise<T>): Promise<T> {
  await mkdir(registry, { recursive: true, mode: 0o700 });
  await chmod(registry, 0o700);
  await using file = await open(join(registry, LOCK_FILE), 'a', 0o600);
  await lock(file.fd, LOCK_LIMIT_MS);
  return await action();
}
