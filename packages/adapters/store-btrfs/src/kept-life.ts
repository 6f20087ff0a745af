/**
 * What the life of a paused sandbox leaves: its files are those of the point that the pause took. So they are kept, and the next
 * life from that point takes them by their name, in place of a clone: no transaction is on the path of the resume, what lies in
 * the page cache is there still, and there is nothing that the file system must forget.
 *
 * It is a cache. It goes with its point, and is not looked at after the vault was opened anew; who finds none clones. It
 * takes no room of its own, since it shares every block with the point.
 */
import { rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { LifeId, SnapshotId } from '@space/core';
import { removeSubvolume } from './cleanup.ts';
import { errnoOf } from './failures.ts';
import { DISK, type Layout, MEMORY } from './layout.ts';

/** The VM of the life is dead. It need not outlast a power cut: then the life is one that nobody names. */
export async function keepLife(layout: Layout, lifeId: LifeId, snapshotId: SnapshotId): Promise<void> {
  await rename(layout.place('lives', lifeId), layout.staged('lives', snapshotId));
}

/** Gives what is kept for the point the name `place`, once: false when there is nothing, or it is not as the point. */
export async function takeKept(layout: Layout, snapshotId: SnapshotId, place: string): Promise<boolean> {
  const kept = layout.staged('lives', snapshotId);
  try {
    if (await isAsIn(layout.place('points', snapshotId), kept)) {
      await rename(kept, place);
      return true;
    }
  } catch (thrown) {
    if (errnoOf(thrown) !== 'ENOENT') throw thrown;
    return false;
  }
  await removeSubvolume(kept);
  return false;
}

/**
 * Whether nothing was written since the point was taken: the VMM lived on for a moment. Each write sets the time of change, which
 * nobody can set back, and the point has it as it was then.
 */
async function isAsIn(point: string, kept: string): Promise<boolean> {
  for (const file of [DISK, MEMORY]) {
    const [then, now] = [
      await stat(join(point, file), { bigint: true }),
      await stat(join(kept, file), { bigint: true }),
    ];
    if (now.ctimeNs !== then.ctimeNs || now.mtimeNs !== then.mtimeNs || now.size !== then.size) return false;
  }
  return true;
}
