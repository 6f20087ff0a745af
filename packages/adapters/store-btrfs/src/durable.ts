/** Files that are on the disk, whole, when the call returns. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { extentsOf } from './extents.ts';
import { beginWriteOut } from './kernel.ts';

/** Writes a new file or overwrites one that nobody relies on yet, and waits until its bytes are on the disk. */
export async function writeSynced(path: string, content: Uint8Array | string): Promise<void> {
  await using file = await open(path, 'w', 0o600);
  await file.writeFile(content);
  await file.sync();
}

/**
 * The same of a file that is on the disk with the next commit of the file system: asked where a file lies, it writes out what is dirty,
 * and waits until that is noted. A sync would write its log, which the commit makes superfluous.
 */
export async function writeSettled(path: string, content: Uint8Array | string): Promise<void> {
  await using file = await open(path, 'w', 0o600);
  await file.writeFile(content);
  await extentsOf(file.fd, path).next();
}

/** The same of a file that the next snapshot of its subvolume waits for: it is on its way to the disk. */
export async function writeBegun(path: string, content: Uint8Array | string): Promise<void> {
  await using file = await open(path, 'w', 0o600);
  await file.writeFile(content);
  await beginWriteOut(file.fd, path);
}

export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  await folder.sync();
}
