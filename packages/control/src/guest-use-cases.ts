/** The use-cases that reach into a sandbox. All but the list of processes wake a paused one. */
import { type Caller, type Input, type OpenFile, SHELL_ARGV, SIGNALS, type StartedProcess } from '@space/contract';
import {
  AppError,
  type FileStatus,
  type GuestCommand,
  type GuestProcess,
  newId,
  type ProcessEvent,
  type SandboxId,
} from '@space/core';
import { sendInput } from './input.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';
import { stoppable } from './streams.ts';

/** A pause may come between the wake and the call; after so many in a row the caller is told. */
const MAX_WAKES = 3;

export class GuestUseCases {
  readonly #machinery: Machinery;
  readonly #sandboxes: LifecycleUseCases;

  constructor(machinery: Machinery, sandboxes: LifecycleUseCases) {
    this.#machinery = machinery;
    this.#sandboxes = sandboxes;
  }

  exec(caller: Caller, input: Input<'exec'>): AsyncIterable<ProcessEvent> {
    const { node, chance } = this.#machinery.ports;
    return this.#events(caller, input.id, (sandbox, signal) =>
      node.exec(sandbox.id, commandOf(sandbox, input, newId('process', chance)), signal),
    );
  }

  async startProcess(caller: Caller, input: Input<'startProcess'>): Promise<StartedProcess> {
    // Leaving the stream leaves the command running.
    for await (const event of this.exec(caller, input)) {
      if (event.kind === 'started') return { processId: event.processId, pid: event.pid };
    }
    throw new AppError('agent_lost', 'A command began without being started.');
  }

  attachProcess(caller: Caller, { id, ...position }: Input<'attachProcess'>): AsyncIterable<ProcessEvent> {
    const { node } = this.#machinery.ports;
    return this.#events(caller, id, (sandbox, signal) => node.attach(sandbox.id, position, signal));
  }

  async writeInput({ signal }: Caller, input: Input<'writeInput'>, body: AsyncIterable<Uint8Array>) {
    const { node } = this.#machinery.ports;
    const acceptedBytes = await sendInput(input, body, signal, (piece) =>
      this.#awake(input.id, signal, (sandboxId) => node.writeInput(sandboxId, piece)),
    );
    return { acceptedBytes };
  }

  async resizeTerminal({ signal }: Caller, { id, processId, ...size }: Input<'resizeTerminal'>): Promise<void> {
    const { node } = this.#machinery.ports;
    await this.#awake(id, signal, (sandboxId) => node.resizeTerminal(sandboxId, processId, size));
  }

  async listProcesses(_caller: Caller, { id, ended }: Input<'listProcesses'>): Promise<readonly GuestProcess[]> {
    const sandbox = await this.#sandboxes.find(id);
    if (sandbox.settled === 'crashed') throw new AppError('vm_lost', sandbox.crash?.detail ?? 'The microVM ended.');
    if (sandbox.settled !== 'running') throw new AppError('wrong_state', `The sandbox is ${sandbox.settled}.`);
    return this.#machinery.ports.node.processes(sandbox.id, { ended });
  }

  async signalProcess({ signal }: Caller, input: Input<'signalProcess'>): Promise<void> {
    const { node } = this.#machinery.ports;
    await this.#awake(input.id, signal, (id) =>
      node.signalProcess(id, input.processId, SIGNALS[input.signal], input.target),
    );
  }

  readFile({ signal }: Caller, { id, ...file }: Input<'readFile'>): Promise<OpenFile> {
    return this.#awake(id, signal, (sandboxId) => this.#machinery.ports.node.readFile(sandboxId, file, signal));
  }

  async writeFile({ signal }: Caller, { id, ...file }: Input<'writeFile'>, body: AsyncIterable<Uint8Array>) {
    // The body can be read once, so a second attempt is the caller's.
    const { id: sandboxId } = await this.#wake(id, signal);
    return this.#machinery.ports.node.writeFile(sandboxId, file, body, signal);
  }

  statFile({ signal }: Caller, { id, ...file }: Input<'statFile'>): Promise<FileStatus> {
    return this.#awake(id, signal, (sandboxId) => this.#machinery.ports.node.stat(sandboxId, file));
  }

  listFiles(caller: Caller, { id, ...directory }: Input<'listFiles'>): AsyncIterable<FileStatus> {
    const { node } = this.#machinery.ports;
    const wake = (signal: AbortSignal) => this.#wake(id, signal);
    return stoppable(caller.signal, async function* (signal) {
      const sandbox = await wake(signal);
      for await (const entry of node.list(sandbox.id, directory)) {
        signal.throwIfAborted();
        yield entry;
      }
    });
  }

  /** The stream of a command. One that was refused because of a pause, before its first event, is opened again. */
  #events(
    caller: Caller,
    reference: string,
    open: (sandbox: RecordedSandbox, signal: AbortSignal) => AsyncIterable<ProcessEvent>,
  ): AsyncIterable<ProcessEvent> {
    const wake = (signal: AbortSignal) => this.#wake(reference, signal);
    return stoppable(caller.signal, async function* (signal) {
      for (let wakes = 1; ; wakes++) {
        const sandbox = await wake(signal);
        let started = false;
        try {
          for await (const event of open(sandbox, signal)) {
            started = true;
            yield event;
          }
          return;
        } catch (thrown) {
          if (started || wakes >= MAX_WAKES || !wasPaused(thrown)) throw thrown;
        }
      }
    });
  }

  async #awake<T>(reference: string, signal: AbortSignal, use: (sandboxId: SandboxId) => Promise<T>): Promise<T> {
    for (let wakes = 1; ; wakes++) {
      const { id } = await this.#wake(reference, signal);
      try {
        return await use(id);
      } catch (thrown) {
        if (wakes >= MAX_WAKES || !wasPaused(thrown)) throw thrown;
      }
    }
  }

  async #wake(reference: string, signal: AbortSignal): Promise<RecordedSandbox> {
    const { driver, effects } = this.#machinery;
    const { id } = await this.#sandboxes.find(reference);
    const { sandbox } = await driver.perform(id, 'use', effects.resume(), signal);
    return sandbox;
  }
}

/** Nothing was done: the node refuses before it acts when nothing runs. */
function wasPaused(thrown: unknown): boolean {
  return thrown instanceof AppError && thrown.code === 'wrong_state';
}

function commandOf(sandbox: RecordedSandbox, input: Input<'exec'>, processId: GuestCommand['processId']): GuestCommand {
  const { id: _, command = '', argv = [...SHELL_ARGV, command], env, ...rest } = input;
  return { ...rest, processId, argv, env: { ...sandbox.env, ...env } };
}
