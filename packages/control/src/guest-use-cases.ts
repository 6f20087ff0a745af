/** The use-cases of commands in a sandbox. All but the list of processes wake a paused one. */
import { type Caller, type ExecEvent, type Input, type ProcessList, SHELL_ARGV, SIGNALS } from '@space/contract';
import { AppError, type GuestCommand, newId } from '@space/core';
import { Awake, MAX_WAKES, wasPaused } from './awake.ts';
import { runCommand } from './exec.ts';
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

  exec(caller: Caller, input: Input<'exec'>): AsyncIterable<ExecEvent> {
    return stoppable(caller.signal, (signal) => this.#exec(input, signal));
  }

  async listProcesses(_caller: Caller, input: Input<'listProcesses'>): Promise<ProcessList> {
    const sandbox = await this.#sandboxes.find(input.id);
    if (sandbox.settled === 'crashed') throw new AppError('vm_lost', sandbox.crash?.detail ?? 'The microVM ended.');
    if (sandbox.settled !== 'running') throw new AppError('wrong_state', `The sandbox is ${sandbox.settled}.`);
    const processes = await this.#machinery.ports.node.processes(sandbox.id);
    return { processes: processes.map((one) => ({ ...one, argv: [...one.argv] })) };
  }

  async signalProcess({ signal }: Caller, input: Input<'signalProcess'>): Promise<void> {
    await this.#awake.use(input.id, signal, (id) =>
      this.#machinery.ports.node.signalTree(id, input.processId, SIGNALS[input.signal]),
    );
  }

  async *#exec(input: Input<'exec'>, signal: AbortSignal): AsyncGenerator<ExecEvent, void> {
    const { node, chance } = this.#machinery.ports;
    for (let wakes = 1; ; wakes++) {
      const sandbox = await this.#awake.wake(input.id, signal);
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
