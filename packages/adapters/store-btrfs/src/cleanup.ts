/** Removal of what nothing refers to. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { deleteSubvolume } from './btrfs.ts';
import { errnoOf } from './failures.ts';
import { FOLDERS, isStaged, type Layout } from './layout.ts';

/** Idempotent. */
export async function removeSubvolume(path: string): Promise<void> {
  try {
    await deleteSubvolume(path);
  } catch (thrown) {
    if (errnoOf(thrown) !== 'ENOENT') throw thrown;
  }
}

/** Removes all that a dead process had in the making. Only whoever has the vault's lock may call this. */
export async function removeStaged(layout: Layout): Promise<void> {
  for (const folder of FOLDERS) {
    const path = layout.folder(folder);
    for (const entry of await readdir(path, { withFileTypes: true })) {
      if (!isStaged(entry.name)) continue;
      if (entry.isDirectory()) await removeSubvolume(join(path, entry.name));
      else await rm(join(path, entry.name), { force: true });
    }
  }
}
