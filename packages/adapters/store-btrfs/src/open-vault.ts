/**
 * Opening and closing a vault.
 *
 *     lock → mounted by the helper → verified ours → staged things removed → vault
 *
 * Each arrow may find its work done by a daemon that was killed, and then takes it over: microVMs may be running on
 * the mount. The lock is the kernel's (`flock`), so it is free as soon as its process is dead, however it died. Nothing
 * is trusted by name: the file system's UUID, its label and the id in its `vault.json` must agree.
 */
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, type KeyBytes, type Vault, type VaultName } from '@space/core';
import type { PagesOfLife, RootHelper } from '@space/root-helper';
import { removeStaged } from './cleanup.ts';
import { errnoOf } from './failures.ts';
import { tryLock } from './kernel.ts';
import { Layout, VAULT_FILE, VAULT_FORMAT } from './layout.ts';
import type { StepHook } from './steps.ts';
import { BtrfsVault } from './vault.ts';

export interface VaultOptions {
  readonly name: VaultName;
  /** This vault's own folder on the host, as the helper knows it: lock, mount point and, for a loop, the backing file. */
  readonly folder: string;
  readonly backing: 'loop' | 'device';
  readonly helper: Pick<RootHelper, 'openVault' | 'closeVault' | 'partLife'>;
  /** Of an encrypted one, unless it is open and is taken up. It is not kept. */
  readonly key?: KeyBytes | null;
}

/** Throws `vault_busy` when another process has the vault open, `unavailable` when it is not ours or cannot be mounted. */
export function openVault(options: VaultOptions): Promise<Vault> {
  return openVaultWithSteps(options);
}

/** For tests that stop the world between the steps of a commit. */
export async function openVaultWithSteps(options: VaultOptions, step?: StepHook): Promise<Vault> {
  const lock = takeLock(options);
  try {
    return await mountVault(options, lock, step);
  } catch (thrown) {
    closeSync(lock);
    throw thrown;
  }
}

async function mountVault(options: VaultOptions, lock: number, step?: StepHook): Promise<Vault> {
  const { name, folder, backing, helper, key = null } = options;
  const layout = new Layout(join(folder, 'mnt'));
  const { uuid, mounted } = await helper.openVault(name, key);
  try {
    await requireVaultFile(layout, name, uuid);
    await removeStaged(layout);
  } catch (thrown) {
    // The first failure is the one to report; a mount that stays is found again at the next open.
    if (mounted) await helper.closeVault(name).catch(() => undefined);
    throw thrown;
  }
  const open = {
    name,
    layout,
    uuid,
    hostFolder: backing === 'loop' ? folder : null,
    part: (pages: PagesOfLife) => helper.partLife(name, pages),
    unmount: async () => {
      await helper.closeVault(name);
      closeSync(lock);
    },
  };
  return await BtrfsVault.on(step ? { ...open, step } : open);
}

/** The helper has made the file; holding it open to read is enough. */
function takeLock({ name, folder }: VaultOptions): number {
  let lock: number | null = null;
  try {
    lock = openSync(join(folder, 'lock'), 'r');
    if (tryLock(lock)) return lock;
  } catch (thrown) {
    if (lock !== null) closeSync(lock);
    if (errnoOf(thrown) === 'ENOENT') throw new AppError('not_found', `There is no vault ${name} on this node.`);
    throw new AppError('unavailable', `The vault ${name} in ${folder} could not be locked.`, { cause: thrown });
  }
  closeSync(lock);
  throw new AppError('vault_busy', `The vault ${name} in ${folder} is in use by another process.`);
}

/** The id inside must be the UUID outside: a file that was swapped or a foreign file system does not pass. */
async function requireVaultFile(layout: Layout, name: VaultName, uuid: string): Promise<void> {
  const text = await readFile(join(layout.root, VAULT_FILE), 'utf8').catch((thrown: unknown) => {
    if (errnoOf(thrown) !== 'ENOENT') throw thrown;
  });
  const found = text === undefined ? {} : (JSON.parse(text) as { format?: number; id?: string; name?: string });
  if (found.id === uuid && found.name === name && found.format === VAULT_FORMAT) return;
  throw new AppError(
    'unavailable',
    `${layout.root} is not the vault ${name} of format ${VAULT_FORMAT}: it says ${text ?? 'nothing'}.`,
  );
}
