/** The node, composed: assets → accelerator → vault → runtime → node. */
import { join } from 'node:path';
import { DEFAULT_VAULT, type EgressPort, hasVm, SIZE_LIMITS } from '@space/core';
import { connectGuest } from '@space/guest-grpc';
import type { Assets } from '@space/guest-image';
import { createNode, type Node } from '@space/node';
import type { RootHelper } from '@space/root-helper';
import { findBuilds, openQemuRuntime, probeAccelerator } from '@space/runtime-qemu';
import { BtrfsContainers } from '@space/store-btrfs';
import { openArchives } from './archives.ts';
import { chance, clock } from './clock.ts';
import type { Config } from './config.ts';
import { buildsFolderOf, livesFolderOf, nodeFolderOf, probeFolderOf, vaultsFolderOf } from './places.ts';
import type { Tracing } from './tracing.ts';

export type NodeConfig = Pick<Config, 'dataDir' | 'runDir' | 'vault' | 'memoryMib' | 'poolMib' | 'archives'> & {
  readonly encrypted?: boolean;
};

export interface OpenNodeOptions {
  readonly config: NodeConfig;
  readonly assets: Assets;
  /** Does what needs root; to be closed after the node. */
  readonly helper: RootHelper;
  /** Where what leaves sandboxes goes. */
  readonly egress: EgressPort;
  /** Told what is being done; the first start of a machine probes KVM, which takes up to ten seconds. */
  readonly report: (step: string) => void;
  readonly onWarning: (message: string) => void;
  readonly tracing: Tracing;
}

/** Takes up what runs already. When it fails, nothing stays mounted but what running sandboxes need. */
export async function openNode(options: OpenNodeOptions): Promise<Node> {
  const { report } = options;
  report('probing for KVM');
  const node = await composeNode(options);
  report('opening the vault');
  await node.open();
  try {
    await openDefault(node, options.config);
  } catch (thrown) {
    await leaveNode(node).catch(() => undefined);
    throw thrown;
  }
  return node;
}

/** It has no key to wait for. Where each organisation has a vault of its own, none is made that nobody would use. */
async function openDefault(node: Node, { encrypted = false }: NodeConfig): Promise<void> {
  const isThere = async () => (await node.vaults()).some(({ vault }) => vault === DEFAULT_VAULT);
  if (!encrypted || (await isThere())) await node.openVault({ vault: DEFAULT_VAULT, key: null });
}

/** Ends what can be ended without harm: with sandboxes running, they run on for the next start. */
export async function leaveNode(node: Node): Promise<void> {
  const running = (await node.inspectAll()).some(({ real }) => hasVm(real));
  await (running ? node.release() : node.close());
}

async function composeNode(options: OpenNodeOptions): Promise<Node> {
  const { config, assets, helper, egress, report, onWarning, tracing } = options;
  const { kernel, initramfs, templates } = assets;
  const { present: vmm, earlier } = await findBuilds(buildsFolderOf(config), assets.vmm);
  const { launcher } = assets.jail;
  const parts = { vmm, kernel, initramfs, helper, launcher, runDir: livesFolderOf(config) };
  const accelerator = await probeAccelerator({
    ...parts,
    workDir: probeFolderOf(config),
    cacheFile: join(nodeFolderOf(config), 'accelerator.json'),
  });
  const runtime = await openQemuRuntime({ ...parts, earlier, accelerator: accelerator.name, onWarning });
  return createNode({
    runtime,
    connectGuest: (vm, openMs) => connectGuest((port) => vm.connect(port), { vmEnded: vm.ended, limits: { openMs } }),
    egress,
    containers: new BtrfsContainers({
      folder: vaultsFolderOf(config),
      helper,
      onDevices: config.vault.kind === 'device' ? [DEFAULT_VAULT] : [],
    }),
    templates: Object.values(templates).map(({ name, disk, digest }) => ({ name, diskPath: disk, digest })),
    clock,
    chance,
    // On the terminal too: who has just named the place can mend it now.
    archives: await openArchives(config.archives, (message) => {
      report(message);
      onWarning(message);
    }),
    memoryMib: config.memoryMib,
    pool: { memoryMib: config.poolMib },
    limits: SIZE_LIMITS,
    ...tracing,
    onWarning,
    facts: { runtime: 'qemu', accelerator, vmmVersion: vmm.version, jail: runtime.jail },
  });
}
