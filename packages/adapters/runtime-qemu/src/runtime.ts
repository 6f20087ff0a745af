/**
 * The runtime port on QEMU. Memory is `in_place`: QEMU maps the life's memory file shared, so whatever the file system
 * holds at an instant is the guest's memory of that instant.
 *
 * Invariants: a life has one run folder, and a run folder one process; a failed start leaves neither.
 */
import { chmod, chown, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  AppError,
  asAppError,
  type MachineFacts,
  type Runtime,
  type Vm,
  type VmRecord,
  type VmSpec,
} from '@space/core';
import { harmlessTail } from './byte-ring.ts';
import { kernelCommandLine, machineFacts, tscKhzOf } from './command-line.ts';
import { endMigration } from './device-state.ts';
import { type Launched, launchVmm } from './launch.ts';
import { bootMachine, restoreMachine } from './machine-setup.ts';
import type { Accelerator, QemuRuntimeOptions } from './options.ts';
import { isAlive, isErrno, killProcess } from './process-identity.ts';
import { QemuVm, queryStatus } from './qemu-vm.ts';
import { Qmp } from './qmp.ts';
import { openRunDir, RunFolder, recordsIn } from './run-folder.ts';
import { connectUnix } from './sockets.ts';
import { Spares } from './spares.ts';

const ADOPT_LIMIT_MS = 5_000;

export interface QemuRuntime extends Runtime {
  readonly memory: 'in_place';
  readonly accelerator: Accelerator;
  readonly vmmVersion: string;
  /** Resolves when no spare is being started; for measurements. */
  sparesSettled(): Promise<void>;
}

export async function openQemuRuntime(options: QemuRuntimeOptions): Promise<QemuRuntime> {
  await openRunDir(options.runDir);
  const tscKhz = tscKhzOf(await readFile('/proc/cpuinfo', 'utf8'));
  const runtime = new OpenRuntime(options, kernelCommandLine(options.accelerator, tscKhz));
  runtime.spares.refill();
  return runtime;
}

interface Started {
  readonly vmm: Launched;
  readonly folder: RunFolder;
}

class OpenRuntime implements QemuRuntime {
  readonly memory = 'in_place';
  readonly accelerator: Accelerator;
  readonly vmmVersion: string;
  readonly machine: MachineFacts;
  readonly spares: Spares;
  readonly #options: QemuRuntimeOptions;
  readonly #commandLine: string;

  constructor(options: QemuRuntimeOptions, commandLine: string) {
    this.#options = options;
    this.#commandLine = commandLine;
    this.accelerator = options.accelerator;
    this.vmmVersion = options.vmm.version;
    this.machine = machineFacts(options);
    this.spares = new Spares(options);
  }

