/** A vault in a folder of its own that is taken down whole, whatever the test left: mounts, loop devices, files. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Vault, VaultName } from '@space/core';
import { loadAssets } from '@space/guest-image';
import { connectHelper, type HelperConfig, type HelperVault, type RootHelper, startHelper } from '@space/root-helper';
import type { VaultUnderTest } from '@space/testkit/vault-suite';
import { expect } from 'vitest';
import { openVaultWithSteps, type VaultOptions } from '../src/open-vault.ts';
import type { StepHook } from '../src/steps.ts';

const MIB = 1024 * 1024;
export const DEFAULT_BYTES = 512 * MIB;

export interface BtrfsWorld extends VaultUnderTest {
  readonly folder: string;
  readonly options: TestVault;
}

/** The options of a vault, with the helper that knows of it. */
export interface TestVault extends VaultOptions {
  readonly helper: RootHelper;
}

/** Of each folder, to be closed when it is taken down. */
const helpers = new Map<string, (() => Promise<void>)[]>();

/** A folder and options for a vault that is not open yet. */
export async function makeFolder(sizeBytes = DEFAULT_BYTES): Promise<TestVault> {
  if (process.getuid?.() !== 0) {
    throw new Error('These tests mount Btrfs on loop devices: run them as root on Linux with btrfs-progs installed.');
  }
  const folder = await mkdtemp(join(tmpdir(), 'space-vault-'));
  return await vaultIn(folder, { kind: 'loop', sizeBytes });
}

/** Another way to say what the vault of a folder is. */
export async function vaultIn(
  folder: string,
  backing: HelperVault['backing'],
  { name = 'default', node = { uid: 0, gid: 0 } }: { name?: string; node?: HelperConfig['node'] } = {},
): Promise<TestVault> {
  const opened = helpers.get(folder) ?? [];
  helpers.set(folder, opened);
  const own = join(runFolderOf(folder), `${opened.length}`);
  const running = await startHelper({
    program: (await loadAssets()).helper.program,
    config: {
      node,
      folder: own,
      runDir: join(own, 'lives'),
      // There are no VMMs here.
      uids: { first: 2_000_000_000, count: 1, registry: join(runFolderOf(folder), 'uids') },
      ...{ launcher: '/bin/false', vmmBuilds: {}, vmmSockets: [], vmmPrograms: [], bootFiles: {}, fileBytes: 1 },
      vaults: [{ name, folder, backing }],
      places: {},
    },
  });
  let helper = notForUs;
  opened.push(async () => {
    helper.close();
    await running.close();
  });
  if (node.uid === 0) helper = await connectHelper(running.socketPath);
  return { name: name as VaultName, folder, backing: backing.kind, helper };
}

const refuse = () => Promise.reject(new Error('The helper serves another user'));
const notForUs = {
  openVault: refuse,
  closeVault: refuse,
  partLife: refuse,
  close: () => undefined,
} as unknown as RootHelper;

function runFolderOf(folder: string): string {
  return `${folder}-run`;
}

/** Where a helper of a folder listens; they are counted from 0. */
export function helperOf(folder: string, number = 0): string {
  return join(runFolderOf(folder), `${number}`, 'socket');
}

export async function makeWorld(sizeBytes = DEFAULT_BYTES, step?: StepHook): Promise<BtrfsWorld> {
  const options = await makeFolder(sizeBytes);
  let vault: Vault;
  try {
    vault = await openVaultWithSteps(options, step);
  } catch (thrown) {
    await takeDown(options.folder);
    throw thrown;
  }
  return {
    vault,
    folder: options.folder,
    options,
    reopen: async () => {
      await vault.close();
      vault = await openVaultWithSteps(options);
      return vault;
    },
    dispose: async () => {
      // Closing is part of what is tested: a vault that cannot be closed fails its test, and is then taken down by force.
      try {
        await vault.close();
        await expectNothingLeft(options.folder);
      } finally {
        await takeDown(options.folder);
      }
    },
  };
}

export async function expectNothingLeft(folder: string): Promise<void> {
  expect((await mountPoints()).filter((target) => target.startsWith(folder))).toEqual([]);
  expect(loopsOf(join(folder, 'vault.btrfs'))).toEqual([]);
}

/** All that is mounted, oldest first, with the id of each mount. */
export async function mounts(): Promise<readonly { readonly id: string; readonly target: string }[]> {
  const lines = (await readFile('/proc/self/mountinfo', 'utf8')).trim().split('\n');
  return lines.map((line) => ({ id: line.split(' ')[0] ?? '', target: line.split(' ')[4] ?? '' }));
}

async function mountPoints(): Promise<string[]> {
  return (await mounts()).map(({ target }) => target);
}

export function attachLoop(file: string): string {
  return execFileSync('losetup', ['--find', '--show', file], { encoding: 'utf8' }).trim();
}

/** The devices on which a file is attached. */
function loopsOf(file: string): string[] {
  const listed = execFileSync('losetup', ['--noheadings', '--output', 'NAME', '--associated', file], {
    encoding: 'utf8',
  });
  return listed.split('\n').filter(Boolean);
}

/** By force, and idempotent. */
export async function takeDown(folder: string): Promise<void> {
  for (const close of (helpers.get(folder) ?? []).toReversed()) await close();
  helpers.delete(folder);
  for (const target of (await mountPoints()).toReversed()) {
    if (target.startsWith(`${folder}/`)) execFileSync('umount', ['--lazy', target]);
  }
  for (const file of ['vault.btrfs', 'device.img']) {
    for (const device of loopsOf(join(folder, file))) execFileSync('losetup', ['--detach', device]);
  }
  for (const path of [folder, runFolderOf(folder)]) await rm(path, { recursive: true, force: true });
}
