/** Files that are on the disk, whole, when the call returns. */
import { constants } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Writes a new file or overwrites one that nobody relies on yet, and waits until its bytes are on the disk. */
export async function writeSynced(path: string, content: Uint8Array | string): Promise<void> {
  await using file = await open(path, 'w', 0o600);
  await file.writeFile(content);
  await file.sync();
}

export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  await folder.sync();
}

/** A reader sees the old file or the new one, also after a power cut. `staged` lies in the same folder. */
export async function replaceFile(path: string, staged: string, content: string): Promise<void> {
  await writeSynced(staged, content);
  await rename(staged, path);
  await syncFolder(dirname(path));
}
