/**
 * What one would do without SPACE, with QEMU alone: the same build, kernel, initramfs, image, sizes and warm-up, on the
 * file system of the same vault.
 *
 * ```
 *   pause    stop, full migration to a file, sync of the file, end of the process
 *   resume   a new process loads the file; until its vCPUs run
 *   fork     stop, full migration to a file, copy of the disk, go on; a new process loads both; until its vCPUs run
 *   snapshot savevm into a qcow2 disk
 *   rewind   loadvm
 * ```
 *
 * A copy made so has the identity, the clock and the randomness of its source, and its programs run at once; nothing
 * records where it came from. All that SPACE does beyond that counts against SPACE.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Guest, type GuestCommand, newId, type Size } from '@space/core';
import { connectGuest } from '@space/guest-grpc';
import { loadAssets } from '@space/guest-image';
import { makeOverlay, type PlainDisk, type PlainMachine, PlainVm } from '@space/runtime-qemu/plain-vm';
import { vmmBuildOf } from '@space/runtime-qemu/vmm-programs';
import { DIRTY, HOLD_WORKING_SET, TRUE, WAIT_FOR_WORKING_SET } from './ours.ts';
import type { Samples } from './samples.ts';

const run = promisify(execFile);
const MIB = 2 ** 20;
const BOOT_LIMIT_MS = 120_000;
/** As the ready snapshots of SPACE are warmed up. */
const WARM_UP = ['true', 'ls / >/dev/null', 'python3 -c "print(1)" >/dev/null'];
const chance = { bytes: (count: number) => randomBytes(count) };

export class Baseline implements AsyncDisposable {
  readonly #samples: Samples;
  readonly #machine: PlainMachine;
  readonly #folder: string;
  /** Lives from one migration to the next. */
  #moved: PlainVm;
  readonly #movedDisk: PlainDisk;
  /** Its memory is saved in its disk. */
  readonly #saved: PlainVm;

  private constructor(
    samples: Samples,
    machine: PlainMachine,
    folder: string,
    disk: PlainDisk,
    vms: [PlainVm, PlainVm],
  ) {
    this.#samples = samples;
    this.#machine = machine;
    this.#folder = folder;
    this.#movedDisk = disk;
    [this.#moved, this.#saved] = vms;
  }

  static async start(samples: Samples, vaultFolder: string, size: Size, accelerator: 'kvm' | 'tcg'): Promise<Baseline> {
    const folder = join(vaultFolder, 'plain');
    await mkdir(folder);
    const { vmm, kernel, initramfs, templates, jail } = await loadAssets();
    const machine: PlainMachine = {
      vmm: vmmBuildOf(vmm),
      kernel,
      initramfs,
      accelerator,
      size,
      launcher: jail.launcher,
    };
    const image = join(folder, 'image');
    await run('cp', ['--sparse=always', templates.base.disk, image]);
    await truncate(image, size.diskMib * MIB);
    const raw = { path: join(folder, 'raw'), format: 'raw' } as const;
    const qcow2 = { path: join(folder, 'qcow2'), format: 'qcow2' } as const;
    await copyDisk(image, raw.path);
    await makeOverlay(machine, image, qcow2.path, size.diskMib * MIB);
    const moved = await warmedUp(machine, raw, folder);
    const saved = await warmedUp(machine, qcow2, folder);
    return new Baseline(samples, machine, folder, raw, [moved, saved]);
  }

  async round(): Promise<void> {
    await this.#pauseAndResume();
    await this.#fork();
    await this.#saveAndLoad();
  }

  async #pauseAndResume(): Promise<void> {
    const state = join(this.#folder, 'state');
    await withGuest(this.#moved, (guest) => bash(guest, DIRTY));
    await this.#samples.timed('baseline.pause', async () => {
      await this.#moved.stop();
      await this.#moved.migrateTo(state);
      await this.#moved.kill();
    });
    const startedAt = performance.now();
    this.#moved = await this.#samples.timed('baseline.resume.running', () =>
      PlainVm.load(this.#machine, this.#movedDisk, this.#folder, state),
    );
    await withGuest(this.#moved, (guest) => exec(guest, TRUE));
    this.#samples.add('baseline.resume.first_command', performance.now() - startedAt);
    await rm(state);
  }

  async #fork(): Promise<void> {
    const state = join(this.#folder, 'state');
    const disk: PlainDisk = { path: join(this.#folder, 'copy'), format: 'raw' };
    await withGuest(this.#moved, (guest) => bash(guest, DIRTY));
    const startedAt = performance.now();
    const copy = await this.#samples.timed('baseline.fork.running', async () => {
      await this.#moved.stop();
      await this.#moved.migrateTo(state);
      await copyDisk(this.#movedDisk.path, disk.path);
      await this.#moved.resume();
      return PlainVm.load(this.#machine, disk, this.#folder, state);
    });
    await withGuest(copy, (guest) => exec(guest, TRUE));
    this.#samples.add('baseline.fork.first_command', performance.now() - startedAt);
    await copy.kill();
    await rm(state);
    await rm(disk.path);
  }

  async #saveAndLoad(): Promise<void> {
    await withGuest(this.#saved, (guest) => bash(guest, DIRTY));
    await this.#samples.timed('baseline.snapshot', () => this.#saved.saveInDisk('point'));
    await withGuest(this.#saved, (guest) => bash(guest, DIRTY));
    await this.#samples.timed('baseline.rewind', () => this.#saved.loadFromDisk('point'));
    await this.#saved.deleteInDisk('point');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#moved.kill();
    await this.#saved.kill();
    await rm(this.#folder, { recursive: true });
  }
}

/** Shares the blocks where the file system can. */
async function copyDisk(from: string, to: string): Promise<void> {
  await run('cp', ['--reflink=auto', '--sparse=auto', from, to]);
}

async function warmedUp(machine: PlainMachine, disk: PlainDisk, folder: string): Promise<PlainVm> {
  const vm = await PlainVm.boot(machine, disk, folder);
  await withGuest(vm, async (guest) => {
    await guest.assumeIdentity({
      sandboxId: newId('sandbox', chance),
      lifeId: newId('life', chance),
      generation: 1,
      hostname: 'plain',
      machineId: randomBytes(16).toString('hex'),
      entropy: randomBytes(64),
      isFresh: true,
    });
    await guest.thaw();
    for (const line of WARM_UP) await bash(guest, line);
    for await (const event of guest.exec(commandOf(HOLD_WORKING_SET))) if (event.kind === 'started') break;
    await bash(guest, WAIT_FOR_WORKING_SET);
  });
  return vm;
}

async function withGuest<T>(vm: PlainVm, use: (guest: Guest) => Promise<T>): Promise<T> {
  const guest = await connectGuest((port) => vm.connect(port), { limits: { openMs: BOOT_LIMIT_MS } });
  try {
    return await use(guest);
  } finally {
    await guest.close();
  }
}

function bash(guest: Guest, line: string): Promise<void> {
  return exec(guest, ['/bin/bash', '-lc', line]);
}

async function exec(guest: Guest, argv: readonly string[]): Promise<void> {
  for await (const event of guest.exec(commandOf(argv))) {
    if (event.kind !== 'exited') continue;
    if (!('code' in event.exit) || event.exit.code !== 0) throw new Error(`${argv.join(' ')} failed in the plain VM`);
  }
}

function commandOf(argv: readonly string[]): GuestCommand {
  return { processId: newId('process', chance), argv, env: {} };
}
