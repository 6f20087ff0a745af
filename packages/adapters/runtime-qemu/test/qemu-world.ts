/**
 * A world of real VMs for the tests: plain files, the real kernel, agent and base disk. What set-up builds must be there:
 * `loadAssets` fails, and says what to run, when it is not.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Guest, newId, type Size, type VaultName, type Vm, type VmSpec } from '@space/core';
import { connectGuest } from '@space/guest-grpc';
import { loadAssets } from '@space/guest-image';
import { connectHelper, type HelperConfig, type HelperProcess, type RootHelper, startHelper } from '@space/root-helper';
import type { RuntimeWorld } from '@space/testkit/runtime-suite';
import {
  type GuestBoot,
  openQemuRuntime,
  type QemuRuntime,
  type QemuRuntimeOptions,
  vmmSettings,
} from '../src/index.ts';
import { vmmBuildOf } from '../src/vmm-programs.ts';
import { killProcess } from './kill.ts';

const run = promisify(execFile);
/** Of nobody on a usual machine, and for each world other ones: tests can run side by side. */
const FIRST_UID = 1_950_000_000;
const UID_COUNT = 1000;
const SIZE: Size = { vcpus: 1, memoryMib: 256, diskMib: 2048 };
const WORD = '/root/word';
/** Sparse; more than all tests of a file write. */
const FOLDER_BYTES = 16 * 1024 ** 3;
/** The world's own folder, as the helper knows it. */
const PLACE = 'world' as VaultName;
/** A guest under emulation, on a busy machine. */
const BOOT_LIMIT_MS = 60_000;

/** What a runtime of the world can have that is not the world's own. */
type Changes = Partial<Pick<QemuRuntimeOptions, 'vmm' | 'earlier' | 'kernel' | 'initramfs' | 'spares'>>;

export interface QemuWorld extends RuntimeWorld {
  readonly runtime: QemuRuntime;
  readonly options: QemuRuntimeOptions;
  readonly helper: HelperProcess;
  readonly uids: HelperConfig['uids'];
  readonly folder: string;
  /** Another runtime over the same run folders, with a helper of its own that knows the changes. */
  openChanged(changes: Changes): Promise<QemuRuntime>;
  newLife(size?: Size): Promise<VmSpec>;
  openGuest<T>(vm: Vm, use: (guest: Guest) => Promise<T>): Promise<T>;
}

