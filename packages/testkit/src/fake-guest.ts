/**
 * The agent of a fake VM. Its shell knows five commands, enough to see what became of memory and disk:
 * `true`, `exit N`, `set NAME VALUE` and `get NAME` (memory), `hostname`. Each ends at once and takes no input. Files lie
 * in the fake disk.
 */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import {
  AppError,
  type FilePath,
  type FileRange,
  type FileStatus,
  type Guest,
  type GuestCommand,
  type GuestIdentity,
  type NewFile,
  type OutputPosition,
  type ProcessEvent,
  type ProcessId,
  type ProcessInput,
  type Vm,
} from '@space/core';
import type { MachineState } from './fake-machine.ts';
import { FakeVm } from './fake-runtime.ts';

export async function connectFakeGuest(vm: Vm): Promise<Guest> {
  if (!(vm instanceof FakeVm)) throw new Error('a fake guest needs a fake VM');
  await vm.faults.at('guest.connect');
  return new FakeGuest(vm);
}

class FakeGuest implements Guest {
  readonly closed: Promise<string>;
  readonly #vm: FakeVm;
  readonly #end = Promise.withResolvers<string>();

  constructor(vm: FakeVm) {
    this.#vm = vm;
    this.closed = this.#end.promise;
    void vm.ended.then(() => this.#end.resolve('the VM ended'));
  }

  async hello() {
    const state = await this.#call('hello');
    return { agentVersion: 'fake', frozen: state.frozen };
  }

  async freeze(): Promise<void> {
    (await this.#call('freeze')).frozen = true;
  }

  async assumeIdentity(identity: GuestIdentity): Promise<void> {
    const { sandboxId, generation, hostname, machineId } = identity;
    (await this.#call('assumeIdentity')).identity = { sandboxId, generation, hostname, machineId };
  }

  async thaw(): Promise<void> {
    (await this.#call('thaw')).frozen = false;
  }

  async *exec(command: GuestCommand): AsyncIterable<ProcessEvent> {
    const state = await this.#call('exec');
    if (state.frozen) throw new AppError('command_not_started', 'frozen');
    const [verb, name = '', value = ''] = wordsOf(command.argv);
    if (verb === 'set') state.variables[name] = value;
    let stdout = '';
    if (verb === 'get') stdout = state.variables[name] ?? '';
    if (verb === 'hostname') stdout = state.identity?.hostname ?? 'nobody';
    const ended = { stdout: Buffer.from(stdout).toString('base64'), code: verb === 'exit' ? Number(name) : 0 };
    state.ended = Object.fromEntries(
      [...Object.entries(state.ended), [command.processId, ended] as const].slice(-KEPT),
    );
    yield* eventsOf({ processId: command.processId, stdoutOffset: 0, stderrOffset: 0 }, ended);
  }

  async *attach(at: OutputPosition): AsyncIterable<ProcessEvent> {
    const state = await this.#call('attach');
    const ended = state.ended[at.processId];
    if (ended === undefined) throw noProcess(at.processId);
    yield* eventsOf(at, ended);
  }

  async writeInput({ processId }: ProcessInput): Promise<never> {
    const state = await this.#call('writeInput');
    if (state.ended[processId] === undefined) throw noProcess(processId);
    throw new AppError('input_closed', 'Commands of a fake guest take no input.');
  }

  async resizeTerminal(processId: ProcessId): Promise<void> {
    await this.writeInput({ processId, data: new Uint8Array(), eof: false });
  }

  async signalProcess(processId: ProcessId): Promise<void> {
    await this.#call('signalProcess');
    throw noProcess(processId);
  }

  async processes() {
    await this.#call('processes');
    return [];
  }

  async readFile(file: FileRange) {
    await this.#call('readFile');
    const content = this.#disk()[file.path];
    if (content === undefined) throw new AppError('file_not_found', `There is no ${file.path}.`);
    const bytes = Buffer.from(content, 'base64');
    const range = bytes.subarray(
      file.offset ?? 0,
      file.length === undefined ? undefined : (file.offset ?? 0) + file.length,
    );
    return { status: statusOf(file.path, bytes.length), body: once(range) };
  }

  async writeFile(file: NewFile, body: AsyncIterable<Uint8Array>) {
    await this.#call('writeFile');
    const bytes = Buffer.concat(await Array.fromAsync(body));
    await this.#call('writeFile.commit');
    const disk = this.#disk();
    disk[file.path] = bytes.toString('base64');
    writeFileSync(this.#vm.spec.files.disk, JSON.stringify(disk));
    return { sizeBytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
  }

  async stat(file: FilePath): Promise<FileStatus> {
    return (await this.readFile(file)).status;
  }

  async *list(): AsyncIterable<FileStatus> {
    await this.#call('list');
    for (const [path, content] of Object.entries(this.#disk())) {
      yield statusOf(path, Buffer.from(content, 'base64').length);
    }
  }

  async close(): Promise<void> {
    this.#end.resolve('closed');
  }

  async #call(name: string) {
    await this.#vm.faults.at(`guest.${name}`);
    if (!this.#vm.alive || !this.#vm.running) throw new AppError('link_lost', 'The VM does not run.');
    return this.#vm.state;
  }

  /** The disk holds JSON from its first byte on; the image that it was made from may be longer or empty. */
  #disk(): Record<string, string> {
    const text = readFileSync(this.#vm.spec.files.disk, 'utf8').replaceAll('\0', '');
    return text === '' ? {} : JSON.parse(text);
  }
}

/** How many ended commands are kept. */
const KEPT = 64;

function* eventsOf(
  { processId, stdoutOffset, stderrOffset }: OutputPosition,
  { stdout, code }: MachineState['ended'][string],
): Generator<ProcessEvent> {
  const bytes = Buffer.from(stdout, 'base64');
  if (stdoutOffset > bytes.length || stderrOffset > 0) throw new AppError('bad_request', 'It has not printed so much.');
  yield { kind: 'started', processId, pid: 100 };
  const data = bytes.subarray(stdoutOffset);
  if (data.length > 0) yield { kind: 'output', stream: 'stdout', offset: stdoutOffset, data };
  yield { kind: 'exited', exit: { code }, timedOut: false, oom: false };
}

function noProcess(processId: ProcessId): AppError {
  return new AppError('not_found', `There is no process ${processId}.`);
}

function wordsOf(argv: readonly string[]): string[] {
  return (argv[0] === '/bin/bash' ? (argv.at(-1) ?? '') : argv.join(' ')).split(' ');
}

async function* once(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

function statusOf(path: string, sizeBytes: number): FileStatus {
  return {
    name: path.split('/').at(-1) ?? path,
    type: 'file',
    sizeBytes,
    mode: 0o644,
    uid: 1000,
    gid: 1000,
    modifiedMs: 0,
  };
}
