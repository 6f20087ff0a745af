/**
 * What is inside a fake node's VMs: a counter, files, and processes. These understand four words (`answerTo`), the
 * programs that a test hands in, and a little shell.
 */
import {
  AppError,
  type GuestCommand,
  type GuestProcess,
  type OutputPosition,
  type ProcessEnd,
  type ProcessEvent,
  type ProcessExit,
  type ProcessId,
  type ProcessInput,
} from '@space/core';
import { FakeFiles } from './fake-files.ts';
import { type FakePrograms, runFakeProcess } from './fake-shell.ts';

export class FakeGuestState {
  counter = 0;
  files = new FakeFiles();
  /** The commands that have ended, as its agent remembers them. */
  ended: ReadonlyMap<ProcessId, FakeProcess> = new Map();

  copy(): FakeGuestState {
    const copy = new FakeGuestState();
    copy.counter = this.counter;
    copy.files = this.files.copy();
    copy.ended = this.ended;
    return copy;
  }

  /** The disk stays, the memory does not. */
  rebooted(): FakeGuestState {
    const copy = this.copy();
    copy.counter = 0;
    copy.ended = new Map();
    return copy;
  }
}

const STREAMS = ['stdout', 'stderr'] as const;

/** How many ended commands are kept. */
const KEPT = 64;

class FakeProcess {
  readonly command: GuestCommand;
  readonly pid: number;
  readonly startedMs = Date.now();
  stdinBytes = 0;
  isInputOpen: boolean;
  end: ProcessEnd | AppError | undefined;
  readonly #printed = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  readonly #given: Uint8Array[] = [];
  readonly #ended = new AbortController();
  #news = Promise.withResolvers<void>();

  constructor(command: GuestCommand, pid: number) {
    this.command = command;
    this.pid = pid;
    this.isInputOpen = command.stdin === true || command.pty !== undefined;
  }

  output(stream: 'stdout' | 'stderr' = 'stdout'): Buffer {
    return Buffer.concat(this.#printed[stream]);
  }

  print(bytes: Uint8Array | string, stream: 'stdout' | 'stderr' = 'stdout'): void {
    if (this.end !== undefined) return;
    // A terminal has one output.
    this.#printed[this.command.pty === undefined ? stream : 'stdout'].push(Buffer.from(bytes));
    this.#wake();
  }

  give(bytes: Uint8Array, eof: boolean): void {
    this.stdinBytes += bytes.length;
    this.#given.push(bytes);
    if (eof) this.isInputOpen = false;
    this.#wake();
  }

  finish(end: ProcessEnd | AppError): void {
    this.end ??= end;
    this.isInputOpen = false;
    this.#ended.abort();
    this.#wake();
  }

  /** Whether there is such a program, which then runs as this process. */
  runProgram(programs: FakePrograms, files: FakeFiles): boolean {
    const world = {
      command: this.command,
      files,
      input: this.#input(),
      signal: this.#ended.signal,
      print: (bytes: Uint8Array | string, stream?: 'stdout' | 'stderr') => this.print(bytes, stream),
    };
    const running = runFakeProcess(world, programs);
    if (running === undefined) return false;
    running.then(
      (code) => this.finish({ exit: { code }, timedOut: false, oom: false }),
      (error: unknown) => {
        this.print(`${error}\n`, 'stderr');
        this.finish({ exit: { code: 1 }, timedOut: false, oom: false });
      },
    );
    return true;
  }

  async *#input(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const { promise: news } = this.#news;
      const bytes = this.#given.shift();
      if (bytes !== undefined) yield bytes;
      else if (!this.isInputOpen) return;
      else await news;
    }
  }

  async *events({ processId, ...position }: OutputPosition, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    const offsets = { stdout: position.stdoutOffset, stderr: position.stderrOffset };
    if (STREAMS.some((stream) => offsets[stream] > this.output(stream).length)) {
      throw new AppError('bad_request', 'It has not printed so much.');
    }
    yield { kind: 'started', processId, pid: this.pid };
    const aborted = Promise.withResolvers<void>();
    signal?.addEventListener('abort', () => aborted.resolve(), { once: true });
    for (;;) {
      signal?.throwIfAborted();
      const { promise: news } = this.#news;
      for (const stream of STREAMS) {
        const data = this.output(stream).subarray(offsets[stream]);
        if (data.length > 0) yield { kind: 'output', stream, offset: offsets[stream], data };
        offsets[stream] += data.length;
      }
      if (this.end instanceof AppError) throw this.end;
      if (this.end !== undefined && STREAMS.every((stream) => offsets[stream] === this.output(stream).length)) {
        yield { kind: 'exited', ...this.end };
        return;
      }
      await Promise.race([news, aborted.promise]);
    }
  }

  #wake(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}

export class FakeProcesses {
  readonly #programs: FakePrograms;
  #all: Map<ProcessId, FakeProcess>;
  readonly #used: Set<ProcessId>;
  #lastPid = 100;

