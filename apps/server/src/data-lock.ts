/**
 * One platform per data folder. The lock is the kernel's and belongs to an open file that every process of the platform
 * inherits: it is free when the last of them is gone, however they ended, and not before.
 */
import { spawn } from 'node:child_process';
import { type FileHandle, open } from 'node:fs/promises';
import { fileHolders } from './holders.ts';

/** Processes of a platform that was killed end within moments. */
const WAIT_S = 20;
const FD_IN_CHILD = 3;

/** Throws when another platform keeps it. */
export async function lockData(path: string): Promise<FileHandle> {
  const file = await open(path, 'a', 0o600);
  try {
    if (await lockOpenFile(file.fd)) return file;
  } catch (thrown) {
    await file.close();
    throw thrown;
  }
  await file.close();
  const holders = await fileHolders(path);
  const by = holders.length === 0 ? '' : ` by ${holders.join(', ')}`;
  throw new Error(
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
