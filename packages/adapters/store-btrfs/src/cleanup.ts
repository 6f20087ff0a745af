/** Removal of what nothing refers to. */
import { readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { deleteSubvolume, setReadOnly } from './btrfs.ts';
import { errnoOf } from './failures.ts';
import { FOLDERS, type Folder, isStaged, type Layout } from './layout.ts';

/**
 * Idempotent. A sealed subvolume can be deleted only by root, so it is opened again first; and before that it loses its
 * name, for what has one is sealed.
 */
export async function removeSealed(layout: Layout, folder: Folder, name: string): Promise<void> {
  const staged = layout.staged(folder, name);
  await unlessMissing(rename(layout.place(folder, name), staged));
  await removeSubvolume(staged);
}

/** Idempotent. */
export async function removeSubvolume(path: string): Promise<void> {
  await unlessMissing(setReadOnly(path, false).then(() => deleteSubvolume(path)));
}

async function unlessMissing(work: Promise<void>): Promise<void> {
  try {
    await work;
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
