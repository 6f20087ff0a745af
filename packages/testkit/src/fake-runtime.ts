/**
 * A runtime without VMs: each "machine" is a small program in this process whose whole state lives where a real VM's
 * does, in the memory file, the disk file and the device state. It comes in both kinds of memory:
 *
 * - `in_place`: RAM is the memory file; a checkpoint leaves it alone, and the file is right whenever the VM stands still;
 * - `written`: RAM is private; the memory file is right only after a checkpoint.
 *
 * A test that passes on both makes no assumption about when memory reaches the file.
 */
import { Duplex } from 'node:stream';
import {
  AppError,
  type LifeId,
  type MachineFacts,
  type RestoreOptions,
  type Runtime,
  type Vm,
  type VmEnd,
  type VmRecord,
  type VmSpec,
  type VmUsage,
} from '@space/core';
import { FakeOutgoing } from './fake-egress.ts';
import { emptyMachine, type MachineState } from './fake-machine.ts';
import { type FakeStorage, REAL_FOLDERS } from './fake-storage.ts';
import { Faults } from './faults.ts';

const FACTS: MachineFacts = {
  runtime: 'fake',
  vmmBuild: 'fake-1',
  machine: 'fake',
  cpuModel: 'fake',
  accelerator: 'tcg',
  kernelDigest: 'fake',
  initramfsDigest: 'fake',
};

export class FakeRuntime implements Runtime {
  readonly memory: 'in_place' | 'written';
  readonly machine: MachineFacts;
  readonly machines: readonly MachineFacts[];
  readonly faults: Faults;
  readonly storage: FakeStorage;
  /** VMs that are alive, whoever started them: they outlive a runtime that was closed. */
  readonly alive: Map<LifeId, FakeVm>;

  constructor(
    memory: 'in_place' | 'written',
    faults = new Faults(),
    alive = new Map<LifeId, FakeVm>(),
    machine: Partial<MachineFacts> = {},
    earlierBuilds: readonly string[] = [],
    storage: FakeStorage = REAL_FOLDERS,
  ) {
    this.storage = storage;
    this.machine = { ...FACTS, ...machine };
    this.machines = [this.machine, ...earlierBuilds.map((vmmBuild) => ({ ...this.machine, vmmBuild }))];
    this.memory = memory;
    this.faults = faults;
    this.alive = alive;
  }

  async boot(spec: VmSpec): Promise<Vm> {
    await this.faults.at('runtime.boot');
    return this.#launch(spec, emptyMachine(), true, this.machine);
  }

  async restore(spec: VmSpec, deviceState: Uint8Array, { machine = this.machine }: RestoreOptions = {}): Promise<Vm> {
    await this.faults.at('runtime.restore');
    if (Buffer.from(deviceState).toString() !== deviceStateOf(machine)) {
      throw new AppError('restore_failed', 'The device state is not one of this build.');
    }
    const text = this.storage.read(spec.files.memory).toString().replaceAll('\0', '');
    return this.#launch(spec, JSON.parse(text) as MachineState, false, machine);
  }

  async survivors(): Promise<readonly VmRecord[]> {
    return [...this.alive.values()].map((vm) => vm.record);
  }

  async adopt(record: VmRecord): Promise<Vm | null> {
    await this.faults.at('runtime.adopt');
    return this.alive.get(record.lifeId) ?? null;
  }

  async close(): Promise<void> {}

  #launch(spec: VmSpec, state: MachineState, running: boolean, machine: MachineFacts): FakeVm {
    for (const other of this.alive.values()) {
      if (other.spec.files.disk === spec.files.disk) throw new Error('two VMs opened one writable image');
    }
    const vm = new FakeVm(this, spec, state, running, machine);
    this.alive.set(spec.lifeId, vm);
    return vm;
  }
}

/** A build loads its own only. */
function deviceStateOf({ vmmBuild }: MachineFacts): string {
  return `fake device state of ${vmmBuild}`;
}

export class FakeVm implements Vm {
  readonly record: VmRecord;
  readonly machine: MachineFacts;
  readonly spec: VmSpec;
  readonly ended: Promise<VmEnd>;
  running: boolean;
  starved = false;
  /** To its disk so far. */
  writtenBytes = 0;
  readonly outgoing = new FakeOutgoing();
  /** What its agent was told to trust last. */
  trust: string | undefined;
  /** RAM. */
  readonly state: MachineState;
  readonly #runtime: FakeRuntime;
  #cpuMs = 0;
  readonly #end = Promise.withResolvers<VmEnd>();

  constructor(
    runtime: FakeRuntime,
    spec: VmSpec,
    state: MachineState,
    running: boolean,
    machine: MachineFacts = runtime.machine,
  ) {
    this.machine = machine;
    this.#runtime = runtime;
    this.spec = spec;
    this.state = state;
    this.running = running;
    this.record = { lifeId: spec.lifeId, pid: 1, startTime: '0', runDir: '/nowhere' };
    this.ended = this.#end.promise;
  }

  get faults(): Faults {
    return this.#runtime.faults;
  }

  get storage(): FakeStorage {
    return this.#runtime.storage;
  }

  get alive(): boolean {
    return this.#runtime.alive.get(this.spec.lifeId) === this;
  }

  async run(): Promise<void> {
    await this.faults.at('vm.run');
    this.#assertAlive();
    this.starved = false;
    this.running = true;
  }

  async stop(): Promise<void> {
    await this.faults.at('vm.stop');
    this.#assertAlive();
    this.running = false;
    if (this.#runtime.memory === 'in_place') this.#writeMemory();
  }

  async checkpoint(): Promise<Uint8Array> {
    await this.faults.at('vm.checkpoint');
    this.#assertAlive();
    if (this.running) throw new Error('a checkpoint needs a stopped VM');
    if (this.#runtime.memory === 'written') this.#writeMemory();
    return Buffer.from(deviceStateOf(this.machine));
  }

  async connect(): Promise<Duplex> {
    this.#assertAlive();
    return new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  }

  console(): string {
    return '';
  }

  async usage(): Promise<VmUsage> {
    await this.faults.at('vm.usage');
    this.#assertAlive();
    this.#cpuMs += 1;
    return { cpuMs: this.#cpuMs, memoryBytes: 4096 };
  }

  async diskWrittenBytes(): Promise<number> {
    return this.writtenBytes;
  }

  async kill(): Promise<void> {
    await this.faults.at('vm.kill');
    this.die('killed', 'killed');
  }

  async release(): Promise<void> {}

  /** Ends the VM as a crash would, when the cause is `exited`. */
  die(cause: VmEnd['cause'] = 'exited', detail = 'the VMM exited with code 1'): void {
    if (!this.alive) return;
    this.#runtime.alive.delete(this.spec.lifeId);
    this.running = false;
    this.#end.resolve({ cause, detail });
  }

  #writeMemory(): void {
    this.storage.write(this.spec.files.memory, JSON.stringify(this.state));
  }

  #assertAlive(): void {
    if (!this.alive) throw new AppError('vm_lost', 'The VM has ended.');
  }
}
