/**
 * Mounting a vault's backing at its place, over whatever a killed daemon left there, and unmounting it for good.
 *
 * Every question (is it mounted, by what, is the loop attached) is put to the kernel each time. What was there before an open that
 * fails is left as it was.
 */
import { stat } from 'node:fs/promises';
import { AppError } from '@space/core';
import { readSuperblock } from './backing.ts';
import { growToDevice } from './btrfs.ts';
import { errnoOf } from './failures.ts';
import {
  MOUNT_NOATIME,
  MOUNT_NODEV,
  MOUNT_NOEXEC,
  MOUNT_NOSUID,
  mountFileSystem,
  unmountFileSystem,
} from './kernel.ts';
import { attachLoop, detachLoops, loopsOf, refreshLoopSize } from './loop.ts';
import { type Mount, readMounts } from './mounts.ts';

export interface MountPlace {
  /** The mount point. */
  readonly target: string;
  /** The loop file or the device. */
  readonly path: string;
  readonly isLoop: boolean;
}

const MOUNT_FLAGS = MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC | MOUNT_NOATIME;
/** Freed blocks go back to the host's disk in the background. */
const MOUNT_OPTIONS = 'discard=async,space_cache=v2';

/** Mounts, or takes over the mount that is there, and runs `verify`; when that fails, undoes what this call did. */
export async function mountAndVerify(place: MountPlace, verify: () => Promise<void>): Promise<void> {
  const devices = place.isLoop ? await loopsOf(place.path) : [place.path];
  const takenOver = await findMount(place.target, devices);
  const attached = devices.length === 0;
  let mounted = false;
  try {
    const device = takenOver?.source ?? devices[0] ?? (await attachLoop(place.path));
    if (takenOver === undefined) {
      await mountFileSystem(device, place.target, 'btrfs', MOUNT_FLAGS, MOUNT_OPTIONS);
      mounted = true;
    }
    await verify();
    if (place.isLoop) await growIfLarger(place, device);
  } catch (thrown) {
    // The first failure is the one to report; an undo that fails as well is found again at the next open.
    if (mounted) await unmountFileSystem(place.target).catch(() => undefined);
    if (attached && place.isLoop) await detachLoops(place.path).catch(() => undefined);
    throw thrown;
  }
}

/** The usable mount of one of `devices` at `target`; refuses foreign mounts there and mounts of ours elsewhere. */
async function findMount(target: string, devices: readonly string[]): Promise<Mount | undefined> {
  const numbers = await Promise.all(devices.map(deviceNumber));
  let found: Mount | undefined;
  for (const mount of await readMounts()) {
    if (mount.type !== 'btrfs' && mount.target !== target) continue;
    const ours = numbers.includes(await deviceNumber(mount.source));
    if (mount.target === target && !ours) {
      throw new AppError('unavailable', `${mount.source} is mounted on ${target}, which is not this vault.`);
    }
    if (mount.target !== target && ours) {
      throw new AppError('unavailable', `${mount.source} is also mounted on ${mount.target}.`);
    }
    if (ours) found = mount;
  }
  if (found === undefined || found.writable) return found;
  // A failed write made it read-only, and whoever had it open has failed with it.
  await unmountFileSystem(target);
  return undefined;
}

async function deviceNumber(path: string): Promise<number> {
  try {
    const found = await stat(path);
    return found.isBlockDevice() ? found.rdev : Number.NaN;
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return Number.NaN;
    throw thrown;
  }
}

async function growIfLarger({ path, target }: MountPlace, device: string): Promise<void> {
  const { size } = await stat(path);
  const superblock = await readSuperblock(path);
  if (superblock === undefined || superblock.totalBytes >= size) return;
  await refreshLoopSize(device);
  await growToDevice(target);
}

/** Returns when neither mount nor loop device is left; throws, with all as it was, while files are open. */
export async function unmountVault({ target, path, isLoop }: MountPlace): Promise<void> {
  while ((await readMounts()).some((mount) => mount.target === target)) {
    try {
      await unmountFileSystem(target);
    } catch (thrown) {
      if (errnoOf(thrown) !== 'EBUSY') throw thrown;
      throw new AppError('unavailable', `${target} stays mounted: files on it are in use.`, { cause: thrown });
    }
  }
  if (isLoop) await detachLoops(path);
}
