/**
 * The runtime port on QEMU. Memory is `in_place`: QEMU maps the life's memory file shared, so whatever the file system
 * holds at an instant is the guest's memory of that instant.
 *
 * Invariants: a life has one run folder, and a run folder one process; a failed start leaves neither.
 */
import { existsSync } from 'node:fs';
import {
  AppError,
  asAppError,
  type MachineFacts,
  type RestoreOptions,
  type Runtime,
  type Vm,
  type VmRecord,
  type VmSpec,
} from '@space/core';
import type { HelperLimits } from '@space/root-helper';
import { harmlessTail } from './byte-ring.ts';
import { kernelCommandLine, machineFacts, machinesOf } from './command-line.ts';
import { endMigration } from './device-state.ts';
import { connectQmp, endAndClear, type Launched, launchVmm } from './launch.ts';
import { bootMachine, type InsideFiles, restoreMachine } from './machine-setup.ts';
import { type Accelerator, nameOfBuild, type QemuRuntimeOptions } from './options.ts';
import { isAlive, isErrno } from './process-identity.ts';
import { QemuVm, queryStatus } from './qemu-vm.ts';
import type { Qmp } from './qmp.ts';
import { openRunDir, RunFolder, recordsIn } from './run-folder.ts';
import { Spares } from './spares.ts';
import { measureTscKhz } from './tsc.ts';

const ADOPT_LIMIT_MS = 5_000;

export interface QemuRuntime extends Runtime {
  readonly memory: 'in_place';
  readonly accelerator: Accelerator;
  readonly vmmVersion: string;
  /** Which limits hold each VMM here. */
  readonly jail: HelperLimits;
  /** Resolves when no spare is being started; for measurements. */
  sparesSettled(): Promise<void>;
}

export async function openQemuRuntime(options: QemuRuntimeOptions): Promise<QemuRuntime> {
  await openRunDir(options.runDir, (name) => endAndClear(options.helper, name));
  const tscKhz = await measureTscKhz(options.launcher);
  const runtime = new OpenRuntime(options, kernelCommandLine(options.accelerator, tscKhz));
  runtime.spares.refill();
  return runtime;
}

interface Started {
  readonly vmm: Launched;
  /** The life's files, as this VMM sees them. */
  readonly files: InsideFiles;
}

class OpenRuntime implements QemuRuntime {
  readonly memory = 'in_place';
  readonly accelerator: Accelerator;
  readonly vmmVersion: string;
  readonly jail: HelperLimits;
  readonly machine: MachineFacts;
  readonly spares: Spares;
  readonly #options: QemuRuntimeOptions;
  readonly #commandLine: string;

  constructor(options: QemuRuntimeOptions, commandLine: string) {
    this.jail = options.helper.limits;
    this.#options = options;
    this.#commandLine = commandLine;
    this.accelerator = options.accelerator;
    this.vmmVersion = options.vmm.version;
    this.machine = machineFacts(options);
    this.spares = new Spares(options);
  }

