/** The use-cases that reach into a sandbox. All but the list of processes wake a paused one. */
import { type ExecEvent, type Input, type OpenFile, type ProcessList, SHELL_ARGV, SIGNALS } from '@space/contract';
import { AppError, type FileStatus, type GuestCommand, newId, type ProcessId, type SandboxId } from '@space/core';
import { runCommand } from './exec.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { IdempotentCalls } from './idempotency.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';
import { stoppable } from './streams.ts';

/** A pause may come between the wake and the call; after so many in a row the caller is told. */
const MAX_WAKES = 3;

export class GuestUseCases {
  readonly #machinery: Machinery;
  readonly #sandboxes: LifecycleUseCases;
  readonly #calls: IdempotentCalls;

  constructor(machinery: Machinery, sandboxes: LifecycleUseCases, calls: IdempotentCalls) {
    this.#calls = calls;
    this.#machinery = machinery;
    this.#sandboxes = sandboxes;
  }

  exec(caller: GatedCaller, input: Input<'exec'>): AsyncIterable<ExecEvent> {
    return stoppable(caller.signal, (signal) => this.#execOnce({ ...caller, signal }, input));
  }

  async listProcesses(caller: GatedCaller, input: Input<'listProcesses'>): Promise<ProcessList> {
    const sandbox = await this.#sandboxes.find(caller, input.id);
    if (sandbox.settled === 'crashed') throw new AppError('vm_lost', sandbox.crash?.detail ?? 'The microVM ended.');
    if (sandbox.settled !== 'running') throw new AppError('wrong_state', `The sandbox is ${sandbox.settled}.`);
    const processes = await this.#machinery.ports.node.processes(sandbox.id);
    return { processes: processes.map((one) => ({ ...one, argv: [...one.argv] })) };
  }

  async signalProcess(caller: GatedCaller, input: Input<'signalProcess'>): Promise<void> {
    await this.#awake(caller, input.id, (id) =>
      this.#machinery.ports.node.signalTree(id, input.processId, SIGNALS[input.signal]),
    );
  }

  readFile(caller: GatedCaller, { id, ...file }: Input<'readFile'>): Promise<OpenFile> {
    const { node } = this.#machinery.ports;
    return this.#awake(caller, id, (sandboxId) => node.readFile(sandboxId, file, caller.signal));
  }

  async writeFile(caller: GatedCaller, { id, ...file }: Input<'writeFile'>, body: AsyncIterable<Uint8Array>) {
    // The body can be read once, so a second attempt is the caller's.
    const { id: sandboxId } = await this.#wake(caller, id);
    return this.#machinery.ports.node.writeFile(sandboxId, file, body, caller.signal);
  }

  statFile(caller: GatedCaller, { id, ...file }: Input<'statFile'>): Promise<FileStatus> {
    return this.#awake(caller, id, (sandboxId) => this.#machinery.ports.node.stat(sandboxId, file));
  }

  listFiles(caller: GatedCaller, { id, ...directory }: Input<'listFiles'>): AsyncIterable<FileStatus> {
    const { node } = this.#machinery.ports;
    const wake = (signal: AbortSignal) => this.#wake({ ...caller, signal }, id);
    return stoppable(caller.signal, async function* (signal) {
      const sandbox = await wake(signal);
      for await (const entry of node.list(sandbox.id, directory)) {
        signal.throwIfAborted();
        yield entry;
      }
    });
  }

  /** A repetition of the call is told that the command was started, and which process it is. */
  async *#execOnce(caller: GatedCaller, input: Input<'exec'>): AsyncGenerator<ExecEvent, void> {
    const { before, started } = await this.#calls.begin('exec', caller, input);
    if (before !== null) {
      const { processId } = before as { readonly processId: ProcessId };
      throw new AppError('already_started', { detail: `The call started ${processId}.`, facts: { processId } });
    }
    try {
      for await (const event of this.#exec(caller, input)) {
        if (event.kind === 'started') started.resolve({ processId: event.processId });
        yield event;
      }
    } catch (thrown) {
      started.reject(thrown);
      throw thrown;
    } finally {
      started.reject(new AppError('link_lost', 'The stream was closed before the command started.'));
    }
  }

  async *#exec(caller: GatedCaller, input: Input<'exec'>): AsyncGenerator<ExecEvent, void> {
    const { node, chance } = this.#machinery.ports;
    const { signal } = caller;
    for (let wakes = 1; ; wakes++) {
      const sandbox = await this.#wake(caller, input.id);
      const command = commandOf(sandbox, input, newId('process', chance));
      let started = false;
      try {
        for await (const event of runCommand(node, sandbox.id, command, input.timeoutMs, signal)) {
          started = true;
          yield event;
        }
        return;
      } catch (thrown) {
        if (started || wakes >= MAX_WAKES || !wasPaused(thrown)) throw thrown;
      }
    }
  }

  async #awake<T>(caller: GatedCaller, reference: string, use: (sandboxId: SandboxId) => Promise<T>): Promise<T> {
    for (let wakes = 1; ; wakes++) {
      const { id } = await this.#wake(caller, reference);
      try {
        return await use(id);
      } catch (thrown) {
        if (wakes >= MAX_WAKES || !wasPaused(thrown)) throw thrown;
      }
    }
  }

  async #wake(caller: GatedCaller, reference: string): Promise<RecordedSandbox> {
    const { driver, effects } = this.#machinery;
    const { id } = await this.#sandboxes.find(caller, reference);
    const { sandbox } = await driver.perform(id, 'use', effects.resume(), caller);
    return sandbox;
  }
}

/** Nothing was done: the node refuses before it acts when nothing runs. */
function wasPaused(thrown: unknown): boolean {
  return thrown instanceof AppError && thrown.code === 'wrong_state';
}

function commandOf(sandbox: RecordedSandbox, input: Input<'exec'>, processId: GuestCommand['processId']): GuestCommand {
  const argv = input.argv ?? [...SHELL_ARGV, input.command ?? ''];
  return {
    processId,
    argv,
    env: { ...sandbox.env, ...input.env },
    ...(input.cwd === undefined ? {} : { cwd: input.cwd }),
    ...(input.user === undefined ? {} : { user: input.user }),
  };
}
