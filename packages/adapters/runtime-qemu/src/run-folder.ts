/**
 * The folder of one VMM process:
 *
 *     <runDir>/<life id>/            ours; the VMM may only pass through
 *         vmm.json                   which process it is
 *         state                      our socket, into which the VMM writes device state
 *         vmm/                       the VMM's working directory, writable by it: its sockets
 *
 * A spare's folder has a name of its own and is renamed when the spare is claimed; QEMU uses relative names only.
 */
import { chmod, chown, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseId, type VmRecord } from '@space/core';
import { z } from 'zod';
import { SOCKETS } from './command-line.ts';
import type { VmmUser } from './options.ts';
import { findByWorkingDirectory, identify, isErrno, killProcess, type ProcessIdentity } from './process-identity.ts';
import { MAX_SOCKET_PATH } from './sockets.ts';

const RECORD = 'vmm.json';
const SPARE = /^spare-(\d+)-(\d+)-\d+$/;
const LONGEST_NAME = 40;

const recordSchema = z.strictObject({ pid: z.int().min(2), startTime: z.string().regex(/^\d+$/) });

export class RunFolder {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** A new folder; throws when it exists. */
  static async create(path: string, user: VmmUser | undefined): Promise<RunFolder> {
    const folder = new RunFolder(path);
    await mkdir(path, { mode: 0o711 });
    await mkdir(folder.work, { mode: 0o700 });
    if (user) await chown(folder.work, user.uid, user.gid);
    return folder;
  }

  get work(): string {
    return join(this.path, 'vmm');
  }

  get state(): string {
    return join(this.path, 'state');
  }

  socket(name: keyof typeof SOCKETS): string {
    return join(this.work, SOCKETS[name]);
  }

  async writeRecord(identity: ProcessIdentity): Promise<void> {
    const { pid, startTime } = identity;
    await writeFile(join(this.path, RECORD), JSON.stringify({ pid, startTime }), { flag: 'wx' });
  }

  /** Which process the folder belongs to; null when there never was one, or it died before it was recorded. */
  async readRecord(): Promise<ProcessIdentity | null> {
    try {
      return recordSchema.parse(JSON.parse(await readFile(join(this.path, RECORD), 'utf8')));
    } catch (thrown) {
      if (!isErrno(thrown, 'ENOENT') && !(thrown instanceof SyntaxError)) throw thrown;
      // Whoever started it was killed before the record was complete.
      return await findByWorkingDirectory(this.work);
    }
  }

  /** Throws when there is one by that name: a life has one VMM. */
  async renameTo(path: string): Promise<RunFolder> {
    // rename(2) replaces an empty folder silently; ours are never empty.
    await rename(this.path, path);
    return new RunFolder(path);
  }

  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }
}

/** Makes the folder of all run folders, and ends the spares that a dead owner left in it. */
export async function openRunDir(runDir: string): Promise<void> {
  if (join(runDir, 'x'.repeat(LONGEST_NAME), 'vmm', SOCKETS.incoming).length > MAX_SOCKET_PATH) {
    throw new Error(`The path ${runDir} is too long to hold sockets`);
  }
  await mkdir(runDir, { recursive: true, mode: 0o711 });
  await chmod(runDir, 0o711);
  for (const name of await readdir(runDir)) {
    const owner = SPARE.exec(name);
    if (!owner?.[1] || (await identify(Number(owner[1])))?.startTime === owner[2]) continue;
    const folder = new RunFolder(join(runDir, name));
    const left = await folder.readRecord();
    if (left) await killProcess(left);
    await folder.remove();
  }
}

/** The name says who owns the spare, so that others tell it from one that was left behind. */
export async function spareFolderName(number: number): Promise<string> {
  const owner = await identify(process.pid);
  if (!owner) throw new Error('/proc does not show this process');
  return `spare-${owner.pid}-${owner.startTime}-${number}`;
}

/** The VMs whose folders are there, alive or not; a folder that no process ever had is removed. */
export async function recordsIn(runDir: string): Promise<VmRecord[]> {
  const records: VmRecord[] = [];
  for (const name of await readdir(runDir)) {
    const lifeId = parseId('life', name);
    if (!lifeId) continue;
    const folder = new RunFolder(join(runDir, name));
    const identity = await folder.readRecord();
    if (identity) records.push({ lifeId, ...identity, runDir: folder.path });
    else await folder.remove();
  }
  return records;
}
