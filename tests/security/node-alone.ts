/**
 * The node's part of a platform in a process of its own, whose user has no privilege: goes through the life of a sandbox and
 * says, as one line of JSON, what it read in its guest at each step. Its argument: the configuration of the platform, as JSON.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { DEFAULT_VAULT, newId, type ProcessEvent, type SandboxId, SIZE_LIMITS, type SnapshotId } from '@space/core';
import { connectGuest } from '@space/guest-grpc';
import { loadAssets } from '@space/guest-image';
import { createNode } from '@space/node';
import { connectHelper } from '@space/root-helper';
import { openQemuRuntime } from '@space/runtime-qemu';
import type { Config } from '@space/server';
import { runDirs, vaultFolder, vmmBuild } from '@space/server/helper-config';
import { openVault } from '@space/store-btrfs';

const config: Config = JSON.parse(process.argv[2] ?? '');
const size = { vcpus: 1, memoryMib: 256, diskMib: 4096 };
const vault = DEFAULT_VAULT;
const chance = { bytes: (count: number) => randomBytes(count) };
const assets = await loadAssets();
const helper = await connectHelper(join(config.runDir, 'helper', 'socket'));
const runtime = await openQemuRuntime({
  ...assets,
  vmm: vmmBuild(assets),
  helper,
  runDir: runDirs(config).lives,
  accelerator: 'tcg',
});
const { base } = assets.templates;
const node = createNode({
  runtime,
  connectGuest: (vm, openMs) => connectGuest((port) => vm.connect(port), { vmEnded: vm.ended, limits: { openMs } }),
  vaults: [await openVault({ name: vault, folder: vaultFolder(config, vault), backing: 'loop', helper })],
  templates: [{ name: base.name, diskPath: base.disk, digest: base.digest }],
  clock: { now: () => Date.now(), monotonicMs: () => performance.now() },
  chance,
  memoryMib: 4096,
  limits: SIZE_LIMITS,
  facts: {
    runtime: 'qemu',
    accelerator: { name: 'tcg', reason: 'not asked', remedy: null },
    vmmVersion: assets.vmm.version,
    jail: runtime.jail,
    encrypted: false,
  },
});
await node.open();

let epoch = 0;
const order = (sandboxId: SandboxId) => ({ vault, sandboxId, epoch: ++epoch });
const start = (sandboxId: SandboxId, from: SnapshotId) =>
  node.start({ ...order(sandboxId), from, template: base.name, generation: 1, size });
const newPoint = () => newId('snapshot', chance);

async function run(sandboxId: SandboxId, command: string): Promise<string> {
  const argv = ['/bin/sh', '-c', command];
  const events = await Array.fromAsync(node.exec(sandboxId, { processId: newId('process', chance), argv, env: {} }));
  return events.map(textOf).join('').trim();
}

function textOf(event: ProcessEvent): string {
  return event.kind === 'output' ? Buffer.from(event.data).toString() : '';
}

const sandboxId = newId('sandbox', chance);
const forked = newId('sandbox', chance);
await start(sandboxId, await node.ensureReady(vault, base.name, size));
await run(sandboxId, 'echo first > /dev/shm/word');
const { snapshotId } = await node.snapshot({ ...order(sandboxId), snapshotId: newPoint() });
await run(sandboxId, 'echo second > /dev/shm/word');
await start(forked, snapshotId);
const inFork = await run(forked, 'cat /dev/shm/word');
await node.rewind({ ...order(sandboxId), to: snapshotId, keepAs: newPoint(), generation: 2 });
const rewound = await run(sandboxId, 'cat /dev/shm/word');
const paused = await node.pause({ ...order(sandboxId), snapshotId: newPoint() });
await start(sandboxId, paused.snapshotId);
const resumed = await run(sandboxId, 'cat /dev/shm/word');
const usage = await node.usage(sandboxId);
await node.destroy({ ...order(forked), points: [] });
await node.destroy({ ...order(sandboxId), points: [snapshotId, paused.snapshotId] });
await node.close();
helper.close();
const ids = [process.getuid?.(), process.geteuid?.(), process.getgid?.()];
process.stdout.write(JSON.stringify({ ids, inFork, rewound, resumed, memoryBytes: usage?.memoryBytes }));
