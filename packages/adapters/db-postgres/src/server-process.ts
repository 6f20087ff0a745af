/**
 * One run of the server, ours or adopted. A process is known by its pid *and* its start time: a pid alone may by now be
 * somebody else's.
 */
import { spawn } from 'node:child_process';
import { open, readFile, readlink, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '@space/core';
import { commandAs, SERVER_ENVIRONMENT, type ServerUser } from './server-user.ts';

const POLL_MS = 100;
const READ_ATTEMPTS = 10;
const FAST_STOP_MS = 30_000;
const IMMEDIATE_STOP_MS = 10_000;

export interface ServerProcess {
  readonly pid: number;
  readonly startTicks: string;
  /** Settles when the process is gone. Never rejects. */
  readonly exited: Promise<void>;
}

interface PidFile {
  readonly pid: number;
  readonly socketDir: string;
  readonly ready: boolean;
}

export async function launch(user: ServerUser, argv: readonly string[], logPath: string): Promise<ServerProcess> {
  // A file, not a pipe: the server outlives us when we are killed, and must not die of writing to nobody.
  const log = await open(logPath, 'a', 0o600);
  try {
    // Of the server's user, who may be the one that starts it next time.
    if (process.getuid?.() === 0) await log.chown(user.uid, user.gid);
    const [file, args] = commandAs(user, argv);
    const child = spawn(file, args, {
      cwd: '/',
      env: SERVER_ENVIRONMENT,
      // A session of its own, so that the terminal's Ctrl-C is for us alone.
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    });
    const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', () => resolve());
      child.once('error', (cause) => reject(new AppError('unavailable', `${file} could not be run.`, { cause })));
    });
    child.unref();
    const { pid } = child;
    if (pid === undefined) throw new Error('a spawned process has a pid');
    const startTicks = await startTicksOf(pid).catch((thrown: unknown) => {
      // Of nobody it would run on.
      child.kill('SIGQUIT');
      throw thrown;
    });
    return { pid, startTicks: startTicks ?? '', exited };
  } finally {
    await log.close();
  }
}

/** The server that already runs on the data, proved to be one by its program and its working directory, the data. */
export async function findRunning(dataDir: string): Promise<(ServerProcess & { readonly socketDir: string }) | null> {
  const file = await readPidFile(dataDir);
  if (file === null) return null;
  const { pid, socketDir } = file;
  const startTicks = await startTicksOf(pid);
  if (startTicks === null) return null;
  const program = await readlink(`/proc/${pid}/exe`).catch(() => '');
  const workingDir = await readlink(`/proc/${pid}/cwd`).catch(() => '');
  if (!/\/postgres( \(deleted\))?$/.test(program) || workingDir !== (await realpath(dataDir))) return null;
  return { pid, startTicks, socketDir, exited: watchUntilGone({ pid, startTicks }) };
}

/** Whether the server says that it takes connections. */
export async function isReady(dataDir: string, pid: number): Promise<boolean> {
  const file = await readPidFile(dataDir);
  return file?.pid === pid && file.ready;
}

async function isAlive({ pid, startTicks }: Pick<ServerProcess, 'pid' | 'startTicks'>): Promise<boolean> {
  return (await startTicksOf(pid)) === startTicks;
}

/** Stops the server: at once, transactions rolled back; if that hangs, as a crash from which it recovers at its start. */
export async function stop(server: ServerProcess): Promise<void> {
  for (const [signal, waitMs] of [
    ['SIGINT', FAST_STOP_MS],
    ['SIGQUIT', IMMEDIATE_STOP_MS],
  ] as const) {
    if (!(await isAlive(server))) return;
    process.kill(server.pid, signal);
    const stopWaiting = new AbortController();
    const late = sleep(waitMs, undefined, { signal: stopWaiting.signal }).catch(() => undefined);
    await Promise.race([server.exited, late]);
    stopWaiting.abort();
  }
  if (await isAlive(server)) throw new AppError('timed_out', `PostgreSQL (pid ${server.pid}) did not stop.`);
}

async function watchUntilGone(server: Pick<ServerProcess, 'pid' | 'startTicks'>): Promise<void> {
  // What cannot be read is not gone.
  while (await isAlive(server).catch(() => true)) await sleep(POLL_MS, undefined, { ref: false });
}

/** Lines: pid, data folder, start time, port, socket folder, address, shared memory, status. */
async function readPidFile(dataDir: string): Promise<PidFile | null> {
  const text = await readFile(join(dataDir, 'postmaster.pid'), 'utf8').catch(() => '');
  const [pid = '', , , , socketDir = '', , , status = ''] = text.split('\n');
  if (!/^\d+$/.test(pid)) return null;
  return { pid: Number(pid), socketDir, ready: status.trim() === 'ready' };
}

type Read = (path: string) => Promise<string>;

/** Null: there is no such process, or it is dead and only not yet waited for. Throws `unavailable` when neither can be told. */
export async function startTicksOf(pid: number, read: Read = (path) => readFile(path, 'utf8')): Promise<string | null> {
  const stat = await statOf(pid, read);
  if (stat === null) return null;
  // The name, in brackets, may hold anything; the fields after it are numbered from 3.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const state = fields[0];
  return state === 'Z' || state === 'X' ? null : (fields[19] ?? null);
}

/** Null: there is no such process. Anything else that hinders the reading, as too many open files, may pass. */
async function statOf(pid: number, read: Read): Promise<string | null> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await read(`/proc/${pid}/stat`);
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException;
      if (code === 'ENOENT' || code === 'ESRCH') return null;
      if (attempt >= READ_ATTEMPTS) {
        throw new AppError('unavailable', `Whether process ${pid} lives cannot be read.`, { cause });
      }
      await sleep(POLL_MS);
    }
  }
}
