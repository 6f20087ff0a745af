/** What is inside a fake node's VMs: a counter, files, and processes that understand six words. */
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

export class FakeGuestState {
  counter = 0;
  files = new FakeFiles();

  copy(): FakeGuestState {
    const copy = new FakeGuestState();
    copy.counter = this.counter;
    copy.files = this.files.copy();
    return copy;
  }

  /** The disk stays, the memory does not. */
  rebooted(): FakeGuestState {
    const copy = this.copy();
    copy.counter = 0;
    return copy;
  }
}

/** How many ended commands are kept. */
const KEPT = 64;

class FakeProcess {
  readonly command: GuestCommand;
  readonly pid: number;
  readonly startedMs = Date.now();
  stdinBytes = 0;
  isInputOpen: boolean;
  end: ProcessEnd | AppError | undefined;
  readonly #printed: Buffer[] = [];
  #news = Promise.withResolvers<void>();

  constructor(command: GuestCommand, pid: number) {
    this.command = command;
    this.pid = pid;
    this.isInputOpen = command.stdin === true || command.pty !== undefined;
  }

  get output(): Buffer {
    return Buffer.concat(this.#printed);
  }

  print(bytes: Uint8Array): void {
    this.#printed.push(Buffer.from(bytes));
    this.#wake();
  }

  finish(end: ProcessEnd | AppError): void {
    this.end ??= end;
    this.isInputOpen = false;
    this.#wake();
  }

  async *events({ processId, stdoutOffset, stderrOffset }: OutputPosition, signal?: AbortSignal) {
    if (stdoutOffset > this.output.length || stderrOffset > 0) {
      throw new AppError('bad_request', 'It has not printed so much.');
    }
    yield { kind: 'started', processId, pid: this.pid } as const;
    const aborted = Promise.withResolvers<void>();
    signal?.addEventListener('abort', () => aborted.resolve(), { once: true });
    for (let offset = stdoutOffset; ; ) {
      signal?.throwIfAborted();
      const { promise: news } = this.#news;
      const data = this.output.subarray(offset);
      if (data.length > 0) yield { kind: 'output', stream: 'stdout', offset, data } as const;
      offset += data.length;
      if (this.end instanceof AppError) throw this.end;
      if (this.end !== undefined && offset === this.output.length) {
        yield { kind: 'exited', ...this.end } as const;
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
  #all = new Map<ProcessId, FakeProcess>();
  readonly #used = new Set<ProcessId>();
  #lastPid = 100;

  run(guest: FakeGuestState, command: GuestCommand, signal?: AbortSignal): AsyncIterable<ProcessEvent> {
    if (this.#used.has(command.processId)) throw new AppError('name_taken', 'The process id was used before.');
    const process = new FakeProcess(command, ++this.#lastPid);
    const answer = answerTo(guest, command);
    this.#used.add(command.processId);
    this.#all.set(command.processId, process);
    process.print(Buffer.from(answer.output));
    if (answer.exit !== null) process.finish({ exit: answer.exit, timedOut: false, oom: false });
    else if (command.timeoutMs !== undefined) {
      const end = { exit: { signal: 9 }, timedOut: true, oom: false };
      setTimeout(() => process.finish(end), command.timeoutMs).unref();
    }
    const ended = [...this.#all].filter(([, { end }]) => end !== undefined);
    for (const [processId] of ended.slice(0, -KEPT)) this.#all.delete(processId);
    return process.events({ processId: command.processId, stdoutOffset: 0, stderrOffset: 0 }, signal);
  }

  attach(at: OutputPosition, signal?: AbortSignal): AsyncIterable<ProcessEvent> {
    return this.#get(at.processId).events(at, signal);
  }

  /** `cat` prints what it is given, and ends with it. */
  writeInput({ processId, offset, data, eof }: ProcessInput): number {
    const process = this.#get(processId);
    const start = offset ?? process.stdinBytes;
    if (start > process.stdinBytes) throw new AppError('bad_request', 'There is a gap.');
    const rest = data.subarray(process.stdinBytes - start);
    if (rest.length > 0 && !process.isInputOpen) throw new AppError('input_closed', 'It takes no input.');
    // A fake that takes little at a time shows whether the rest is sent again.
    const taken = rest.subarray(0, 1000);
    process.stdinBytes += taken.length;
    process.print(taken);
    if (eof && taken.length === rest.length) process.finish({ exit: { code: 0 }, timedOut: false, oom: false });
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
      .map(({ command, pid, startedMs, end, output, stdinBytes }) => ({
        processId: command.processId,
        pid,
        argv: command.argv,
        cwd: command.cwd ?? '/home/user',
        pty: command.pty !== undefined,
        startedMs,
        leaderAlive: end === undefined,
        liveProcesses: end === undefined ? 1 : 0,
        ...(end === undefined || end instanceof AppError ? {} : { end }),
        stdoutBytes: output.length,
        stderrBytes: 0,
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

function answerTo(guest: FakeGuestState, command: GuestCommand): { output: string; exit: ProcessExit | null } {
  const [word, argument = ''] = (command.argv.at(-1) ?? '').split(' ');
  switch (word) {
    case 'increment':
      guest.counter += 1;
      return { output: `${guest.counter}\n`, exit: { code: 0 } };
    case 'read':
      return { output: `${guest.counter}\n`, exit: { code: 0 } };
    case 'env':
      return { output: `${command.env[argument] ?? ''}\n`, exit: { code: 0 } };
    case 'exit':
      return { output: '', exit: { code: Number(argument) } };
    case 'cat':
    case 'forever':
      return { output: '', exit: null };
    default:
      throw new AppError('command_not_started', `The fake guest does not know "${word}".`);
  }
}
