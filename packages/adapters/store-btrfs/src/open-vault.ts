/**
 * Opening and closing a vault.
 *
 *     lock → backing made once → loop attached → mounted → verified ours → staged things removed → vault
 *
 * Each arrow may find its work done by a daemon that was killed, and then takes it over: microVMs may be running on
 * the mount. The lock is the kernel's (`flock`), so it is free as soon as its process is dead, however it died. Nothing
 * is trusted by name: the file system's UUID, its label and the id in its `vault.json` must agree.
 */
import { closeSync, openSync } from 'node:fs';
import { chmod, mkdir, readFile, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, type Vault, type VaultName } from '@space/core';
import { type Backing, ignoreNoEntry, prepareBacking, readSuperblock } from './backing.ts';
import { removeStaged } from './cleanup.ts';
import { tryLock } from './kernel.ts';
import { FOLDER_MODES, FOLDERS, Layout, ROOT_MODE, VAULT_FILE, VAULT_FORMAT } from './layout.ts';
import type { FileOwner } from './life-files.ts';
import { type MountPlace, mountAndVerify, unmountVault } from './mounting.ts';
import type { StepHook } from './steps.ts';
import { BtrfsVault } from './vault.ts';

export interface VaultOptions {
  readonly name: VaultName;
  /** This vault's own folder on the host: lock, mount point and, for a loop, the backing file. Made if missing. */
  readonly folder: string;
  readonly backing: Backing;
  /** The unprivileged VMM user, who gets the files of the lives. Without it they are root's. */
  readonly owner?: FileOwner;
}

/** Throws `unavailable` when the vault is in use, is not ours, or cannot be mounted. Needs root. */
export function openVault(options: VaultOptions): Promise<Vault> {
  return openVaultWithSteps(options);
}

/** For tests that stop the world between the steps of a commit. */
export async function openVaultWithSteps(options: VaultOptions, step?: StepHook): Promise<Vault> {
  if (process.getuid?.() !== 0) throw new AppError('unavailable', 'A Btrfs vault can only be opened by root.');
  await mkdir(options.folder, { recursive: true, mode: 0o711 });
  const folder = await realpath(options.folder);
  const locks = takeLocks(options, folder);
  try {
    return await mountVault({ ...options, folder }, locks, step);
  } catch (thrown) {
    releaseLocks(locks);
    throw thrown;
  }
}

async function mountVault(options: VaultOptions, locks: readonly number[], step?: StepHook): Promise<Vault> {
  const { name, folder, backing } = options;
  const layout = new Layout(join(folder, 'mnt'));
  await mkdir(layout.root, { recursive: true, mode: 0o700 });
  const path = await prepareBacking(folder, name, backing);
  const place: MountPlace = { target: layout.root, path, isLoop: backing.kind === 'loop' };
  await mountAndVerify(place, async () => {
    await requireVaultFile(layout, name, path);
    await setModes(layout);
    await removeStaged(layout);
  });
  const mounted = {
    name,
    layout,
    owner: options.owner ?? null,
    hostFolder: place.isLoop ? folder : null,
    unmount: async () => {
      await unmountVault(place);
      releaseLocks(locks);
    },
  };
  return await BtrfsVault.on(step ? { ...mounted, step } : mounted);
}

/** One lock on the folder and one on a device, which might be named by two folders. */
function takeLocks({ backing, name }: VaultOptions, folder: string): readonly number[] {
  const descriptors: number[] = [];
  try {
    descriptors.push(openSync(join(folder, 'lock'), 'a', 0o600));
    if (backing.kind === 'device') descriptors.push(openSync(backing.path, 'r'));
    if (descriptors.every(tryLock)) return descriptors;
  } catch (thrown) {
    releaseLocks(descriptors);
    throw new AppError('unavailable', `The vault ${name} in ${folder} could not be locked.`, { cause: thrown });
  }
  releaseLocks(descriptors);
  throw new AppError('unavailable', `The vault ${name} in ${folder} is in use by another process.`);
}

function releaseLocks(descriptors: readonly number[]): void {
  for (const descriptor of descriptors) closeSync(descriptor);
}

/** The id inside must be the UUID outside: a file that was swapped or a foreign file system does not pass. */
async function requireVaultFile(layout: Layout, name: VaultName, path: string): Promise<void> {
  const uuid = (await readSuperblock(path))?.uuid;
  const text = await readFile(join(layout.root, VAULT_FILE), 'utf8').catch(ignoreNoEntry);
  const found = text === undefined ? {} : (JSON.parse(text) as { format?: number; id?: string; name?: string });
  if (found.id === uuid && found.name === name && found.format === VAULT_FORMAT) return;
  throw new AppError(
    'unavailable',
    `${path} is not the vault ${name} of format ${VAULT_FORMAT}: it says ${text ?? 'nothing'}.`,
  );
}

async function setModes(layout: Layout): Promise<void> {
  const modes = FOLDERS.map((folder) => [layout.folder(folder), FOLDER_MODES[folder]] as const);
  for (const [path, mode] of [[layout.root, ROOT_MODE] as const, ...modes]) {
    if (((await stat(path)).mode & 0o777) !== mode) await chmod(path, mode);
  }
}
