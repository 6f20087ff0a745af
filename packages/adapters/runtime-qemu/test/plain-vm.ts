/**
 * QEMU as a user would run it who has nothing else: the same build, machine, kernel and initramfs as ours, with memory of
 * its own (a plain anonymous backend) and QEMU's ways to keep a VM: a full migration into a file, `savevm`, `loadvm`.
 * For measurements beside ours. There is no jail, and no limit on what a migration may take.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GuestPort, Size } from '@space/core';
import { hardware, kernelCommandLine } from '../src/command-line.ts';
import type { Accelerator, GuestBoot, VmmBuild } from '../src/options.ts';
import { connectPort } from '../src/port-stream.ts';
import { Qmp } from '../src/qmp.ts';
import { connectUnix } from '../src/sockets.ts';
import { measureTscKhz } from '../src/tsc.ts';

export interface PlainMachine extends GuestBoot {
  readonly vmm: VmmBuild;
  readonly accelerator: Accelerator;
  readonly size: Size;
  /** Only to measure the rate of the TSC. */
  readonly launcher: string;
}

export interface PlainDisk {
  readonly path: string;
  readonly format: 'raw' | 'qcow2';
}

const START_LIMIT_MS = 15_000;
const LIMIT_MS = 120_000;
const UNLIMITED_BYTES_PER_SECOND = 1e12;

let started = 0;

export class PlainVm {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly #qmp: Qmp;
  readonly #sockets: string;

  private constructor(child: ChildProcess, exited: Promise<unknown>, qmp: Qmp, sockets: string) {
    this.#child = child;
    this.#exited = exited;
    this.#qmp = qmp;
    this.#sockets = sockets;
  }

  /** Boots the guest from its disk. Sockets are made in `folder`. */
  static async boot(machine: PlainMachine, disk: PlainDisk, folder: string): Promise<PlainVm> {
    const tscKhz = await measureTscKhz(machine.launcher);
    const boot = ['-kernel', machine.kernel.vmlinux, '-initrd', machine.initramfs.path];
    return PlainVm.#start(machine, disk, folder, [
      ...boot,
      ...['-append', kernelCommandLine(machine.accelerator, tscKhz)],
    ]);
  }

  /** A new process that takes on the state in a file; returns when its vCPUs run. */
  static async load(machine: PlainMachine, disk: PlainDisk, folder: string, statePath: string): Promise<PlainVm> {
    const vm = await PlainVm.#start(machine, disk, folder, ['-S', '-incoming', 'defer']);
    await vm.#migrate('migrate-incoming', statePath);
    await vm.resume();
    return vm;
  }

  static async #start(machine: PlainMachine, disk: PlainDisk, folder: string, how: string[]): Promise<PlainVm> {
    const sockets = `${folder}/plain-${started++}`;
    const { vmm, accelerator, size } = machine;
    const argv = [
      ...[...vmm.argv, ...hardware(accelerator), '-m', `${size.memoryMib}M`, '-smp', String(size.vcpus)],
      ...['-drive', `if=none,id=disk,file=${disk.path},format=${disk.format},discard=unmap,detect-zeroes=unmap`],
      ...['-device', 'virtio-blk-device,drive=disk', '-device', 'virtio-serial-device,max_ports=3'],
      ...['-chardev', 'null,id=console', '-serial', 'chardev:console'],
      ...port(sockets, 'control', 1),
      ...port(sockets, 'traffic', 2),
      ...['-qmp', `unix:${sockets}.qmp,server=on,wait=off`],
      ...how,
    ];
    const child = spawn(argv[0] ?? '', argv.slice(1), { stdio: ['ignore', 'ignore', 'inherit'] });
    const exited = once(child, 'exit');
    try {
      return new PlainVm(child, exited, await connectQmp(`${sockets}.qmp`, child), sockets);
    } catch (thrown) {
      child.kill('SIGKILL');
      throw thrown;
    }
  }

  connect(name: GuestPort): Promise<Duplex> {
    return connectPort(`${this.#sockets}.${name}`);
  }

  async stop(): Promise<void> {
    await this.#qmp.execute('stop');
  }

  async resume(): Promise<void> {
    await this.#qmp.execute('cont');
  }

  /** All of memory and device state into a file, which is on the disk when this returns. The vCPUs must be stopped. */
  async migrateTo(statePath: string): Promise<void> {
    await this.#migrate('migrate', statePath);
    await using state = await open(statePath, 'r');
    await state.datasync();
  }

  async #migrate(command: 'migrate' | 'migrate-incoming', statePath: string): Promise<void> {
    await this.#qmp.execute('migrate-set-capabilities', { capabilities: [{ capability: 'events', state: true }] });
    await this.#qmp.execute('migrate-set-parameters', { 'max-bandwidth': UNLIMITED_BYTES_PER_SECOND });
    const completed = this.#qmp.waitFor(
      'the end of the migration',
      ({ name, data: { status } }) =>
        name === 'MIGRATION' && (status === 'completed' || status === 'failed') ? status : undefined,
      AbortSignal.timeout(LIMIT_MS),
    );
    await this.#qmp.execute(command, { uri: `file:${statePath}` });
    const status = await completed;
    if (status !== 'completed') throw new Error(`${command} ended as ${status}`);
  }

  /** Into the qcow2 disk; the vCPUs stand still for all of it. */
  saveInDisk(name: string): Promise<void> {
    return this.#monitor(`savevm ${name}`);
  }

  loadFromDisk(name: string): Promise<void> {
    return this.#monitor(`loadvm ${name}`);
  }

  deleteInDisk(name: string): Promise<void> {
    return this.#monitor(`delvm ${name}`);
  }

  async #monitor(line: string): Promise<void> {
    const said = await this.#qmp.execute('human-monitor-command', { 'command-line': line }, LIMIT_MS);
    if (said !== '') throw new Error(`${line}: ${said}`);
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
    this.#qmp.close();
  }
}

