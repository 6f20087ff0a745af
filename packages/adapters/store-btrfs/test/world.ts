/** A vault in a folder of its own that is taken down whole, whatever the test left: mounts, loop devices, files. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KeyBytes, type Vault, type VaultName } from '@space/core';
import { loadAssets } from '@space/guest-image';
import {
  connectHelper,
  type HelperConfig,
  type HelperProcess,
  type HelperVault,
  type RootHelper,
  startHelper,
} from '@space/root-helper';
import type { VaultUnderTest } from '@space/testkit/vault-suite';
import { expect } from 'vitest';
import { BtrfsContainers } from '../src/containers.ts';
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
  const { helper } = await helperFor(folder, [{ name, folder, backing }], node);
  return { name: name as VaultName, folder, backing: backing.kind, helper };
}

/** A helper that knows these vaults, and may make others in the folder. */
export async function helperFor(
  folder: string,
  vaults: readonly HelperVault[],
  node: HelperConfig['node'] = { uid: 0, gid: 0 },
): Promise<{ readonly helper: RootHelper; readonly process: HelperProcess }> {
  const opened = helpers.get(folder) ?? [];
  helpers.set(folder, opened);
  const own = join(runFolderOf(folder), `${opened.length}`);
  const assets = await loadAssets();
  const running = await startHelper({
    program: assets.helper.program,
    config: {
      node,
      folder: own,
      runDir: join(own, 'lives'),
      // There are no VMMs here.
      uids: { first: 2_000_000_000, count: 2, registry: join(runFolderOf(folder), 'uids') },
      ...{ launcher: '/bin/false', vmmBuilds: {}, vmmSockets: [], vmmPrograms: [], bootFiles: {}, fileBytes: 1 },
      vaults,
      vaultsFolder: folder,
      vaultServer: assets.vaultServer.program,
      places: {},
    },
  });
  let helper = notForUs;
  opened.push(async () => {
    helper.close();
    await running.close();
  });
  if (node.uid === 0) helper = await connectHelper(running.socketPath);
  return { helper, process: running };
}

export const SEALED = 'sealed' as VaultName;
/** Of a vault, other ones by other numbers. */
export const keyOf = (first: number): KeyBytes =>
  new KeyBytes(Uint8Array.from({ length: 64 }, (_, index) => (first + index) % 256));

/** A folder for containers, with a helper. */
export async function makeContainers() {
  const folder = await mkdtemp(join(tmpdir(), 'space-vault-'));
  const { helper, process } = await helperFor(folder, []).catch(async (thrown: unknown) => {
    await rm(folder, { recursive: true });
    throw thrown;
  });
  const containers = new BtrfsContainers({ folder, helper });
  /** Of the vault. */
  const container = join(folder, SEALED, 'vault.luks');
  return { folder, container, helper, process, containers, dispose: () => takeDown(folder) };
}

/** Made once for all the tests of a file. */
let pattern: Promise<string> | null = null;

async function makePattern(): Promise<string> {
  const { folder, containers } = await makeContainers();
  await containers.create(SEALED, { sizeBytes: DEFAULT_BYTES, key: keyOf(1), token: null });
  return folder;
}

/** As `makeWorld`, of an encrypted vault. The last of a file calls `forgetPattern`. */
export async function makeSealedWorld(): Promise<VaultUnderTest> {
  const { folder, containers } = await makeContainers();
  let vault: Vault;
  try {
    pattern ??= makePattern();
    execFileSync('cp', ['--archive', '--sparse=always', join(await pattern, SEALED), folder]);
    vault = await containers.open(SEALED, keyOf(1));
  } catch (thrown) {
    await takeDown(folder);
    throw thrown;
  }
  return {
    vault,
    reopen: async () => {
      await vault.close();
      vault = await containers.open(SEALED, keyOf(1));
      return vault;
    },
    dispose: async () => {
      try {
        await vault.close();
        await expectNothingLeft(folder);
      } finally {
        await takeDown(folder);
      }
    },
  };
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

export async function forgetPattern(): Promise<void> {
  if (pattern !== null) await takeDown(await pattern);
  pattern = null;
}

export async function expectNothingLeft(folder: string): Promise<void> {
  expect((await mountPoints()).filter((target) => target.startsWith(folder))).toEqual([]);
  expect(await loopsIn(folder)).toEqual([]);
  expect(await serversOf(folder)).toEqual([]);
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

/** The devices on which a file of the folder is attached. */
export async function loopsIn(folder: string): Promise<string[]> {
  const names = await readdir('/sys/block');
  const files = await Promise.all(
    names.map((name) => readFile(join('/sys/block', name, 'loop/backing_file'), 'utf8').catch(() => '')),
  );
  return names.filter((_, index) => files[index]?.startsWith(`${folder}/`)).map((name) => join('/dev', name));
}

/** The vault servers that have a file of the folder open. */
export async function serversOf(folder: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '');
      if (!name.startsWith('space-vault-ser')) return [];
      const fds = await readdir(`/proc/${pid}/fd`).catch(() => []);
      const open = await Promise.all(fds.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')));
      return open.some((path) => path.startsWith(`${folder}/`)) ? [Number(pid)] : [];
    }),
  );
  return found.flat();
}

/** By force, and idempotent. */
export async function takeDown(folder: string): Promise<void> {
  for (const close of (helpers.get(folder) ?? []).toReversed()) await close();
  helpers.delete(folder);
  for (const target of (await mountPoints()).toReversed()) {
    if (target.startsWith(`${folder}/`)) execFileSync('umount', ['--lazy', target]);
  }
  for (const device of await loopsIn(folder)) execFileSync('losetup', ['--detach', device]);
  for (const pid of await serversOf(folder)) process.kill(pid, 'SIGKILL');
  for (const path of [folder, runFolderOf(folder)]) await rm(path, { recursive: true, force: true });
}
