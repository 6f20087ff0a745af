/** Files that are on the disk, whole, when the call returns. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

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
