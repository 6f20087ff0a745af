/**
 * The folder of one VMM process, which the helper makes and removes; here it is read:
 *
 *     <runDir>/<life id>/            one process's
 *         vmm.json                   which process it is
 *         uid                        which user it runs as
 *         build                      which build of the VMM it is
 *         sockets/                   on which it listens; made by its launcher, which hands them to it
 *
 * The VMM sees none of it. A spare's folder has a name of its own and is renamed when the spare is claimed.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseId, type VmRecord } from '@space/core';
import { z } from 'zod';
import type { SocketName } from './command-line.ts';
import { identify, isAlive, isErrno, type ProcessIdentity } from './process-identity.ts';
import { MAX_SOCKET_PATH } from './sockets.ts';

const RECORD = 'vmm.json';
const SPARE = /^spare-(\d+)-(\d+)-\d+$/;
const LONGEST_NAME = 40;
const DYING_MS = 1_000;

const recordSchema = z.strictObject({ pid: z.int().min(2), startTime: z.string().regex(/^\d+$/) });

export class RunFolder {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  static of(runDir: string, name: string): RunFolder {
    return new RunFolder(join(runDir, name));
  }

  socket(name: SocketName): string {
    return join(this.path, 'sockets', name);
  }

  /** The name of its build; null: it was started by a release that had one only. */
  async readBuild(): Promise<string | null> {
    try {
      return await readFile(join(this.path, 'build'), 'utf8');
    } catch (thrown) {
      if (isErrno(thrown, 'ENOENT')) return null;
      throw thrown;
    }
  }

  /** Which process the folder belongs to; null when there never was one: the launcher writes the record, then starts it. */
  async readRecord(): Promise<ProcessIdentity | null> {
    try {
      return recordSchema.parse(JSON.parse(await readFile(join(this.path, RECORD), 'utf8')));
    } catch (thrown) {
      if (isErrno(thrown, 'ENOENT')) return null;
      throw thrown;
    }
  }
}

/** What is done with a run folder that is not needed: its process is ended, and it is removed. */
export type Discard = (name: string) => Promise<void>;

/** Ends the spares that a dead owner left. */
export async function openRunDir(runDir: string, discard: Discard): Promise<void> {
  if (join(runDir, 'x'.repeat(LONGEST_NAME), 'sockets', 'console').length > MAX_SOCKET_PATH) {
    throw new Error(`The path ${runDir} is too long to hold sockets`);
  }
  for (const name of await readdir(runDir)) {
    const owner = SPARE.exec(name);
    const [, pid, startTime] = owner ?? [];
    if (!pid || !startTime || (await staysAlive({ pid: Number(pid), startTime }))) continue;
    await discard(name);
  }
}

/** One that was killed a moment ago may not have ended yet. */
async function staysAlive(owner: ProcessIdentity): Promise<boolean> {
  const deadline = performance.now() + DYING_MS;
  while (await isAlive(owner)) {
    if (performance.now() > deadline) return true;
    await sleep(DYING_MS / 20);
  }
  return false;
}

/** The name says who owns the spare, so that others tell it from one that was left behind. */
export async function spareFolderName(number: number): Promise<string> {
  const owner = await identify(process.pid);
  if (!owner) throw new Error('/proc does not show this process');
  return `spare-${owner.pid}-${owner.startTime}-${number}`;
}

/** The VMs whose folders are there, alive or not; a folder that no process ever had is removed. */
export async function recordsIn(runDir: string, discard: Discard): Promise<VmRecord[]> {
  const records: VmRecord[] = [];
  for (const name of await readdir(runDir)) {
    const lifeId = parseId('life', name);
    if (!lifeId) continue;
    const folder = RunFolder.of(runDir, name);
    const identity = await folder.readRecord();
    if (identity) records.push({ lifeId, ...identity, runDir: folder.path });
    else await discard(name);
  }
  return records;
}
