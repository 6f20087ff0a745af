/** Where the processes of the platform keep and find things, and who owns them. Made by root before anything starts. */
import { chmod, chown, lchown, lstat, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { VaultName } from '@space/core';
import type { Config } from './config.ts';
import type { User, Users } from './users.ts';

export const ROLES = ['node', 'control', 'gateway'] as const;
export type RoleName = (typeof ROLES)[number];

type Folders = Pick<Config, 'dataDir' | 'runDir'>;

/** Held by every process of the platform, so that a next one starts when the last of them is gone. */
export const lockFileOf = ({ dataDir }: Folders): string => join(dataDir, 'lock');
const controlFolderOf = ({ dataDir }: Folders): string => join(dataDir, 'control');
export const databaseDirOf = (folders: Folders): string => join(controlFolderOf(folders), 'postgres');
/** Of the installation's own key; control's alone. */
export const keysFolderOf = (folders: Folders): string => join(controlFolderOf(folders), 'keys');
export const databaseSocketDirOf = ({ runDir }: Pick<Folders, 'runDir'>): string => join(runDir, 'db');
export const nodeSocketOf = ({ runDir }: Folders): string => join(runDir, 'node', 'link');
export const gatewaySocketOf = ({ runDir }: Folders): string => join(runDir, 'gateway', 'link');
/** Where the node brings what leaves sandboxes; control may not. */
export const egressSocketOf = ({ runDir }: Folders): string => join(runDir, 'egress', 'link');

/** Each vault has the folder of its name there. */
export const vaultsFolderOf = ({ dataDir }: Pick<Folders, 'dataDir'>): string => join(dataDir, 'vaults');
export const vaultFolderOf = (folders: Pick<Folders, 'dataDir'>, name: VaultName): string =>
  join(vaultsFolderOf(folders), name);
/** What the snapshots in vaults need to run again; see `keepBuild`. */
export const buildsFolderOf = ({ dataDir }: Pick<Folders, 'dataDir'>): string => join(dataDir, 'vmm');
/** What the node keeps beside vaults. */
export const nodeFolderOf = ({ dataDir }: Pick<Folders, 'dataDir'>): string => join(dataDir, 'node');
/** What the gateway alone keeps: the keys of authorities. */
export const gatewayFolderOf = ({ dataDir }: Pick<Folders, 'dataDir'>): string => join(dataDir, 'gateway');
/** Of the authority that is made for names of this server: its key is root's, its certificate everybody's. */
export const tlsFolderOf = ({ dataDir }: Pick<Folders, 'dataDir'>): string => join(dataDir, 'tls');
export const helperFolderOf = ({ runDir }: Pick<Folders, 'runDir'>): string => join(runDir, 'helper');
export const livesFolderOf = ({ runDir }: Pick<Folders, 'runDir'>): string => join(runDir, 'lives');
/** For the files of the VM that probes for KVM. */
export const probeFolderOf = ({ runDir }: Pick<Folders, 'runDir'>): string => join(runDir, 'probe');

/** Others may pass through these, and see nothing. */
const PASSABLE = 0o711;
const PRIVATE = 0o700;
/** What is made in it belongs to its group, whoever makes it; the group may enter. */
const SHARED_WITH_GROUP = 0o2750;

/** Where the lock lies. */
export function makeDataFolder({ dataDir }: Pick<Folders, 'dataDir'>): Promise<void> {
  return makeFolder(dataDir, PASSABLE);
}

/** To be called with the lock held: nothing of an earlier platform may work in the folders meanwhile. */
export async function makeFolders(config: Folders, users: Users): Promise<void> {
  const { dataDir, runDir } = config;
  for (const path of [join(dataDir, 'vaults'), tlsFolderOf(config), '/run/space', runDir]) {
    await makeFolder(path, PASSABLE);
  }
  for (const path of [nodeFolderOf(config), probeFolderOf(config)]) await makeNodeFolder(path, users.node);
  await makeFolder(controlFolderOf(config), PRIVATE, users.control);
  await makeFolder(databaseSocketDirOf(config), PRIVATE, users.control);
  await makeFolder(gatewayFolderOf(config), PRIVATE, users.gateway);
  const { control } = users;
  await makeFolder(join(runDir, 'node'), SHARED_WITH_GROUP, { uid: users.node.uid, gid: control.gid });
  await makeFolder(join(runDir, 'gateway'), SHARED_WITH_GROUP, { uid: users.gateway.uid, gid: control.gid });
  await makeFolder(join(runDir, 'egress'), SHARED_WITH_GROUP, { uid: users.gateway.uid, gid: users.node.gid });
  await adoptDatabase(config, users.control);
}

/**
 * What lies under /run serves one run of the platform, and goes with it. It stays while the next start has a VMM to take up, or
 * a database server to find. To be called with the lock held and every process ended. Says whether it is gone.
 */
export async function removeRunFolder({ runDir }: Pick<Folders, 'runDir'>): Promise<boolean> {
  for (const path of [livesFolderOf({ runDir }), databaseSocketDirOf({ runDir })]) {
    if ((await exists(path)) && (await readdir(path)).length > 0) return false;
  }
  await rm(runDir, { recursive: true, force: true });
  return true;
}

type Owner = Pick<User, 'uid' | 'gid'>;

async function makeFolder(path: string, mode: number, owner: Owner = { uid: 0, gid: 0 }): Promise<void> {
  await mkdir(path, { recursive: true, mode: PRIVATE });
  await chown(path, owner.uid, owner.gid);
  await chmod(path, mode);
}

/** What lies in it can be had again: it goes when the node was another user. */
async function makeNodeFolder(path: string, owner: Owner): Promise<void> {
  if ((await exists(path)) && (await stat(path)).uid !== owner.uid) await rm(path, { recursive: true });
  await makeFolder(path, PRIVATE, owner);
}

/** The database of a platform that ran as one process lay beside the vaults, and belonged to another user. */
async function adoptDatabase(config: Folders, owner: Owner): Promise<void> {
  const databaseDir = databaseDirOf(config);
  const earlier = join(config.dataDir, 'postgres');
  if (!(await exists(databaseDir)) && (await exists(earlier))) await rename(earlier, databaseDir);
  const folder = controlFolderOf(config);
  for (const name of await readdir(folder)) await giveAll(join(folder, name), owner);
}

/** What belongs to its owner already is taken to be so all the way down. No link is followed: the owner may have put it there. */
async function giveAll(path: string, owner: Owner): Promise<void> {
  const found = await lstat(path);
  if (found.uid === owner.uid) return;
  if (found.isDirectory()) for (const name of await readdir(path)) await giveAll(join(path, name), owner);
  await lchown(path, owner.uid, owner.gid);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
