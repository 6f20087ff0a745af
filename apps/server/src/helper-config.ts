/** What the helper of a platform is told. */
import { existsSync } from 'node:fs';
import { DEFAULT_VAULT } from '@space/core';
import type { Assets } from '@space/guest-image';
import type { HelperConfig } from '@space/root-helper';
import type { VmmBuilds } from '@space/runtime-qemu/kept-builds';
import { vmmSettings } from '@space/runtime-qemu/vmm-programs';
import type { Config } from './config.ts';
import { helperFolderOf, livesFolderOf, probeFolderOf, vaultFolderOf, vaultsFolderOf } from './places.ts';

/** One for the machine, whatever platforms run on it: no two VMMs share a uid. */
const UID_REGISTRY = '/run/space/uids';

type Settings = Pick<Config, 'dataDir' | 'runDir' | 'vault' | 'vmmUids'> & { readonly encrypted?: boolean };

export function helperConfig(
  config: Settings,
  assets: Assets,
  builds: VmmBuilds,
  { uid, gid }: HelperConfig['node'],
): HelperConfig {
  return {
    ...vmmSettings(builds.present, assets, builds.earlier),
    node: { uid, gid },
    folder: helperFolderOf(config),
    runDir: livesFolderOf(config),
    uids: { ...config.vmmUids, registry: UID_REGISTRY },
    launcher: assets.jail.launcher,
    vaultsFolder: vaultsFolderOf(config),
    vaultServer: assets.vaultServer.program,
    vaults: sharedVaultOf(config),
    places: { probe: probeFolderOf(config) },
  };
}

/** The plain one. Where each organisation has a vault of its own, none is made that nobody would use; one from before, or a device, stays. */
function sharedVaultOf(config: Settings): HelperConfig['vaults'] {
  const folder = vaultFolderOf(config, DEFAULT_VAULT);
  const isWanted = config.encrypted !== true || config.vault.kind === 'device' || existsSync(folder);
  return isWanted ? [{ name: DEFAULT_VAULT, folder, backing: config.vault }] : [];
}