  /** A build that nothing needed any more is gone, and what comes from outside may need it all the same. */
  get machines(): readonly MachineFacts[] {
    const { earlier = [] } = this.#options;
    const there = earlier.filter(({ root }) => existsSync(root));
    return [this.#options.vmm, ...there].flatMap((vmm) => machinesOf({ ...this.#options, vmm }));
  }

  async boot(spec: VmSpec, signal?: AbortSignal): Promise<Vm> {
    try {
      const started = await this.#launch('boot', this.machine, spec, signal);
      return await this.#makeVm(spec, started, this.machine, signal, () =>
        bootMachine(started.vmm.qmp, spec.size, started.files, this.#commandLine),
      );
    } catch (thrown) {
      throw startError('boot_failed', thrown);
    }
  }

  async restore(
    spec: VmSpec,
    deviceState: Uint8Array,
    { machine = this.machine, signal }: RestoreOptions = {},
  ): Promise<Vm> {
    try {
      const spare = machine.vmmBuild === this.machine.vmmBuild ? await this.#claimSpare(spec) : null;
      const started = spare ?? (await this.#launch('restore', machine, spec, signal));
      const vm = await this.#makeVm(spec, started, machine, signal, () =>
        restoreMachine(started.vmm.qmp, spec.size, started.files, deviceState),
      );
      this.spares.refill();
      return vm;
    } catch (thrown) {
      this.spares.refill();
      throw startError('restore_failed', thrown);
    }
  }

  async adopt(record: VmRecord): Promise<Vm | null> {
    const { helper } = this.#options;
    if (!(await isAlive(record))) {
      await helper.clearVmm(record.lifeId);
      return null;
    }
    const qmp = await this.#reconnect(record);
    if (qmp === 'never started') {
      // So nobody was told that it exists.
      await endAndClear(helper, record.lifeId);
      return null;
    }
    const build = await new RunFolder(record.runDir).readBuild();
    const machine = this.machines.find(({ vmmBuild }) => nameOfBuild({ digest: vmmBuild }) === build);
    if (build !== null && machine === undefined) {
      qmp?.close();
      throw new AppError('unavailable', `The VMM of ${record.lifeId} is of the build ${build}, which is not there.`);
    }
    const vm = new QemuVm(record, machine ?? this.machine, qmp, helper, null);
    await vm.openConsole().catch(() => undefined);
    return vm;
  }

  survivors(): Promise<readonly VmRecord[]> {
    return recordsIn(this.#options.runDir, (name) => endAndClear(this.#options.helper, name));
  }

  sparesSettled(): Promise<void> {
    return this.spares.settled();
  }

  async close(): Promise<void> {
    await this.spares.close();
  }

  /** Null when there is no spare, or it dies while it is claimed: then the caller starts a VMM of its own. */
  async #claimSpare(spec: VmSpec): Promise<Started | null> {
    const spare = this.spares.claim();
    if (!spare) return null;
    try {
      return await this.#equip(spec, spare);
    } catch (thrown) {
      // Its connection ends a moment before the process counts as dead.
      const died = spare.qmp.closed || (thrown instanceof AppError && thrown.code === 'vm_lost');
      await spare.discard();
      if (!died) throw thrown;
      this.#options.onWarning?.(`A spare VMM died as it was claimed. ${spare.complaints()}`);
      return null;
    }
  }

  async #launch(
    mode: 'boot' | 'restore',
    { vmmBuild }: MachineFacts,
    spec: VmSpec,
    signal: AbortSignal | undefined,
  ): Promise<Started> {
    const { accelerator } = this.#options;
    const build = nameOfBuild({ digest: vmmBuild });
    const vmm = await launchVmm(this.#options, spec.lifeId, { build, mode, accelerator }, signal);
    try {
      return await this.#equip(spec, vmm);
    } catch (thrown) {
      await vmm.discard();
      throw thrown;
    }
  }

  /** Gives a VMM that knows nothing yet the files and the limits of its life. */
  async #equip({ lifeId, vault, size }: VmSpec, vmm: Launched): Promise<Started> {
    const { disk, memory } = await vmm.equip({ lifeId, place: vault, size });
    return { vmm, files: { disk: `/fd/${disk}`, memory: `/fd/${memory}` } };
  }

  /** Makes the VM of a process that waits in preconfig; kills it and cleans up when that fails. */
  async #makeVm(
    spec: VmSpec,
    { vmm }: Started,
    machine: MachineFacts,
    signal: AbortSignal | undefined,
    start: () => Promise<void>,
  ): Promise<Vm> {
    try {
      signal?.throwIfAborted();
      const runDir = RunFolder.of(this.#options.runDir, spec.lifeId).path;
      const record = { lifeId: spec.lifeId, ...vmm.identity, runDir };
      const vm = new QemuVm(record, machine, vmm.qmp, this.#options.helper, vmm);
      await Promise.all([vm.openConsole(), start()]);
      signal?.throwIfAborted();
      return vm;
    } catch (cause) {
      await vmm.discard();
      const message = cause instanceof Error ? cause.message : String(cause);
      throw new Error(`${message}. ${vmm.complaints()}`, { cause });
    }
  }

  /** Null: it does not answer now. That holds up nobody else, and ends nothing: its next use tries again. */
  async #reconnect({ runDir, lifeId }: VmRecord): Promise<Qmp | 'never started' | null> {
    let qmp: Qmp | null = null;
    try {
      qmp = await connectQmp(new RunFolder(runDir), ADOPT_LIMIT_MS);
      const { status } = await queryStatus(qmp);
      if (status === 'prelaunch' || status === 'inmigrate') {
        qmp.close();
        return 'never started';
      }
      await endMigration(qmp);
      return qmp;
    } catch (thrown) {
      qmp?.close();
      this.#options.onWarning?.(`The VMM of ${lifeId} is alive and does not answer: ${asAppError(thrown).message}`);
      return null;
    }
  }
}

function startError(code: 'boot_failed' | 'restore_failed', thrown: unknown): AppError {
  if (thrown instanceof AppError && thrown.code !== 'internal') return thrown;
  const detail = harmlessTail(asAppError(thrown).message, 800);
  if (/cannot allocate memory/i.test(detail)) return new AppError('insufficient_memory', detail, { cause: thrown });
  if (isErrno(thrown, 'ENOSPC')) return new AppError('insufficient_space', detail, { cause: thrown });
  return new AppError(code, detail, { cause: thrown });
}