  constructor({ ended }: FakeGuestState, programs: FakePrograms = {}) {
    this.#programs = programs;
    this.#all = new Map(ended);
    this.#used = new Set(ended.keys());
  }

  /** What of them is in memory and stands still. */
  ended(): ReadonlyMap<ProcessId, FakeProcess> {
    return new Map([...this.#all].filter(([, { end }]) => end !== undefined && !(end instanceof AppError)));
  }

  run(guest: FakeGuestState, command: GuestCommand, signal?: AbortSignal): AsyncIterable<ProcessEvent> {
    if (this.#used.has(command.processId)) throw new AppError('name_taken', 'The process id was used before.');
    const process = new FakeProcess(command, ++this.#lastPid);
    this.#begin(process, guest);
    this.#used.add(command.processId);
    this.#all.set(command.processId, process);
    if (command.timeoutMs !== undefined) {
      const end = { exit: { signal: 9 }, timedOut: true, oom: false };
      setTimeout(() => process.finish(end), command.timeoutMs).unref();
    }
    const ended = [...this.#all].filter(([, { end }]) => end !== undefined);
    for (const [processId] of ended.slice(0, -KEPT)) this.#all.delete(processId);
    return process.events({ processId: command.processId, stdoutOffset: 0, stderrOffset: 0 }, signal);
  }

  #begin(process: FakeProcess, guest: FakeGuestState): void {
    const answer = answerTo(guest, process.command);
    if (answer === undefined) {
      if (process.runProgram(this.#programs, guest.files)) return;
      throw new AppError(
        'command_not_started',
        `ENOENT: exec: No such file or directory (the fake guest has no program "${process.command.argv[0]}")`,
      );
    }
    process.print(answer.output);
    if (answer.exit !== null) process.finish({ exit: answer.exit, timedOut: false, oom: false });
  }

  attach(at: OutputPosition, signal?: AbortSignal): AsyncIterable<ProcessEvent> {
    return this.#get(at.processId).events(at, signal);
  }

  writeInput({ processId, offset, data, eof }: ProcessInput): number {
    const process = this.#get(processId);
    const start = offset ?? process.stdinBytes;
    if (start > process.stdinBytes) throw new AppError('bad_request', 'There is a gap.');
    const rest = data.subarray(process.stdinBytes - start);
    if (rest.length > 0 && !process.isInputOpen) throw new AppError('input_closed', 'It takes no input.');
    // A fake that takes little at a time shows whether the rest is sent again.
    const taken = rest.subarray(0, 1000);
    const isEnd = eof && taken.length === rest.length;
    if (taken.length > 0 || isEnd) process.give(taken, isEnd);
    return process.stdinBytes;
  }

  resize(processId: ProcessId): void {
    if (this.#get(processId).command.pty === undefined) throw new AppError('input_closed', 'It has no terminal.');
  }

  signal(processId: ProcessId, signal: number): void {
    const process = this.#get(processId);
    if (process.end !== undefined) throw new AppError('not_found', `There is no process ${processId}.`);
    process.finish({ exit: { signal }, timedOut: false, oom: false });
  }

  list({ ended = false }: { readonly ended?: boolean } = {}): readonly GuestProcess[] {
    return [...this.#all.values()]
      .filter(({ end }) => ended || end === undefined)
      .map((process) => ({ process, ...process }))
      .map(({ process, command, pid, startedMs, end, stdinBytes }) => ({
        processId: command.processId,
        pid,
        argv: command.argv,
        cwd: command.cwd ?? '/home/user',
        pty: command.pty !== undefined,
        label: command.label ?? '',
        startedMs,
        leaderAlive: end === undefined,
        liveProcesses: end === undefined ? 1 : 0,
        ...(end === undefined || end instanceof AppError ? {} : { end }),
        stdoutBytes: process.output().length,
        stderrBytes: process.output('stderr').length,
        stdinBytes,
      }));
  }

  /** The VM is gone, and every stream with it, for that reason. */
  lose(reason: AppError): void {
    for (const process of this.#all.values()) process.finish(reason);
    this.#all.clear();
  }

  #get(processId: ProcessId): FakeProcess {
    const process = this.#all.get(processId);
    if (process === undefined) throw new AppError('not_found', `There is no process ${processId}.`);
    return process;
  }
}

/** Words that mean something to tests of what is around the guest; undefined for all others. */
function answerTo(
  guest: FakeGuestState,
  command: GuestCommand,
): { readonly output: string; readonly exit: ProcessExit | null } | undefined {
  const [word, argument = ''] = (command.argv.at(-1) ?? '').split(' ');
  switch (word) {
    case 'increment':
      guest.counter += 1;
      return { output: `${guest.counter}\n`, exit: { code: 0 } };
    case 'read':
      return { output: `${guest.counter}\n`, exit: { code: 0 } };
    case 'env':
      return { output: `${command.env[argument] ?? ''}\n`, exit: { code: 0 } };
    case 'forever':
      return { output: '', exit: null };
    default:
      return undefined;
  }
}
