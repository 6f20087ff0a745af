/** Template disks, imported once per vault. */
import { execFile } from 'node:child_process';
import { chmod, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createSubvolume, setReadOnly, syncFileSystem } from './btrfs.ts';
import { removeSubvolume } from './cleanup.ts';
import { commitTransaction } from './commits.ts';
import { DISK, type Layout, VMM_FILE_MODE } from './layout.ts';

/** Copying a large image from a slow disk; beyond it something hangs. */
const COPY_TIMEOUT_MS = 30 * 60 * 1000;
/** Of `stat`, whatever the file system's own are. */
const BYTES_PER_BLOCK = 512;

/** What a file takes on its file system: its written blocks, not its length. */
export async function allocatedBytes(path: string): Promise<number> {
  return (await stat(path)).blocks * BYTES_PER_BLOCK;
}

/** The image appears whole, durable and read-only. */
export async function copyImage(layout: Layout, digest: string, sourcePath: string): Promise<void> {
  const staged = layout.staged('images', digest);
  await removeSubvolume(staged);
  await createSubvolume(staged);
  try {
    const disk = join(staged, DISK);
    // `cp` skips holes; Node's copyFile would write them out as zeros.
    await promisify(execFile)('cp', ['--sparse=always', '--reflink=auto', '--', sourcePath, disk], {
      timeout: COPY_TIMEOUT_MS,
    });
    await chmod(disk, VMM_FILE_MODE);
    await syncFileSystem(layout.root);
    await setReadOnly(staged);
    await rename(staged, layout.place('images', digest));
  } catch (thrown) {
    await removeSubvolume(staged);
    throw thrown;
  }
  await commitTransaction(layout.root);
}
