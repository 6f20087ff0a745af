/**
 * Getting a life ready for a capture. The snapshot ioctl first writes out the life's dirty data and then commits, and the VM
 * stands still for both; so both are done beforehand, while it runs, and the capture finds little left. Nothing need be
 * durable yet, and what other lives have written is not waited for: so neither file is synced, nor the file system.
 */
import { open } from 'node:fs/promises';
import type { LifeFiles } from '@space/core';
import { commitTransaction } from './btrfs.ts';
import { writeOut } from './kernel.ts';

export async function flushFiles(root: string, files: LifeFiles): Promise<void> {
  await Promise.all([files.memory, files.disk].map(writeOutFile));
  await commitTransaction(root);
}

async function writeOutFile(path: string): Promise<void> {
  await using file = await open(path, 'r');
  await writeOut(file.fd, path);
}
