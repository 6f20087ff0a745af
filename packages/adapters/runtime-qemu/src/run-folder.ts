/**
 * The folder of one VMM process:
 *
 *     <runDir>/<life id>/            one process's
 *         vmm.json                   which process it is
 *         uid                        which user it runs as
 *         sockets/                   on which it listens; made by its launcher, which hands them to it
 *
 * The VMM sees none of it. A spare's folder has a name of its own and is renamed when the spare is claimed.
 */
import { chmod, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseId, type VmRecord } from '@space/core';
import { z } from 'zod';
import type { SocketName } from './command-line.ts';
import { identify, isErrno, killProcess, type ProcessIdentity } from './process-identity.ts';
import { MAX_SOCKET_PATH } from './sockets.ts';

const RECORD = 'vmm.json';
const SPARE = /^spare-(\d+)-(\d+)-\d+$/;
const LONGEST_NAME = 40;

const recordSchema = z.strictObject({ pid: z.int().min(2), startTime: z.string().regex(/^\d+$/) });

export function parseRecord(text: string): ProcessIdentity {
  return recordSchema.parse(JSON.parse(text));
}

export class RunFolder {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** A new folder; throws when it exists. */
  static async create(path: string): Promise<RunFolder> {
    const folder = new RunFolder(path);
    await mkdir(path, { mode: 0o700 });
    await mkdir(folder.sockets, { mode: 0o700 });
    return folder;
  }

  get sockets(): string {
    return join(this.path, 'sockets');
  }

  socket(name: SocketName): string {
    return join(this.sockets, name);
  }

  /** Which process the folder belongs to; null when there never was one: the launcher writes the record, then starts it. */
  async readRecord(): Promise<ProcessIdentity | null> {
    try {
      return parseRecord(await readFile(join(this.path, RECORD), 'utf8'));
    } catch (thrown) {
      if (isErrno(thrown, 'ENOENT')) return null;
      throw thrown;
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

/** How a run folder is removed, with all that was taken for it. */
export type Clear = (folder: RunFolder) => Promise<void>;

/** Makes the folder of all run folders, and ends the spares that a dead owner left in it. */
export async function openRunDir(runDir: string, clear: Clear): Promise<void> {
  if (join(runDir, 'x'.repeat(LONGEST_NAME), 'sockets', 'console').length > MAX_SOCKET_PATH) {
    throw new Error(`The path ${runDir} is too long to hold sockets`);
  }
  await mkdir(runDir, { recursive: true, mode: 0o700 });
  await chmod(runDir, 0o700);
  for (const name of await readdir(runDir)) {
    const owner = SPARE.exec(name);
    if (!owner?.[1] || (await identify(Number(owner[1])))?.startTime === owner[2]) continue;
    const folder = new RunFolder(join(runDir, name));
    const left = await folder.readRecord();
    if (left) await killProcess(left);
    await clear(folder);
  }
}

/** The name says who owns the spare, so that others tell it from one that was left behind. */
export async function spareFolderName(number: number): Promise<string> {
  const owner = await identify(process.pid);
  if (!owner) throw new Error('/proc does not show this process');
  return `spare-${owner.pid}-${owner.startTime}-${number}`;
}

/** The VMs whose folders are there, alive or not; a folder that no process ever had is removed. */
export async function recordsIn(runDir: string, clear: Clear): Promise<VmRecord[]> {
  const records: VmRecord[] = [];
  for (const name of await readdir(runDir)) {
    const lifeId = parseId('life', name);
    if (!lifeId) continue;
    const folder = new RunFolder(join(runDir, name));
    const identity = await folder.readRecord();
    if (identity) records.push({ lifeId, ...identity, runDir: folder.path });
    else await clear(folder);
  }
  return records;
}
