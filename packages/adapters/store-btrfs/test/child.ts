/** Runs `holder.ts` in a process of its own and ends it as a crash would. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { helperOf } from './world.ts';

const READY_TIMEOUT_MS = 15_000;

export interface Holder {
  /** Returns when the process is gone. */
  kill(): Promise<void>;
}

/** Whom it runs as; this process's user when nothing is said. */
export interface HolderUser {
  readonly uid?: number;
  readonly gid?: number;
  /** Which of the folder's helpers it asks, by their order. */
  readonly helper?: number;
}

const running = new Set<Holder>();

/** Ends what a failed test left running. */
export async function endHolders(): Promise<void> {
  await Promise.all([...running].map((holder) => holder.kill()));
}

/** Resolves once the holder has done its task. */
export async function startHolder(folder: string, task: string, user?: HolderUser): Promise<Holder> {
  const child = spawnHolder(folder, task, user);
  const exit = once(child, 'exit');
  const output = child.stdout;
  if (output === null) throw new Error('the holder has no output');
  const timeout = AbortSignal.timeout(READY_TIMEOUT_MS);
  await Promise.race([once(output, 'data', { signal: timeout }), exit]);
  if (child.exitCode !== null) throw new Error(`the holder ended with ${child.exitCode}`);
  const holder = {
    kill: async () => {
      child.kill('SIGKILL');
      await exit;
      running.delete(holder);
    },
  };
  running.add(holder);
  return holder;
}

/** Runs a holder that kills itself at a step, and returns the signal that ended it. */
export async function runUntilKilled(folder: string, task: string): Promise<string | null> {
  const child = spawnHolder(folder, task);
  const [, signal] = (await once(child, 'exit', { signal: AbortSignal.timeout(READY_TIMEOUT_MS) })) as [
    null,
    string | null,
  ];
  return signal;
}

function spawnHolder(folder: string, task: string, user: HolderUser = {}): ChildProcess {
  const program = join(import.meta.dirname, 'holder.ts');
  const { helper, ...ids } = user;
  const words = [program, folder, helperOf(folder, helper), task];
  return spawn(process.execPath, words, { ...ids, stdio: ['pipe', 'pipe', 'inherit'] });
}
