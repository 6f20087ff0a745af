/** What the helper of a platform is told, and where things lie that both it and the node know. */
import { join } from 'node:path';
import { DEFAULT_VAULT, type VaultName } from '@space/core';
import type { Assets } from '@space/guest-image';
import type { HelperConfig } from '@space/root-helper';
import { type VmmBuild, vmmSettings } from '@space/runtime-qemu';
import type { Config } from './config.ts';

/** One for the machine, whatever platforms run on it: no two VMMs share a uid. */
const UID_REGISTRY = '/run/space/uids';

export function vaultFolder({ dataDir }: Pick<Config, 'dataDir'>, name: VaultName): string {
  return join(dataDir, 'vaults', name);
}

/** Folders of this boot: those of the VMMs, and one for the files of the VM that probes for KVM. */
export function runDirs({ runDir }: Pick<Config, 'runDir'>): { readonly lives: string; readonly probe: string } {
  return { lives: join(runDir, 'lives'), probe: join(runDir, 'probe') };
}

export function vmmBuild({ vmm }: Assets): VmmBuild {
  return {
    root: vmm.root,
    argv: [...vmm.loaderArgv, vmm.binary, ...vmm.firmwareDirs.flatMap((folder) => ['-L', folder])],
    digest: vmm.digest,
    version: vmm.version,
  };
}

export function helperConfig(config: Config, assets: Assets, node: HelperConfig['node']): HelperConfig {
  const { lives, probe } = runDirs(config);
  return {
    ...vmmSettings(vmmBuild(assets), assets),
    node,
    folder: join(config.runDir, 'helper'),
    runDir: lives,
    uids: { ...config.vmmUids, registry: UID_REGISTRY },
    launcher: assets.jail.launcher,
    vaults: [{ name: DEFAULT_VAULT, folder: vaultFolder(config, DEFAULT_VAULT), backing: config.vault }],
    places: { probe },
  };
}
