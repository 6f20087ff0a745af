/**
 * Commands in the guest. A command's stream ends in exactly one of two ways: with the exit that wait(2) gave, or by an
 * error that says why it was interrupted. Every byte of output is accounted for by its offset.
 */
import {
  AppError,
  type GuestCommand,
  type GuestProcess,
  MAX_INPUT_BYTES,
  MAX_LABEL_BYTES,
  type OutputPosition,
  type ProcessEnd,
  type ProcessEvent,
  type ProcessExit,
  type ProcessId,
  type ProcessInput,
  parseId,
  type SignalTarget,
  type TerminalSize,
} from '@space/core';
import {
  type Exited,
  type Lost,
  type Output,
  Output_Stream,
  Processes,
  type ProcessStatus,
  type ProcessEvent as WireEvent,
} from '@space/guest-proto';
import { Call, callOnce } from './call.ts';
import type { Channel } from './channel.ts';
import { brokenContract } from './errors.ts';
import type { Limits } from './limits.ts';
import { bytesOf, safeNumber, textOf, wireNumber } from './wire.ts';

interface Context {
  readonly channel: Channel;
  readonly limits: Limits;
}

/** What argv, env and cwd may take together; the rest of a message is room for framing. */
const MAX_COMMAND_BYTES = 240 * 1024;
const MAX_EXIT_CODE = 255;
const MAX_SIGNAL = 64;

export async function* exec(
  context: Context,
  command: GuestCommand,
  signal?: AbortSignal,
): AsyncGenerator<ProcessEvent, void, undefined> {
  const request = startRequest(command);
  const progress = new Progress({ processId: command.processId, stdoutOffset: 0, stderrOffset: 0 });
  yield* follow(context, progress, 'start', signal, (abort) =>
    context.channel.serverStream(Processes.method.start, request, abort),
  );
}

export async function* attach(
  context: Context,
  at: OutputPosition,
  signal?: AbortSignal,
): AsyncGenerator<ProcessEvent, void, undefined> {
  const request = {
    processId: at.processId,
    stdoutOffset: wireNumber('The offset', at.stdoutOffset),
    stderrOffset: wireNumber('The offset', at.stderrOffset),
  };
  yield* follow(context, new Progress(at), 'attach', signal, (abort) =>
    context.channel.serverStream(Processes.method.attach, request, abort),
  );
}

async function* follow(
  { channel, limits }: Context,
  progress: Progress,
  kind: 'start' | 'attach',
  signal: AbortSignal | undefined,
  open: (signal: AbortSignal) => AsyncIterable<WireEvent>,
): AsyncGenerator<ProcessEvent, void, undefined> {
  const call = new Call(channel, signal);
  try {
    // A start that reaches the agent twice would find its own id taken.
    await call.ready();
    call.expectWithin(limits.startMs);
    for await (const event of open(call.signal)) {
      call.rest();
      yield progress.take(event);
    }
    if (!progress.exited) throw brokenContract('the stream of a command ended without its exit');
  } catch (thrown) {
    // The exit was real, whatever befell the stream after it.
    if (progress.exited && !(thrown instanceof AppError)) return;
    throw await call.failure(progress.started ? 'running' : kind, thrown);
  } finally {
    call.end();
  }
}

/** Follows a stream of events and refuses what a command cannot do. */
class Progress {
  started = false;
  exited = false;
  readonly #processId: ProcessId;
  readonly #offsets: { stdout: number; stderr: number };

  constructor({ processId, stdoutOffset, stderrOffset }: OutputPosition) {
    this.#processId = processId;
    this.#offsets = { stdout: stdoutOffset, stderr: stderrOffset };
  }

