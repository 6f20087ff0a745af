/**
 * A process is known by its pid and its start time: pids are used again, the pair is not. Nothing here signals a pid
 * whose start time it has not just read.
 */
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

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

/** SIGKILL, then waits until the process is proved dead. Throws when it is not within the time. */
export async function killProcess(identity: ProcessIdentity, timeoutMs = 10_000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (let pauseMs = 1; await isAlive(identity); pauseMs = Math.min(pauseMs * 1.5, 50)) {
    signalKill(identity.pid);
    if (performance.now() > deadline) throw new Error(`Process ${identity.pid} did not die within ${timeoutMs} ms`);
    await sleep(pauseMs);
  }
}

function signalKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (thrown) {
    if (!isErrno(thrown, 'ESRCH')) throw thrown;
  }
}

async function readStat(pid: number): Promise<{ readonly state: string; readonly startTime: string } | null> {
  try {
    return parseStat(await readFile(`/proc/${pid}/stat`, 'utf8'));
  } catch (thrown) {
    if (isErrno(thrown, 'ENOENT') || isErrno(thrown, 'ESRCH')) return null;
    throw thrown;
  }
}

/** The name, in parentheses, may hold anything: fields are counted from the last one. */
export function parseStat(text: string): { readonly state: string; readonly startTime: string } {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, startTime] = [fields[0], fields[19]];
  if (!state || !startTime) throw new Error('/proc/pid/stat has an unknown form');
  return { state, startTime };
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