export async function openQemuWorld(): Promise<QemuWorld> {
  const { baseDisk, helperProgram, launcher, ...built } = await realParts();
  const { folder, unmount } = await mountedFolder();
  const base = join(folder, 'base.img');
  await copySparse(baseDisk, base);
  await mkdir(join(folder, 'lives'));
  await mkdir(join(folder, 'small'));
  await mkdir(join(folder, 'probe'));
  const runDir = join(folder, 'run');
  const first = FIRST_UID + randomBytes(2).readUInt16LE() * UID_COUNT;
  const uids = { first, count: UID_COUNT, registry: join(folder, 'uids') };
  const closers: (() => Promise<void> | void)[] = [];
  const start = async (parts: typeof built & Changes): Promise<{ process: HelperProcess; helper: RootHelper }> => {
    const common = { node: { uid: 0, gid: 0 }, runDir, uids, launcher, vaults: [] };
    const places = { world: folder, small: join(folder, 'small'), probe: join(folder, 'probe') };
    const own = join(folder, `helper-${closers.length}`);
    const config = { ...vmmSettings(parts.vmm, parts, parts.earlier), ...common, folder: own, places };
    const process = await startHelper({ program: helperProgram, config });
    const helper = await connectHelper(process.socketPath);
    closers.push(
      () => helper.close(),
      () => process.close(),
    );
    return { process, helper };
  };
  const { process, helper } = await start(built);
  const used: QemuRuntimeOptions = { ...built, accelerator: 'tcg', helper, launcher, runDir };
  const runtime = await openQemuRuntime(used);
  const opened = [runtime];

  const nameLife = async (size: Size): Promise<VmSpec> => {
    const lifeId = newId('life', { bytes: (count) => randomBytes(count) });
    const path = join(folder, 'lives', lifeId);
    await mkdir(path);
    return { lifeId, size, vault: PLACE, files: { disk: join(path, 'disk.img'), memory: join(path, 'memory') } };
  };
  return {
    runtime,
    options: used,
    helper: process,
    uids,
    folder,
    openGuest,
    async reopen() {
      const another = await openQemuRuntime({ ...used, spares: 0 });
      opened.push(another);
      return another;
    },
    async openChanged(changes) {
      const parts = { ...built, ...changes };
      const another = await openQemuRuntime({ ...used, ...parts, spares: 0, helper: (await start(parts)).helper });
      opened.push(another);
      return another;
    },
    async newLife(size = SIZE) {
      const life = await nameLife(size);
      await copySparse(base, life.files.disk);
      const memory = await open(life.files.memory, 'wx', 0o600);
      await memory.truncate(size.memoryMib * 1024 * 1024).finally(() => memory.close());
      return life;
    },
    async copyLife(of) {
      const life = await nameLife(of.size);
      await copySparse(of.files.disk, life.files.disk);
      await copySparse(of.files.memory, life.files.memory);
      return life;
    },
    remember: (vm, word) =>
      openGuest(vm, async (guest) => {
        await guest.writeFile({ path: WORD, user: 'root' }, bytesOf(word));
      }),
    recall: (vm) =>
      openGuest(vm, async (guest) => {
        const { body } = await guest.readFile({ path: WORD, user: 'root' });
        return Buffer.concat(await Array.fromAsync(body)).toString();
      }),
    async close() {
      for (const one of opened) await endAll(one);
      for (const close of closers.toReversed()) await close();
      await unmount();
    },
  };
}

/**
 * On Btrfs, as the files of a vault are: there a copy of a life shares the blocks of its source. Elsewhere each of the many
 * copies would write half a gigabyte.
 */
async function mountedFolder(): Promise<{ folder: string; unmount: () => Promise<void> }> {
  const place = await mkdtemp('/var/tmp/space-vm-');
  const [image, folder] = [join(place, 'image'), join(place, 'mnt')];
  const file = await open(image, 'wx', 0o600);
  await file.truncate(FOLDER_BYTES).finally(() => file.close());
  await run('mkfs.btrfs', ['--quiet', image]);
  await mkdir(folder);
  await run('mount', ['-o', 'loop,noatime', image, folder]);
  return {
    folder,
    async unmount() {
      // Its loop device goes with it.
      await run('umount', [folder]);
      await rm(place, { recursive: true });
    },
  };
}

/** What set-up has built. */
async function realParts() {
  const { vmm, kernel, initramfs, jail, helper, templates } = await loadAssets();
  const boot: GuestBoot = { kernel, initramfs };
  const programs = { launcher: jail.launcher, helperProgram: helper.program };
  return { vmm: vmmBuildOf(vmm), ...boot, ...programs, baseDisk: templates.base.disk };
}

async function openGuest<T>(vm: Vm, use: (guest: Guest) => Promise<T>): Promise<T> {
  const options = { limits: { openMs: BOOT_LIMIT_MS, helloMs: BOOT_LIMIT_MS }, vmEnded: vm.ended };
  const guest = await connectGuest((port) => vm.connect(port), options);
  try {
    return await use(guest);
  } finally {
    await guest.close();
  }
}

async function* bytesOf(word: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(word);
}

async function copySparse(from: string, to: string): Promise<void> {
  await run('cp', ['--sparse=always', '--reflink=auto', from, to]);
}

/** So that a failed test leaves no process. */
async function endAll(runtime: QemuRuntime): Promise<void> {
  await runtime.close();
  for (const record of await runtime.survivors()) await killProcess(record);
}
