/**
 * How the folder of a life comes into being. Its name is the claim: whoever gets the folder `lives/<lifeId>` made is the
 * only one who ever starts a VM on it, and the folder appears whole or not at all.
 */
import { rename, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, type LifeId, type LifeSource, unreachable } from '@space/core';
import { snapshotSubvolume } from './btrfs.ts';
import { removeSubvolume } from './cleanup.ts';
import { errnoOf } from './failures.ts';
import { takeKept } from './kept-life.ts';
import { DEVICE_STATE, DISK, type Layout, MANIFEST, MEMORY, VMM_FILE_MODE } from './layout.ts';

/**
 * Throws `name_taken` when the life exists, and `snapshot_bad` or `not_found` when the source does not. `kept`: it is made of what
 * a life before it left, of which much may be in the page cache.
 */
export async function makeLife(layout: Layout, lifeId: LifeId, from: LifeSource): Promise<'new' | 'kept'> {
  const place = layout.place('lives', lifeId);
  try {
    if (from.kind !== 'point') {
      await makeBootable(layout, lifeId, from);
      return 'new';
    }
    if (await takeKept(layout, from.snapshotId, place)) return 'kept';
    // One metadata operation; the point is whole, so the life is.
    await snapshotSubvolume(layout.place('points', from.snapshotId), place);
    return 'new';
  } catch (thrown) {
    const code = errnoOf(thrown);
    if (code === 'ENOENT') throw sourceMissing(from, thrown);
    if (code !== 'EEXIST' && code !== 'ENOTEMPTY') throw thrown;
    throw new AppError('name_taken', `The life ${lifeId} exists already.`, { cause: thrown });
  }
}

/** Bytes of memory that the life will have. */
export async function memoryBytesOf(layout: Layout, from: LifeSource): Promise<number> {
  if (from.kind !== 'point') return from.memoryBytes;
  try {
    return (await stat(join(layout.place('points', from.snapshotId), MEMORY))).size;
  } catch (thrown) {
    throw errnoOf(thrown) === 'ENOENT' ? sourceMissing(from, thrown) : thrown;
  }
}

function sourceMissing(from: LifeSource, cause: unknown): AppError {
  switch (from.kind) {
    case 'point':
    case 'disk':
      return new AppError('snapshot_bad', `There is no snapshot ${from.snapshotId}.`, { cause });
    case 'image':
      return new AppError('not_found', `The vault has no image ${from.digest}.`, { cause });
    case 'crashed':
      return new AppError('not_found', `There is no life ${from.lifeId}.`, { cause });
    default:
      return unreachable(from);
  }
}

/** A life with empty memory takes several steps, so it is put together under its staged name. */
async function makeBootable(
  layout: Layout,
  lifeId: LifeId,
  from: Exclude<LifeSource, { kind: 'point' }>,
): Promise<void> {
  const staged = layout.staged('lives', lifeId);
  const source = sourceOf(layout, from);
  // A snapshot shares the whole tree; cloning the file would copy one reference per extent.
  await snapshotSubvolume(source, staged);
  await cleanUpOnFailure(staged, async () => {
    if (from.kind === 'image') await growDisk(join(staged, DISK), from);
    // The memory of a crashed life is its VMM's; only the folder is ours. A point's files say what the life is not made of.
    for (const file of [DEVICE_STATE, MANIFEST]) await rm(join(staged, file), { force: true });
    await rm(join(staged, MEMORY), { force: true });
    await writeFile(join(staged, MEMORY), '', { mode: VMM_FILE_MODE, flag: 'wx' });
    await truncate(join(staged, MEMORY), from.memoryBytes);
    // Fails with ENOTEMPTY over an existing life, which always holds a disk.
    await rename(staged, layout.place('lives', lifeId));
  });
}

function sourceOf(layout: Layout, from: Exclude<LifeSource, { kind: 'point' }>): string {
  switch (from.kind) {
    case 'image':
      return layout.place('images', from.digest);
    case 'crashed':
      return layout.place('lives', from.lifeId);
    case 'disk':
      return layout.place('points', from.snapshotId);
    default:
      return unreachable(from);
  }
}

async function cleanUpOnFailure(subvolume: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    await removeSubvolume(subvolume);
    throw thrown;
  }
}

async function growDisk(disk: string, from: { readonly digest: string; readonly diskBytes: number }): Promise<void> {
  const { size } = await stat(disk);
  if (from.diskBytes < size) {
    throw new AppError('size_impossible', {
      detail: `The image ${from.digest} has ${size} bytes; a disk of ${from.diskBytes} cannot hold it.`,
      facts: { imageBytes: size, diskBytes: from.diskBytes },
    });
  }
  await truncate(disk, from.diskBytes);
}
