/** A vault in a folder of its own that is taken down whole, whatever the test left: mounts, loop devices, files. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Vault, VaultName } from '@space/core';
import type { VaultUnderTest } from '@space/testkit/vault-suite';
import { expect } from 'vitest';
import { loopsOf } from '../src/loop.ts';
import { readMounts } from '../src/mounts.ts';
import { openVaultWithSteps, type VaultOptions } from '../src/open-vault.ts';
import type { StepHook } from '../src/steps.ts';

const MIB = 1024 * 1024;
export const DEFAULT_BYTES = 512 * MIB;

export interface BtrfsWorld extends VaultUnderTest {
  readonly folder: string;
  readonly options: VaultOptions;
}

/** A folder and options for a vault that is not open yet. */
export async function makeFolder(sizeBytes = DEFAULT_BYTES): Promise<VaultOptions> {
  if (process.getuid?.() !== 0) {
    throw new Error('These tests mount Btrfs on loop devices: run them as root on Linux with btrfs-progs installed.');
  }
  const folder = await mkdtemp(join(tmpdir(), 'space-vault-'));
  return { name: 'default' as VaultName, folder, backing: { kind: 'loop', sizeBytes } };
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
  expect((await readMounts()).filter(({ target }) => target.startsWith(folder))).toEqual([]);
  expect(await loopsOf(join(folder, 'vault.btrfs'))).toEqual([]);
}

/** By force, and idempotent. */
export async function takeDown(folder: string): Promise<void> {
  for (const { target } of (await readMounts()).toReversed()) {
    if (target.startsWith(`${folder}/`)) execFileSync('umount', ['--lazy', target]);
  }
  for (const file of ['vault.btrfs', 'device.img']) {
    for (const device of await loopsOf(join(folder, file))) execFileSync('losetup', ['--detach', device]);
  }
  await rm(folder, { recursive: true, force: true });
}
