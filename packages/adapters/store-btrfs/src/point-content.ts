/**
 * The files of a point, read and written piece by piece: how a point leaves a vault, and how one comes in. Guests are not
 * held up by it: one piece of work at a time is on the threads, and what was read leaves the page cache, which is theirs.
 */
import { constants } from 'node:fs';
import { chmod, copyFile, type FileHandle, open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  AppError,
  type IncomingPoint,
  type PointContent,
  type PointDraft,
  type SnapshotId,
  type VaultFile,
} from '@space/core';
import { createSubvolume } from './btrfs.ts';
import { removeSubvolume } from './cleanup.ts';
import { type Extent, extentsOf } from './extents.ts';
import { errnoOf } from './failures.ts';
import { forgetCached, punchHole } from './kernel.ts';
import { SLOW_LANE } from './lane.ts';
import { DISK, type Layout, MEMORY, VMM_FILE_MODE } from './layout.ts';
import { placesOf, surveyPieces } from './survey.ts';

const FILES = { disk: DISK, memory: MEMORY } as const satisfies Record<VaultFile, string>;
const MIB = 2 ** 20;
/** Written between two looks at how much room is left. */
const LOOK_EVERY_BYTES = 64 * MIB;

export async function openContent(layout: Layout, snapshotId: SnapshotId): Promise<PointContent> {
  const path = (file: VaultFile, of: SnapshotId = snapshotId) => join(layout.place('points', of), FILES[file]);
  const disk = await open(path('disk'), 'r');
  // One of kind `disk` has no memory.
  const memory = await open(path('memory'), 'r')
    .catch(unlessMissing)
    .catch((thrown) => closeAfter(disk, thrown));
  const handleOf = (file: VaultFile): FileHandle => {
    const handle = file === 'disk' ? disk : memory;
    if (handle === null) throw new AppError('snapshot_bad', `The snapshot ${snapshotId} has no memory.`);
    return handle;
  };
  return {
    async survey(file, pieceBytes, base) {
      const { size } = await handleOf(file).stat();
      const places = await placesIn(path(file), pieceBytes);
      const ofBase = base === null ? null : await placesIn(path(file, base), pieceBytes).catch(unlessMissing);
      return surveyPieces(Math.ceil(size / pieceBytes), places, ofBase);
    },
    read: (file, offset, length) =>
      SLOW_LANE.run(async () => {
        const handle = handleOf(file);
        const bytes = Buffer.allocUnsafe(length);
        const { bytesRead } = await handle.read(bytes, 0, length, offset);
        forgetCached(handle.fd, offset, length);
        if (bytesRead !== length) throw new AppError('snapshot_bad', `${path(file)} ends at ${offset + bytesRead}.`);
        return bytes;
      }),
    async [Symbol.asyncDispose]() {
      await disk.close();
      await memory?.close();
    },
  };
}

async function closeAfter(handle: FileHandle, thrown: unknown): Promise<never> {
  await handle.close();
  throw thrown;
}

async function placesIn(path: string, pieceBytes: number) {
  const extents: Extent[] = [];
  await SLOW_LANE.run(async () => {
    await using file = await open(path, 'r');
    for await (const some of extentsOf(file.fd, path)) extents.push(...some);
  });
  return placesOf(extents, pieceBytes);
}

function unlessMissing(thrown: unknown): null {
  if (errnoOf(thrown) === 'ENOENT') return null;
  throw thrown;
}

/** Makes the staged folder of a point and has it filled; it is on the disk when this returns. `requireRoom` throws when there is none. */
export async function receiveContent(
  layout: Layout,
  { snapshotId, size, like }: IncomingPoint,
  fill: (draft: PointDraft) => Promise<void>,
  requireRoom: () => Promise<void>,
): Promise<void> {
  const staged = layout.staged('points', snapshotId);
  await removeSubvolume(staged);
  await createSubvolume(staged);
  const sizes = { disk: size.diskMib * MIB, memory: size.memoryMib * MIB };
  const handles: FileHandle[] = [];
  try {
    const opened = async (file: VaultFile): Promise<FileHandle> => {
      const path = join(staged, FILES[file]);
      const shared =
        like !== null && (await shareFile(join(layout.place('points', like), FILES[file]), path, sizes[file]));
      if (like !== null && !shared && file === 'disk')
        throw new AppError('snapshot_bad', `There is no snapshot ${like}.`);
      const handle = await open(path, shared ? 'r+' : 'wx+', VMM_FILE_MODE);
      handles.push(handle);
      await handle.truncate(sizes[file]);
      await chmod(path, VMM_FILE_MODE);
      return handle;
    };
    await fill(draftOn({ disk: await opened('disk'), memory: await opened('memory') }, sizes, requireRoom));
    for (const handle of handles) await SLOW_LANE.run(() => handle.sync());
  } catch (thrown) {
    await closeAll(handles);
    await removeSubvolume(staged);
    throw thrown;
  }
  await closeAll(handles);
}

async function closeAll(handles: readonly FileHandle[]): Promise<void> {
  for (const handle of handles) await handle.close();
}

/** A file of the node's own that shares all blocks with one that is a VMM's. False: there is no such file. */
async function shareFile(from: string, to: string, sizeBytes: number): Promise<boolean> {
  const found = (await stat(from).catch(unlessMissing))?.size;
  if (found === undefined) return false;
  if (found !== sizeBytes) throw new Error(`${from} has ${found} bytes and not ${sizeBytes}`);
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE_FORCE);
  return true;
}

function draftOn(
  handles: Readonly<Record<VaultFile, FileHandle>>,
  sizes: Readonly<Record<VaultFile, number>>,
  requireRoom: () => Promise<void>,
): PointDraft {
  let written = 0;
  const check = (file: VaultFile, offset: number, length: number) => {
    if (offset < 0 || offset + length > sizes[file])
      throw new RangeError(`${offset} + ${length} is outside of ${file}`);
  };
  return {
    async write(file, offset, bytes) {
      check(file, offset, bytes.length);
      const before = Math.floor(written / LOOK_EVERY_BYTES);
      written += bytes.length;
      if (Math.floor(written / LOOK_EVERY_BYTES) > before) await requireRoom();
      await SLOW_LANE.run(async () => {
        for (let done = 0; done < bytes.length; ) {
          done += (await handles[file].write(bytes, done, bytes.length - done, offset + done)).bytesWritten;
        }
      });
    },
    async clear(file, offset, length) {
      check(file, offset, length);
      await SLOW_LANE.run(() => punchHole(handles[file].fd, offset, length));
    },
  };
}
