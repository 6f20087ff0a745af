/** The use-cases of commands in a sandbox. All but the list of processes wake a paused one. */
import { type Caller, type Input, SHELL_ARGV, SIGNALS, type StartedProcess } from '@space/contract';
import { AppError, type GuestCommand, type GuestProcess, newId, type ProcessEvent } from '@space/core';
import { Awake, MAX_WAKES, wasPaused } from './awake.ts';
import { sendInput } from './input.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';
import { stoppable } from './streams.ts';

export class GuestUseCases {
  readonly #machinery: Machinery;
  readonly #sandboxes: LifecycleUseCases;
  readonly #awake: Awake;

  constructor(machinery: Machinery, sandboxes: LifecycleUseCases) {
    this.#machinery = machinery;
    this.#sandboxes = sandboxes;
    this.#awake = new Awake(machinery, sandboxes);
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
      this.#awake.use(input.id, signal, (sandboxId) => node.writeInput(sandboxId, piece)),
    );
    return { acceptedBytes };
  }

  async resizeTerminal({ signal }: Caller, { id, processId, ...size }: Input<'resizeTerminal'>): Promise<void> {
    const { node } = this.#machinery.ports;
    await this.#awake.use(id, signal, (sandboxId) => node.resizeTerminal(sandboxId, processId, size));
  }

  async listProcesses(_caller: Caller, { id, ended }: Input<'listProcesses'>): Promise<readonly GuestProcess[]> {
    const sandbox = await this.#sandboxes.find(id);
    if (sandbox.settled === 'crashed') throw new AppError('vm_lost', sandbox.crash?.detail ?? 'The microVM ended.');
    if (sandbox.settled !== 'running') throw new AppError('wrong_state', `The sandbox is ${sandbox.settled}.`);
    return this.#machinery.ports.node.processes(sandbox.id, { ended });
  }

  async signalProcess({ signal }: Caller, input: Input<'signalProcess'>): Promise<void> {
    const { node } = this.#machinery.ports;
    await this.#awake.use(input.id, signal, (id) =>
      node.signalProcess(id, input.processId, SIGNALS[input.signal], input.target),
    );
  }

  /** The stream of a command. One that was refused because of a pause, before its first event, is opened again. */
  #events(
    caller: Caller,
    reference: string,
    open: (sandbox: RecordedSandbox, signal: AbortSignal) => AsyncIterable<ProcessEvent>,
  ): AsyncIterable<ProcessEvent> {
    const awake = this.#awake;
    return stoppable(caller.signal, async function* (signal) {
      for (let wakes = 1; ; wakes++) {
        const sandbox = await awake.wake(reference, signal);
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
}

function commandOf(sandbox: RecordedSandbox, input: Input<'exec'>, processId: GuestCommand['processId']): GuestCommand {
  const { id: _, command = '', argv = [...SHELL_ARGV, command], env, ...rest } = input;
  return { ...rest, processId, argv, env: { ...sandbox.env, ...env } };
}
