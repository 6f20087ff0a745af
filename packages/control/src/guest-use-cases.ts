/** The use-cases of commands in a sandbox. All but the list of processes wake a paused one. */
import { createHash } from 'node:crypto';
import { type Input, type LabelledExec, SHELL_ARGV, SIGNALS, type StartedProcess } from '@space/contract';
import {
  AppError,
  type GuestCommand,
  type GuestProcess,
  hasVm,
  type NodePort,
  newId,
  type ProcessEvent,
  type ProcessId,
  type SandboxId,
} from '@space/core';
import { Awake } from './awake.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { IdempotentCalls } from './idempotency.ts';
import { sendInput } from './input.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';
import { placeholdersIn } from './secret-use-cases.ts';
import { stoppable } from './streams.ts';

export class GuestUseCases {
  readonly #machinery: Machinery;
  readonly #sandboxes: LifecycleUseCases;
  readonly #awake: Awake;
  readonly #calls: IdempotentCalls;
  readonly #checkpoints: Checkpoints;

  constructor(
    machinery: Machinery,
    sandboxes: LifecycleUseCases,
    { calls, checkpoints }: { readonly calls: IdempotentCalls; readonly checkpoints: Checkpoints },
  ) {
    this.#checkpoints = checkpoints;
    this.#calls = calls;
    this.#machinery = machinery;
    this.#sandboxes = sandboxes;
    this.#awake = new Awake(machinery, sandboxes);
  }

  exec(caller: GatedCaller, input: LabelledExec): AsyncIterable<ProcessEvent> {
    return stoppable(caller.signal, (signal) => this.#execOnce({ ...caller, signal }, input));
  }

  async startProcess(caller: GatedCaller, input: Input<'startProcess'>): Promise<StartedProcess> {
    // Leaving the stream leaves the command running.
    for await (const event of this.#run(caller, input, this.#processIdOf(caller.callSeed))) {
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
    this.#machinery.vaults.requireUsable(sandbox.vault);
    if (sandbox.settled === 'crashed') throw new AppError('vm_lost', sandbox.crash?.detail ?? 'The microVM ended.');
    if (!hasVm(sandbox.settled)) throw new AppError('wrong_state', `The sandbox is ${sandbox.settled}.`);
    return this.#machinery.ports.node.processes(sandbox.id, { ended });
  }

  async signalProcess(caller: GatedCaller, input: Input<'signalProcess'>): Promise<void> {
    const { node } = this.#machinery.ports;
    await this.#awake.use(caller, input.id, (id) =>
      node.signalProcess(id, input.processId, SIGNALS[input.signal], input.target),
    );
  }

  /** A guest starts an id once: what a process of ours that died had started already is attached to. */
  #run(caller: GatedCaller, input: LabelledExec, processId: ProcessId): AsyncIterable<ProcessEvent> {
    const { ports } = this.#machinery;
    const checkpoints = this.#checkpoints;
    return this.#awake.stream(caller, input.id, async function* (sandbox, signal) {
      // Before it is started, so that none is left out; one that then is not goes with the next look.
      if (input.keepAwake === true) await ports.records.addKeeper(sandbox.id, processId);
      const events = startOrAttach(ports.node, sandbox.id, commandOf(sandbox, input, processId), signal);
      yield* input.checkpoint === true ? checkpoints.atEndOf(sandbox.id, events) : events;
    });
  }

  /** Of a call that has a key, whoever carries it out, so that it is started once. */
  #processIdOf(callSeed: string | undefined): ProcessId {
    if (callSeed === undefined) return newId('process', this.#machinery.ports.chance);
    const digest = createHash('sha256').update(callSeed).digest();
    return newId('process', { bytes: (count) => digest.subarray(0, count) });
  }

  /** Of a process that the call started before, from its first output on. */
  async *#again(caller: GatedCaller, id: string, processId: ProcessId): AsyncGenerator<ProcessEvent, void> {
    try {
      yield* this.attachProcess(caller, { id, processId, stdoutOffset: 0, stderrOffset: 0 });
    } catch (cause) {
      if (!(cause instanceof AppError) || cause.code !== 'not_found') throw cause;
      const detail = `The call started ${processId}, and the sandbox does not know it any more.`;
      throw new AppError('already_started', { detail, facts: { processId } }, { cause });
    }
  }

  async *#execOnce(caller: GatedCaller, input: LabelledExec): AsyncGenerator<ProcessEvent, void> {
    const { before, seed, started } = await this.#calls.begin('exec', caller, input);
    if (before !== null) {
      const { processId } = before as { readonly processId: ProcessId };
      return yield* this.#again(caller, input.id, processId);
    }
    try {
      for await (const event of this.#run(caller, input, this.#processIdOf(seed))) {
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

/** The events of a command from its start on, also of one that was started before under the same id. */
export async function* startOrAttach(
  node: NodePort,
  sandboxId: SandboxId,
  command: GuestCommand,
  signal: AbortSignal,
): AsyncGenerator<ProcessEvent, void> {
  try {
    return yield* node.exec(sandboxId, command, signal);
  } catch (thrown) {
    if (!(thrown instanceof AppError) || thrown.code !== 'name_taken') throw thrown;
  }
  yield* node.attach(sandboxId, { processId: command.processId, stdoutOffset: 0, stderrOffset: 0 }, signal);
}

/** What the guest is asked to start. */
export function commandOf(sandbox: RecordedSandbox, input: LabelledExec, processId: ProcessId): GuestCommand {
  const { id: _, keepAwake: __, checkpoint: ___, command = '', argv = [...SHELL_ARGV, command], env, ...rest } = input;
  return {
    ...placeOf(sandbox, rest),
    ...rest,
    processId,
    argv,
    env: { ...placeholdersIn(sandbox.secrets), ...sandbox.env, ...env },
  };
}

/** As whom and where, when the command says neither. One that says who it runs as is in that user's home. */
function placeOf({ builtFrom }: RecordedSandbox, { user }: Pick<LabelledExec, 'user'>) {
  if (builtFrom === null || user !== undefined) return {};
  return {
    ...(builtFrom.user === null ? {} : { user: builtFrom.user }),
    ...(builtFrom.cwd === null ? {} : { cwd: builtFrom.cwd }),
  };
}
