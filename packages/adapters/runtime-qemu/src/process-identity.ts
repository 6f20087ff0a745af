/** A process is known by its pid and its start time: pids are used again, the pair is not. */
import { readdir, readFile } from 'node:fs/promises';
import type { VmUsage } from '@space/core';

export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks since boot: field 22 of /proc/pid/stat. */
  readonly startTime: string;
}

/** Null when there is no such process. */
export async function identify(pid: number): Promise<ProcessIdentity | null> {
  const stat = await readStat(pid);
  return stat && { pid, startTime: stat.startTime };
}

export async function isAlive({ pid, startTime }: ProcessIdentity): Promise<boolean> {
  const stat = await readStat(pid);
  if (!stat || stat.startTime !== startTime) return false;
  return stat.state !== 'Z' || (await hasThreads(pid));
}

/** /proc counts processor time in these, on every Linux. */
const TICK_MS = 10;
const KIB = 1024;

/** Memory: the pages of files and shared memory that are mapped and resident. Null when there is no such process. */
export async function usageOf(identity: ProcessIdentity): Promise<VmUsage | null> {
  const { pid } = identity;
  const text = await readProc(pid, 'status');
  const stat = await readStat(pid);
  if (text === null || stat?.startTime !== identity.startTime) return null;
  const kib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0);
  return { cpuMs: stat.cpuTicks * TICK_MS, memoryBytes: (kib('RssFile') + kib('RssShmem')) * KIB };
}

async function readStat(pid: number): Promise<Stat | null> {
  const text = await readProc(pid, 'stat');
  return text === null ? null : parseStat(text);
}

async function readProc(pid: number, file: 'stat' | 'status'): Promise<string | null> {
  try {
    return await readFile(`/proc/${pid}/${file}`, 'utf8');
  } catch (thrown) {
    if (isErrno(thrown, 'ENOENT') || isErrno(thrown, 'ESRCH')) return null;
    throw thrown;
  }
}

interface Stat {
  readonly state: string;
  readonly startTime: string;
  /** In user mode and in the kernel's, of all threads. */
  readonly cpuTicks: number;
}

/** The name, in parentheses, may hold anything: fields are counted from the last one. */
export function parseStat(text: string): Stat {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, startTime] = [fields[0], fields[19]];
  const cpuTicks = Number(fields[11]) + Number(fields[12]);
  if (!state || !startTime || !Number.isSafeInteger(cpuTicks)) throw new Error('/proc/pid/stat has an unknown form');
  return { state, startTime, cpuTicks };
}

/** A leader that ended is a zombie while its other threads still run and hold memory and files. */
async function hasThreads(pid: number): Promise<boolean> {
  try {
    return (await readdir(`/proc/${pid}/task`)).length > 1;
  } catch (thrown) {
    if (isErrno(thrown, 'ENOENT') || isErrno(thrown, 'ESRCH')) return false;
    throw thrown;
  }
}

export function isErrno(thrown: unknown, code: string): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === code;
}