  take({ event }: WireEvent): ProcessEvent {
    if (this.exited) throw brokenContract('a command went on after its exit');
    if (this.started === (event.case === 'started')) throw brokenContract('a command did not start exactly once');
    switch (event.case) {
      case 'started':
        this.started = true;
        return { kind: 'started', processId: this.#processId, pid: event.value.pid };
      case 'output':
        return { kind: 'output', ...this.#advance(event.value, event.value.data.length), data: event.value.data };
      case 'lost': {
        const sizeBytes = safeNumber('a loss of output', event.value.size);
        return { kind: 'lost', ...this.#advance(event.value, sizeBytes), sizeBytes };
      }
      case 'exited':
        this.exited = true;
        return { kind: 'exited', ...endOf(event.value) };
      default:
        throw brokenContract('an event of a command is unknown');
    }
  }

  #advance({ stream: wireStream, offset: wireOffset }: Output | Lost, sizeBytes: number) {
    const stream = streamOf(wireStream);
    const offset = this.#offsets[stream];
    if (wireOffset !== BigInt(offset)) throw brokenContract(`${stream} has a gap or repeats itself`);
    this.#offsets[stream] += sizeBytes;
    return { stream, offset };
  }
}

function streamOf(stream: Output['stream']): 'stdout' | 'stderr' {
  if (stream === Output_Stream.STDOUT) return 'stdout';
  if (stream === Output_Stream.STDERR) return 'stderr';
  throw brokenContract('output is of an unknown stream');
}

function endOf(exited: Exited): ProcessEnd {
  return { exit: exitOf(exited), timedOut: exited.timedOut, oom: exited.oom };
}

function exitOf({ end }: Exited): ProcessExit {
  if (end.case === 'code' && end.value <= MAX_EXIT_CODE) return { code: end.value };
  if (end.case === 'signal' && end.value >= 1 && end.value <= MAX_SIGNAL) return { signal: end.value };
  throw brokenContract('an exit is neither a code nor a signal');
}

function startRequest(command: GuestCommand) {
  if (command.argv.length === 0) throw new AppError('bad_request', 'The command is empty.');
  const argv = command.argv.map((argument) => bytesOf('An argument', argument));
  const env = Object.entries(command.env).map(
    ([name, value]) => [envName(name), bytesOf(`The variable ${name}`, value)] as const,
  );
  const cwd = command.cwd === undefined ? new Uint8Array() : bytesOf('The directory', command.cwd);
  const sizeBytes = [...argv, ...env.flat(), cwd].reduce((sum, part) => sum + part.length, 0);
  if (sizeBytes > MAX_COMMAND_BYTES) {
    throw new AppError('bad_request', `The command is ${sizeBytes} bytes long; at most ${MAX_COMMAND_BYTES} fit.`);
  }
  const label = Buffer.from(command.label ?? '');
  if (label.length > MAX_LABEL_BYTES) {
    throw new AppError('bad_request', `The label is ${label.length} bytes long; at most ${MAX_LABEL_BYTES} fit.`);
  }
  const { processId, pty } = command;
  return {
    processId,
    argv,
    env: Object.fromEntries(env),
    cwd,
    user: command.user ?? '',
    stdin: command.stdin ?? false,
    ...(pty === undefined ? {} : { pty: { cols: pty.cols, rows: pty.rows, term: pty.term ?? '' } }),
    timeoutMs: wireNumber('The time limit', command.timeoutMs ?? 0),
    label,
  };
}

function envName(name: string): string {
  bytesOf('The name of a variable', name);
  if (name === '' || name.includes('='))
    throw new AppError('bad_request', 'The name of a variable is empty or contains "=".');
  return name;
}

export async function writeInput(
  { channel, limits }: Context,
  { processId, offset, data, eof }: ProcessInput,
): Promise<{ acceptedBytes: number }> {
  if (data.length > MAX_INPUT_BYTES) {
    throw new AppError('bad_request', `${data.length} bytes of input are too many at once; ${MAX_INPUT_BYTES} fit.`);
  }
  const at = offset === undefined ? {} : { offset: wireNumber('The offset', offset) };
  const options = { kind: 'input', limitMs: limits.replyMs, repeatable: offset !== undefined } as const;
  const request = { processId, ...at, data, eof };
  const reply = await callOnce(channel, options, (abort) => channel.unary(Processes.method.writeInput, request, abort));
  return { acceptedBytes: safeNumber('the input taken', reply.accepted) };
}

export async function resizeTerminal(
  { channel, limits }: Context,
  processId: ProcessId,
  { cols, rows }: TerminalSize,
): Promise<void> {
  const options = { kind: 'input', limitMs: limits.replyMs, repeatable: true } as const;
  const request = { processId, cols, rows };
  await callOnce(channel, options, (abort) => channel.unary(Processes.method.resize, request, abort));
}

export async function signalProcess(
  { channel, limits }: Context,
  processId: ProcessId,
  signal: number,
  target: SignalTarget,
): Promise<void> {
  if (!Number.isInteger(signal) || signal < 1 || signal > MAX_SIGNAL) {
    throw new AppError('bad_request', `A signal is a number from 1 to ${MAX_SIGNAL}.`);
  }
  const options = { kind: 'process', limitMs: limits.replyMs, repeatable: false } as const;
  const request = { processId, signal, tree: target === 'tree' };
  await callOnce(channel, options, (abort) => channel.unary(Processes.method.signal, request, abort));
}

export async function processes(
  { channel, limits }: Context,
  { ended = false }: { readonly ended?: boolean } = {},
): Promise<readonly GuestProcess[]> {
  const options = { kind: 'process', limitMs: limits.replyMs, repeatable: true } as const;
  const reply = await callOnce(channel, options, (abort) => channel.unary(Processes.method.list, { ended }, abort));
  return reply.processes.map(processOf);
}

function processOf(status: ProcessStatus): GuestProcess {
  const id = parseId('process', status.processId);
  if (id === undefined) throw brokenContract('a process has an id that is none of ours');
  return {
    processId: id,
    pid: status.pid,
    argv: status.argv.map(textOf),
    cwd: textOf(status.cwd),
    pty: status.pty,
    label: textOf(status.label.subarray(0, MAX_LABEL_BYTES)),
    startedMs: safeNumber('the start of a process', status.startedNs / 1_000_000n),
    leaderAlive: status.leaderAlive,
    liveProcesses: status.liveProcesses,
    ...(status.exited === undefined ? {} : { end: endOf(status.exited) }),
    stdoutBytes: safeNumber('the output of a process', status.stdoutBytes),
    stderrBytes: safeNumber('the output of a process', status.stderrBytes),
    stdinBytes: safeNumber('the input of a process', status.stdinBytes),
  };
}
