/**
 * Btrfs by ioctl: subvolumes, snapshots and syncs. Layouts are those of the kernel's `linux/btrfs.h`; each function
 * opens what it needs and closes it again, so that nothing of ours keeps a vault busy.
 *
 * None of it needs a privilege: Btrfs lets the owner of a subvolume make, seal and snapshot it, and delete it where the
 * vault is mounted with `user_subvol_rm_allowed`.
 */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { ioctl } from './kernel.ts';

const MAGIC = 0x94;
const WRITE = 1;
const READ = 2;

function request(direction: number, number: number, sizeBytes: number): number {
  return ((direction << 30) | (sizeBytes << 16) | (MAGIC << 8) | number) >>> 0;
}

/** `struct btrfs_ioctl_vol_args` and `…_v2` are both one page, with the name at a different place. */
const ARGUMENT_BYTES = 4096;
const NAME_OFFSET_V1 = 8;
const NAME_OFFSET_V2 = 56;
const FLAGS_OFFSET_V2 = 16;
const SUBVOLUME_READ_ONLY = 2n;

const SYNC = request(0, 8, 0);
const SNAPSHOT_DESTROY = request(WRITE, 15, ARGUMENT_BYTES);
const WAIT_SYNC = request(WRITE, 22, 8);
const SNAPSHOT_CREATE_V2 = request(WRITE, 23, ARGUMENT_BYTES);
const START_SYNC = request(READ, 24, 8);
const SUBVOLUME_CREATE_V2 = request(WRITE, 24, ARGUMENT_BYTES);
const SUBVOLUME_GET_FLAGS = request(READ, 25, 8);
const SUBVOLUME_SET_FLAGS = request(WRITE, 26, 8);

async function withFolder<T>(path: string, use: (fd: number) => Promise<T>): Promise<T> {
  await using folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  return await use(folder.fd);
}

/** Fails with EEXIST when the path is taken. */
export async function createSubvolume(path: string): Promise<void> {
  const argument = Buffer.alloc(ARGUMENT_BYTES);
  argument.write(basename(path), NAME_OFFSET_V2);
  await withFolder(dirname(path), (fd) => ioctl(fd, 'SUBVOL_CREATE', SUBVOLUME_CREATE_V2, argument, path));
}

/**
 * A snapshot of `source` at `path`, writable unless it is to be `sealed`, holding all that was written to `source` before: that is written
 * out, and one transaction is committed, in which the path appears. EEXIST when it is taken.
 */
export async function snapshotSubvolume(source: string, path: string, { sealed = false } = {}): Promise<void> {
  const argument = Buffer.alloc(ARGUMENT_BYTES);
  argument.write(basename(path), NAME_OFFSET_V2);
  if (sealed) argument.writeBigUInt64LE(SUBVOLUME_READ_ONLY, FLAGS_OFFSET_V2);
  await withFolder(source, (sourceFd) => {
    argument.writeBigInt64LE(BigInt(sourceFd), 0);
    return withFolder(dirname(path), (fd) => ioctl(fd, 'SNAP_CREATE', SNAPSHOT_CREATE_V2, argument, path));
  });
}

export async function isReadOnly(path: string): Promise<boolean> {
  const flags = Buffer.alloc(8);
  await withFolder(path, (fd) => ioctl(fd, 'SUBVOL_GETFLAGS', SUBVOLUME_GET_FLAGS, flags, path));
  return (flags.readBigUInt64LE() & SUBVOLUME_READ_ONLY) !== 0n;
}

/** Commits a transaction when that is a change. */
export async function setReadOnly(path: string, readOnly = true): Promise<void> {
  const argument = Buffer.alloc(8);
  argument.writeBigUInt64LE(readOnly ? SUBVOLUME_READ_ONLY : 0n);
  await withFolder(path, (fd) => ioctl(fd, 'SUBVOL_SETFLAGS', SUBVOLUME_SET_FLAGS, argument, path));
}

/** Unlinks the subvolume, which is writable; the kernel frees its space in the background. ENOENT when there is none. */
export async function deleteSubvolume(path: string): Promise<void> {
  const argument = Buffer.alloc(ARGUMENT_BYTES);
  argument.write(basename(path), NAME_OFFSET_V1);
  await withFolder(dirname(path), (fd) => ioctl(fd, 'SNAP_DESTROY', SNAPSHOT_DESTROY, argument, path));
}

/** Writes out all dirty data of the whole file system and commits. */
export async function syncFileSystem(path: string): Promise<void> {
  await withFolder(path, (fd) => ioctl(fd, 'SYNC', SYNC, null, path));
}

/** Has the kernel commit the running transaction, in its own time; see `commits.ts`. */
export async function startAndAwaitCommit(path: string): Promise<void> {
  const transaction = Buffer.alloc(8);
  await withFolder(path, async (fd) => {
    await ioctl(fd, 'START_SYNC', START_SYNC, transaction, path);
    await ioctl(fd, 'WAIT_SYNC', WAIT_SYNC, transaction, path);
  });
}
