/**
 * The agent of a fake VM. Its shell knows a few commands, enough to see what became of memory and disk: `true`, `exit N`,
 * `set NAME VALUE` and `get NAME` (memory), `hostname`; `mark TEXT` adds a line to a list in memory and to one on disk, and
 * `marks` prints both. Each ends at once and takes no input. Files lie in the fake disk.
 */
import {
  AppError,
  type FileAttributes,
  type FileMove,
  type FilePath,
  type FileRange,
  type Following,
  type Guest,
  type GuestBytes,
  type GuestCommand,
  type GuestIdentity,
  type NewDirectory,
  type NewFile,
  type OutputPosition,
  type ProcessEvent,
  type ProcessId,
  type ProcessInput,
  type Vm,
  type WatchEvent,
  type WatchedDirectory,
  type Xattr,
} from '@space/core';
import { FakeFiles } from './fake-files.ts';
import { emptyMachine, type MachineState } from './fake-machine.ts';
import { FakePorts } from './fake-ports.ts';
import { FakeVm } from './fake-runtime.ts';

export async function connectFakeGuest(vm: Vm): Promise<Guest> {
  if (!(vm instanceof FakeVm)) throw new Error('a fake guest needs a fake VM');
  await vm.faults.at('guest.connect');
  return new FakeGuest(vm);
}

class FakeGuest implements Guest {
  readonly closed: Promise<string>;
  readonly #vm: FakeVm;
  readonly #ports = new FakePorts();
  readonly #end = Promise.withResolvers<string>();