  async boot(spec: VmSpec, signal?: AbortSignal): Promise<Vm> {
    const { kernel, initramfs } = this.#options;
    const toBoot = { vmlinux: kernel.vmlinux, initramfs: initramfs.path, commandLine: this.#commandLine };
    try {
      await this.#handOver(spec);
      const started = await this.#launch('boot', spec, signal);
      return await makeVm(spec, started, signal, () => bootMachine(started.vmm.qmp, spec, toBoot));
    } catch (thrown) {
      throw startError('boot_failed', thrown);
    }
  }

  async restore(spec: VmSpec, deviceState: Uint8Array, signal?: AbortSignal): Promise<Vm> {
    try {
      await this.#handOver(spec);
      const started = (await this.#claimSpare(spec)) ?? (await this.#launch('restore', spec, signal));
      const { vmm, folder } = started;
      const vm = await makeVm(spec, started, signal, () => restoreMachine(vmm.qmp, spec, deviceState, folder));
      this.spares.refill();
      return vm;
    } catch (thrown) {
      this.spares.refill();
      throw startError('restore_failed', thrown);
    }
  }

  async adopt(record: VmRecord): Promise<Vm | null> {
    if (!(await isAlive(record))) {
      await new RunFolder(record.runDir).remove();
      return null;
    }
    const qmp = await this.#reconnect(record);
    const { status } = await queryStatus(qmp);
    if (status === 'prelaunch' || status === 'inmigrate') {
      // Its start was not completed, so nobody was told that it exists.
      qmp.close();
      await killProcess(record);
      await new RunFolder(record.runDir).remove();
      return null;
    }
    await endMigration(qmp);
    const vm = new QemuVm(record, qmp, null);
    await vm.openConsole();
    return vm;
  }

  survivors(): Promise<readonly VmRecord[]> {
    return recordsIn(this.#options.runDir);
  }

  sparesSettled(): Promise<void> {
    return this.spares.settled();
  }

  async close(): Promise<void> {
    await this.spares.close();
  }

  #folderPath(spec: VmSpec): string {
    return join(this.#options.runDir, spec.lifeId);
  }

  async #claimSpare(spec: VmSpec): Promise<Started | null> {
    const spare = this.spares.claim();
    if (!spare) return null;
    try {
      return { vmm: spare.vmm, folder: await spare.folder.renameTo(this.#folderPath(spec)) };
    } catch (thrown) {
      await spare.vmm.kill();
      await spare.folder.remove();
      throw thrown;
    }
  }

  async #launch(mode: 'boot' | 'restore', spec: VmSpec, signal: AbortSignal | undefined): Promise<Started> {
    const folder = await RunFolder.create(this.#folderPath(spec), this.#options.vmmUser);
    try {
      return { vmm: await launchVmm(this.#options, mode, folder, signal), folder };
    } catch (thrown) {
      await folder.remove();
      throw thrown;
    }
  }

  /** Checks the life's files, and makes them the VMM's, and nobody else's. */
  async #handOver({ files, size }: VmSpec): Promise<void> {
    const user = this.#options.vmmUser;
    const memory = await stat(files.memory);
    if (memory.size !== size.memoryMib * 1024 * 1024) {
      throw new Error(`The memory file has ${memory.size} bytes, not ${size.memoryMib} MiB`);
    }
    for (const path of [files.disk, files.memory]) {
      const { uid, mode } = await stat(path);
      if ((mode & 0o777) !== 0o600) await chmod(path, 0o600);
      if (user && uid !== user.uid) await chown(path, user.uid, user.gid);
    }
  }

  async #reconnect({ runDir, lifeId }: VmRecord): Promise<Qmp> {
    try {
      return await Qmp.open(await connectUnix(new RunFolder(runDir).socket('qmp')), ADOPT_LIMIT_MS);
    } catch (cause) {
      throw new AppError('unavailable', `The VMM of ${lifeId} is alive and does not answer.`, { cause });
    }
  }
}

/** Makes the VM of a process that waits in preconfig; kills it and cleans up when that fails. */
async function makeVm(
  spec: VmSpec,
  { vmm, folder }: Started,
  signal: AbortSignal | undefined,
  start: () => Promise<void>,
): Promise<Vm> {
  try {
    signal?.throwIfAborted();
    const record = { lifeId: spec.lifeId, ...vmm.identity, runDir: folder.path };
    const vm = new QemuVm(record, vmm.qmp, vmm);
    await Promise.all([vm.openConsole(), start()]);
    signal?.throwIfAborted();
    return vm;
  } catch (cause) {
    await vmm.kill();
    await folder.remove();
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${message}. ${vmm.complaints()}`, { cause });
  }
}

function startError(code: 'boot_failed' | 'restore_failed', thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  const detail = harmlessTail(asAppError(thrown).message, 800);
  if (/cannot allocate memory/i.test(detail)) return new AppError('insufficient_memory', detail, { cause: thrown });
  if (isErrno(thrown, 'ENOSPC')) return new AppError('insufficient_space', detail, { cause: thrown });
  return new AppError(code, detail, { cause: thrown });
}
