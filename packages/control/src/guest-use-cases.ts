/** The use-cases of commands in a sandbox. All but the list of processes wake a paused one. */
import { type Input, SHELL_ARGV, SIGNALS, type StartedProcess } from '@space/contract';
import { AppError, type GuestCommand, type GuestProcess, newId, type ProcessEvent, type ProcessId } from '@space/core';
import { Awake } from './awake.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { IdempotentCalls } from './idempotency.ts';
import { sendInput } from './input.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';
import { stoppable } from './streams.ts';

export class GuestUseCases {
  readonly #machinery: Machinery;
  readonly #sandboxes: LifecycleUseCases;
  readonly #awake: Awake;
  readonly #calls: IdempotentCalls;

  constructor(machinery: Machinery, sandboxes: LifecycleUseCases, calls: IdempotentCalls) {
    this.#calls = calls;
    this.#machinery = machinery;
    this.#sandboxes = sandboxes;
    this.#awake = new Awake(machinery, sandboxes);
  }

  exec(caller: GatedCaller, input: Input<'exec'>): AsyncIterable<ProcessEvent> {
    return stoppable(caller.signal, (signal) => this.#execOnce({ ...caller, signal }, input));
  }

  async startProcess(caller: GatedCaller, input: Input<'startProcess'>): Promise<StartedProcess> {
    // Leaving the stream leaves the command running.
    for await (const event of this.#run(caller, input)) {
      if (event.kind === 'started') return { processId: event.processId, pid: event.pid };
    }
    throw new AppError('agent_lost', 'A command began without being started.');
  }

  attachProcess(caller: GatedCaller, { id, ...position }: Input<'attachProcess'>): AsyncIterable<ProcessEvent> {
    const { node } = this.#machinery.ports;
    return this.#awake.stream(caller, id, (sandbox, signal) => node.attach(sandbox.id, position, signal));
  }

  async writeInput(caller: GatedCaller, input: Input<'writeInput'>, body: AsyncIterable<Uint8Array>) {
    const { node } = this.#machinery.ports;
    const acceptedBytes = await sendInput(input, body, caller.signal, (piece) =>
      this.#awake.use(caller, input.id, (sandboxId) => node.writeInput(sandboxId, piece)),
    );
    return { acceptedBytes };
  }

  async resizeTerminal(caller: GatedCaller, { id, processId, ...size }: Input<'resizeTerminal'>): Promise<void> {
    const { node } = this.#machinery.ports;
    await this.#awake.use(caller, id, (sandboxId) => node.resizeTerminal(sandboxId, processId, size));
  }

  async listProcesses(caller: GatedCaller, { id, ended }: Input<'listProcesses'>): Promise<readonly GuestProcess[]> {
    const sandbox = await this.#sandboxes.find(caller, id);
    if (sandbox.settled === 'crashed') throw new AppError('vm_lost', sandbox.crash?.detail ?? 'The microVM ended.');
    if (sandbox.settled !== 'running') throw new AppError('wrong_state', `The sandbox is ${sandbox.settled}.`);
    return this.#machinery.ports.node.processes(sandbox.id, { ended });
  }

  async signalProcess(caller: GatedCaller, input: Input<'signalProcess'>): Promise<void> {
    const { node } = this.#machinery.ports;
    await this.#awake.use(caller, input.id, (id) =>
      node.signalProcess(id, input.processId, SIGNALS[input.signal], input.target),
    );
  }

  #run(caller: GatedCaller, input: Input<'exec'>): AsyncIterable<ProcessEvent> {
    const { ports, activity } = this.#machinery;
    return this.#awake.stream(caller, input.id, (sandbox, signal) => {
      const processId = newId('process', ports.chance);
      if (input.keepAwake === true) activity.keepAwake(sandbox.id, processId);
      return ports.node.exec(sandbox.id, commandOf(sandbox, input, processId), signal);
    });
  }

  /** A repetition of the call is told that the command was started, and which process it is: it can be attached to. */
  async *#execOnce(caller: GatedCaller, input: Input<'exec'>): AsyncGenerator<ProcessEvent, void> {
    const { before, started } = await this.#calls.begin('exec', caller, input);
    if (before !== null) {
      const { processId } = before as { readonly processId: ProcessId };
      throw new AppError('already_started', { detail: `The call started ${processId}.`, facts: { processId } });
    }
    try {
      for await (const event of this.#run(caller, input)) {
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
}

/** What the guest is asked to start. */
export function commandOf(sandbox: RecordedSandbox, input: Input<'exec'>, processId: ProcessId): GuestCommand {
  const { id: _, keepAwake: __, command = '', argv = [...SHELL_ARGV, command], env, ...rest } = input;
  return { ...rest, processId, argv, env: { ...sandbox.env, ...env } };
}