  constructor(vm: FakeVm) {
    this.#vm = vm;
    this.closed = this.#end.promise;
    void vm.ended.then(() => this.#end.resolve('the VM ended'));
    void this.closed.then((reason) => this.#ports.lose(new AppError('link_lost', reason)));
  }

  async hello() {
    const state = await this.#call('hello');
    return { agentVersion: 'fake', frozen: state.frozen };
  }

  async freeze(): Promise<void> {
    (await this.#call('freeze')).frozen = true;
  }

  async assumeIdentity(identity: GuestIdentity) {
    const { sandboxId, generation, hostname, machineId, isFresh } = identity;
    const state = await this.#call('assumeIdentity');
    state.identity = { sandboxId, generation, hostname, machineId };
    if (isFresh) state.ended = {};
    this.#vm.trust = identity.trust;
    return { hasMachineId: true };
  }

  async thaw(): Promise<void> {
    (await this.#call('thaw')).frozen = false;
  }

  async *exec(command: GuestCommand, signal?: AbortSignal): AsyncIterable<ProcessEvent> {
    const state = await unlessAborted(this.#call('exec'), signal);
    if (state.frozen) throw new AppError('command_not_started', 'frozen');
    if (state.ended[command.processId] !== undefined) {
      throw new AppError('name_taken', `There is a process ${command.processId}.`);
    }
    const [verb, name = '', value = ''] = wordsOf(command.argv);
    if (verb === 'set') state.variables[name] = value;
    let stdout = '';
    if (verb === 'get') stdout = state.variables[name] ?? '';
    if (verb === 'hostname') stdout = state.identity?.hostname ?? 'nobody';
    if (verb === 'mark') this.#mark(state, name);
    if (verb === 'marks') stdout = marksIn(state, this.#files());
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

  readFile(file: FileRange) {
    return this.#withFiles('readFile', (files) => files.readFile(file));
  }

  async writeFile(file: NewFile, body: AsyncIterable<Uint8Array>) {
    const bytes = await Array.fromAsync(body);
    await this.#call('writeFile');
    return this.#withFiles('writeFile.commit', (files) => files.writeFile(file, pieces(bytes)));
  }

  stat(file: FilePath & Following) {
    return this.#withFiles('stat', (files) => files.stat(file));
  }

  async *list(directory: FilePath & { readonly depth?: number }) {
    await this.#call('list');
    yield* this.#files().list(directory);
  }

  makeDirectory(directory: NewDirectory) {
    return this.#withFiles('makeDirectory', (files) => files.makeDirectory(directory));
  }

  moveFile(move: FileMove) {
    return this.#withFiles('moveFile', (files) => files.moveFile(move));
  }

  removeFile(file: FilePath & { readonly recursive?: boolean }) {
    return this.#withFiles('removeFile', (files) => files.removeFile(file));
  }

  setAttributes(attributes: FileAttributes) {
    return this.#withFiles('setAttributes', (files) => files.setAttributes(attributes));
  }

  makeSymlink(link: FilePath & { readonly target: GuestBytes }) {
    return this.#withFiles('makeSymlink', (files) => files.makeSymlink(link));
  }

  xattrs(file: FilePath & Following) {
    return this.#withFiles('xattrs', (files) => files.xattrs(file));
  }

  xattr(attribute: Xattr) {
    return this.#withFiles('xattr', (files) => files.xattr(attribute));
  }

  setXattr(attribute: Xattr, value: Uint8Array) {
    return this.#withFiles('setXattr', (files) => files.setXattr(attribute, value));
  }

  removeXattr(attribute: Xattr) {
    return this.#withFiles('removeXattr', (files) => files.removeXattr(attribute));
  }

  /** Of this channel's own changes nobody is told: each is made on the disk, and forgotten here. */
  async *watch(directory: WatchedDirectory, signal?: AbortSignal): AsyncIterable<WatchEvent> {
    await this.#call('watch');
    const files = this.#files();
    void this.closed.then((reason) => files.lose(new AppError('link_lost', reason)));
    yield* files.watch(directory, signal);
  }

  async openPort(port: number, signal?: AbortSignal) {
    await this.#call('openPort');
    return this.#ports.open(port, signal);
  }

  async *outgoing(signal?: AbortSignal) {
    const lost = this.closed.then((reason) => new AppError('link_lost', reason));
    for (;;) {
      const next = await this.#vm.outgoing.next(lost, signal);
      yield next;
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

  #mark(state: MachineState, text: string): void {
    const files = this.#files();
    state.variables[MARKS] = `${state.variables[MARKS] ?? ''}${text} `;
    files.setText(MARKS_PATH, `${files.textOf(MARKS_PATH)}${text} `);
    this.#vm.storage.write(this.#vm.spec.files.disk, files.toJson());
  }

  async #withFiles<T>(name: string, use: (files: FakeFiles) => Promise<T>): Promise<T> {
    await this.#call(name);
    const files = this.#files();
    const result = await use(files);
    this.#vm.storage.write(this.#vm.spec.files.disk, files.toJson());
    return result;
  }

  #files(): FakeFiles {
    return filesOn(this.#vm.storage.read(this.#vm.spec.files.disk));
  }
}

const MARKS = 'marks';
const MARKS_PATH = '/marks';

/** The reason of the signal, once it is aborted, in place of a result that has not come. */
async function unlessAborted<T>(result: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await result;
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  return await Promise.race([result, aborted.promise]).finally(() => signal.removeEventListener('abort', abort));
}

/** What `marks` prints of a machine: the list in memory and the one on disk. */
export function marksOf(memory: Uint8Array, disk: Uint8Array): string {
  const state = memory.length === 0 ? emptyMachine() : (JSON.parse(Buffer.from(memory).toString()) as MachineState);
  return marksIn(state, filesOn(disk));
}

function marksIn({ variables }: MachineState, files: FakeFiles): string {
  return `${variables[MARKS] ?? ''}| ${files.textOf(MARKS_PATH)}`;
}

/** The disk holds JSON from its first byte on; the image that it was made from may be longer or empty. */
function filesOn(disk: Uint8Array): FakeFiles {
  return FakeFiles.fromJson(Buffer.from(disk).toString().replaceAll('\0', ''));
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

async function* pieces(bytes: readonly Uint8Array[]): AsyncIterable<Uint8Array> {
  yield* bytes;
}
