/**
 * Getting a life ready for a capture. The snapshot ioctl first writes out the life's dirty data and then commits, and the VM
 * stands still for both; so both are done beforehand, while it runs, and the capture finds little left. Nothing need be
 * durable yet, and what other lives have written is not waited for: so neither file is synced, nor the file system.
 */
import { open } from 'node:fs/promises';
import type { LifeFiles } from '@space/core';
import { writeOut } from './kernel.ts';

export async function writeOutFiles({ memory, disk }: LifeFiles): Promise<void> {
  await Promise.all([memory, disk].map(writeOutFile));
}

async function writeOutFile(path: string): Promise<void> {
  await using file = await open(path, 'r');
  await writeOut(file.fd, path);
}
