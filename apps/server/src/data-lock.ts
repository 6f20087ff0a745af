/**
 * One platform per data folder. The lock is the kernel's and belongs to an open file that every process of the platform
 * inherits: it is free when the last of them is gone, however they ended, and not before.
 */
import { spawn } from 'node:child_process';
import { type FileHandle, open } from 'node:fs/promises';
import { fileHolders } from './holders.ts';

/** Processes of a platform that was killed end within moments. */
const WAIT_S = 20;
/** One that has a thread in a call to a slow disk is held until that returns, and shows no open file meanwhile. */
const DYING_WAITS = 15;
const FD_IN_CHILD = 3;

/** Throws when another platform keeps it. `report` is told of a long wait. */
export async function lockData(path: string, report: (step: string) => void = () => undefined): Promise<FileHandle> {
  const file = await open(path, 'a', 0o600);
  try {
    for (let waits = 0; waits < DYING_WAITS; waits++) {
      if (await lockOpenFile(file.fd)) return file;
      const holders = await fileHolders(path);
      if (holders.length > 0) throw locked(path, ` by ${holders.join(', ')}`);
      report('waiting for what the last run still asks of the disk');
    }
    throw locked(path, '');
  } catch (thrown) {
    await file.close();
    throw thrown;
  }
}

function locked(path: string, by: string): Error {
  return new Error(
    `Another platform uses this data folder, or is still ending (${path} is locked${by}). Stop it, or choose another folder with --data.`,
  );
}

function lockOpenFile(fd: number): Promise<boolean> {
  const child = spawn('flock', ['--wait', String(WAIT_S), String(FD_IN_CHILD)], {
    stdio: ['ignore', 'ignore', 'inherit', fd],
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code === 0));
  });
}
