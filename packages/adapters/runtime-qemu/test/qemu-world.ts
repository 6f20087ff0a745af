/**
 * A world of real VMs for the tests: plain files, the real kernel, agent and base disk. What set-up builds must be there:
 * `loadAssets` fails, and says what to run, when it is not.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Guest, newId, type Size, type Vm, type VmSpec } from '@space/core';
import { connectGuest } from '@space/guest-grpc';
import { loadAssets } from '@space/guest-image';
import type { RuntimeWorld } from '@space/testkit/runtime-suite';
import { openQemuRuntime, type QemuRuntime, type QemuRuntimeOptions } from '../src/index.ts';
import { killProcess } from '../src/process-identity.ts';

const run = promisify(execFile);
/** Of nobody on a usual machine, and for each world other ones: tests can run side by side. */
const FIRST_UID = 1_950_000_000;
const UID_COUNT = 1000;
const SIZE: Size = { vcpus: 1, memoryMib: 256, diskMib: 2048 };
const WORD = '/root/word';
/** A guest under emulation, on a busy machine. */
const BOOT_LIMIT_MS = 60_000;

export interface QemuWorld extends RuntimeWorld {
  readonly runtime: QemuRuntime;
  readonly options: QemuRuntimeOptions;
  readonly folder: string;
  newLife(size?: Size): Promise<VmSpec>;
  openGuest<T>(vm: Vm, use: (guest: Guest) => Promise<T>): Promise<T>;
}

export async function openQemuWorld(changes: Partial<QemuRuntimeOptions> = {}): Promise<QemuWorld> {
  const { options, launcher, baseDisk } = await realOptions();
  const folder = await mkdtemp(join(tmpdir(), 'vm-'));
  await mkdir(join(folder, 'lives'));
  const first = FIRST_UID + randomBytes(2).readUInt16LE() * UID_COUNT;
  const uids = { first, count: UID_COUNT, registry: join(folder, 'uids') };
  const used: QemuRuntimeOptions = { ...options, jail: { launcher, uids }, runDir: join(folder, 'run'), ...changes };
  const runtime = await openQemuRuntime(used);
  const opened = [runtime];

  const nameLife = (size: Size): VmSpec => {
    const lifeId = newId('life', { bytes: (count) => randomBytes(count) });
    const path = join(folder, 'lives', lifeId);
    return { lifeId, size, files: { disk: `${path}.disk`, memory: `${path}.memory` } };
  };
  return {
    runtime,
    options: used,
    folder,
    openGuest,
    async reopen() {
      const another = await openQemuRuntime({ ...used, spares: 0 });
      opened.push(another);
      return another;
    },
    async newLife(size = SIZE) {
      const life = nameLife(size);
      await copySparse(baseDisk, life.files.disk);
      const memory = await open(life.files.memory, 'wx', 0o600);
      await memory.truncate(size.memoryMib * 1024 * 1024).finally(() => memory.close());
      return life;
    },
    async copyLife(of) {
      const life = nameLife(of.size);
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
      await rm(folder, { recursive: true });
    },
  };
}

type Built = Omit<QemuRuntimeOptions, 'runDir' | 'jail'>;

/** The runtime as set-up has built it. */
async function realOptions(): Promise<{ options: Built; launcher: string; baseDisk: string }> {
  const { vmm, kernel, initramfs, jail, templates } = await loadAssets();
  const firmware = vmm.firmwareDirs.flatMap((path) => ['-L', path]);
  const argv = [...vmm.loaderArgv, vmm.binary, ...firmware];
  const options: Built = {
    vmm: { root: vmm.root, argv, digest: vmm.digest, version: vmm.version },
    kernel,
    initramfs,
    accelerator: 'tcg',
  };
  return { options, launcher: jail.launcher, baseDisk: templates.base.disk };
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