/** An empty qcow2 over a raw disk, made by QEMU itself. */
export async function makeOverlay(machine: PlainMachine, base: string, path: string, sizeBytes: number): Promise<void> {
  const socket = `${path}.qmp`;
  const argv = [...machine.vmm.argv, '-M', 'none', '-nodefaults', '-display', 'none'];
  const qmpArgv = ['-qmp', `unix:${socket},server=on,wait=off`];
  const child = spawn(argv[0] ?? '', [...argv.slice(1), ...qmpArgv], { stdio: ['ignore', 'ignore', 'inherit'] });
  const exited = once(child, 'exit');
  const qmp = await connectQmp(socket, child);
  const job = async (id: string, options: Readonly<Record<string, unknown>>) => {
    const ended = qmp.waitFor(
      `the job ${id}`,
      ({ name, data }) => (name === 'JOB_STATUS_CHANGE' && data['status'] === 'concluded' ? true : undefined),
      AbortSignal.timeout(START_LIMIT_MS),
    );
    await qmp.execute('blockdev-create', { 'job-id': id, options });
    await ended;
    await qmp.execute('job-dismiss', { id });
  };
  await job('file', { driver: 'file', filename: path, size: 0 });
  await qmp.execute('blockdev-add', { driver: 'file', 'node-name': 'file', filename: path });
  await job('qcow2', { driver: 'qcow2', file: 'file', size: sizeBytes, 'backing-file': base, 'backing-fmt': 'raw' });
  await qmp.execute('quit');
  await exited;
}

function port(sockets: string, name: GuestPort, number: number): string[] {
  const chardev = `socket,id=${name},path=${sockets}.${name},server=on,wait=off`;
  return ['-chardev', chardev, '-device', `virtserialport,chardev=${name},name=${name},nr=${number}`];
}

async function connectQmp(path: string, child: ChildProcess): Promise<Qmp> {
  const deadline = performance.now() + START_LIMIT_MS;
  for (;;) {
    try {
      return await Qmp.open(await connectUnix(path));
    } catch (thrown) {
      if (child.exitCode !== null || performance.now() > deadline) throw thrown;
      await sleep(1);
    }
  }
}
