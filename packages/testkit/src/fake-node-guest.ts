/** What is inside a fake node's VMs: a counter, files, and processes that understand five words. */
import {
  AppError,
  type GuestCommand,
  type GuestProcess,
  type ProcessEvent,
  type ProcessExit,
  type ProcessId,
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

export class FakeProcesses {
  readonly #running = new Map<
    ProcessId,
    { command: GuestCommand; pid: number; end(exit: ProcessExit | 'lost'): void }
  >();
  #lastPid = 100;

  async *run(guest: FakeGuestState, command: GuestCommand, signal?: AbortSignal): AsyncIterable<ProcessEvent> {
    const pid = ++this.#lastPid;
    const ended = Promise.withResolvers<ProcessExit | 'lost'>();
    const { processId } = command;
    this.#running.set(processId, { command, pid, end: ended.resolve });
    const answer = answerTo(guest, command);
    yield { kind: 'started', processId, pid };
    if (answer.output !== '') yield { kind: 'output', stream: 'stdout', data: Buffer.from(answer.output) };
    if (answer.exit !== null) ended.resolve(answer.exit);
    const aborted = Promise.withResolvers<'aborted'>();
    signal?.addEventListener('abort', () => aborted.resolve('aborted'), { once: true });
    if (signal?.aborted) aborted.resolve('aborted');
    const end = await Promise.race([ended.promise, aborted.promise]);
    if (end === 'aborted') throw signal?.reason;
    this.#running.delete(processId);
    if (end === 'lost') throw new AppError('vm_lost', 'The VM ended.');
    yield { kind: 'exited', exit: end };
  }

  signal(processId: ProcessId, signal: number): void {
    const running = this.#running.get(processId);
    if (running === undefined) throw new AppError('not_found', `There is no process ${processId}.`);
    running.end({ signal });
    this.#running.delete(processId);
  }

  list(): readonly GuestProcess[] {
    return [...this.#running].map(([processId, { command, pid }]) => ({
      processId,
      pid,
      argv: command.argv,
      leaderAlive: true,
    }));
  }

  /** The VM is gone, and every stream with it. */
  lose(): void {
    for (const { end } of this.#running.values()) end('lost');
    this.#running.clear();
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
    case 'forever':
      return { output: '', exit: null };
    default:
      throw new AppError('command_not_started', `The fake guest does not know "${word}".`);
  }
}
