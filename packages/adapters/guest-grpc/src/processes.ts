/**
 * Commands in the guest. A command's stream ends in exactly one of two ways: with the exit that wait(2) gave, or by an
 * error that says why it was interrupted. Every byte of output is accounted for by its offset.
 */
import {
  AppError,
  type GuestCommand,
  type GuestProcess,
  type ProcessEvent,
  type ProcessExit,
  type ProcessId,
  parseId,
} from '@space/core';
import {
  type Exited,
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
import { bytesOf, textOf } from './wire.ts';

interface Context {
  readonly channel: Channel;
  readonly limits: Limits;
}

/** What argv, env and cwd may take together; the rest of a message is room for framing. */
const MAX_COMMAND_BYTES = 240 * 1024;
const MAX_EXIT_CODE = 255;
const MAX_SIGNAL = 64;

export async function* exec(
  { channel, limits }: Context,
  command: GuestCommand,
  signal?: AbortSignal,
): AsyncGenerator<ProcessEvent, void, undefined> {
  const request = startRequest(command);
  const call = new Call(channel, signal);
  const progress = new Progress(command.processId);
  try {
    // A start that reaches the agent twice would find its own id taken.
    await call.ready();
    call.expectWithin(limits.startMs);
    for await (const event of channel.serverStream(Processes.method.start, request, call.signal)) {
      call.rest();
      yield progress.take(event);
    }
    if (!progress.exited) throw brokenContract('the stream of a command ended without its exit');
  } catch (thrown) {
    // The exit was real, whatever befell the stream after it.
    if (progress.exited && !(thrown instanceof AppError)) return;
    throw await call.failure(progress.started ? 'running' : 'start', thrown);
  } finally {
    call.end();
  }
}

/** Follows a stream of events and refuses what a command cannot do. */
class Progress {
  started = false;
  exited = false;
  readonly #processId: ProcessId;
  readonly #offsets = { stdout: 0n, stderr: 0n };

  constructor(processId: ProcessId) {
    this.#processId = processId;
  }

  take({ event }: WireEvent): ProcessEvent {
    if (this.exited) throw brokenContract('a command went on after its exit');
    if (this.started === (event.case === 'started')) throw brokenContract('a command did not start exactly once');
    switch (event.case) {
      case 'started':
        this.started = true;
        return { kind: 'started', processId: this.#processId, pid: event.value.pid };
      case 'output':
        return this.#output(event.value);
      case 'exited':
        this.exited = true;
        return { kind: 'exited', exit: exitOf(event.value) };
      default:
        throw brokenContract('an event of a command is unknown');
    }
  }

  #output({ stream: wireStream, offset, data }: Output): ProcessEvent {
    const stream = streamOf(wireStream);
    if (offset !== this.#offsets[stream]) throw brokenContract(`${stream} has a gap or repeats itself`);
    this.#offsets[stream] += BigInt(data.length);
    return { kind: 'output', stream, data };
  }
}

function streamOf(stream: Output['stream']): 'stdout' | 'stderr' {
  if (stream === Output_Stream.STDOUT) return 'stdout';
  if (stream === Output_Stream.STDERR) return 'stderr';
  throw brokenContract('output is of an unknown stream');
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
  return { processId: command.processId, argv, env: Object.fromEntries(env), cwd, user: command.user ?? '' };
}

function envName(name: string): string {
  bytesOf('The name of a variable', name);
  if (name === '' || name.includes('='))
    throw new AppError('bad_request', 'The name of a variable is empty or contains "=".');
  return name;
}

export async function signalTree({ channel, limits }: Context, processId: ProcessId, signal: number): Promise<void> {
  if (!Number.isInteger(signal) || signal < 1 || signal > MAX_SIGNAL) {
    throw new AppError('bad_request', `A signal is a number from 1 to ${MAX_SIGNAL}.`);
  }
  const options = { kind: 'process', limitMs: limits.replyMs, repeatable: false } as const;
  const request = { processId, signal, tree: true };
  await callOnce(channel, options, (abort) => channel.unary(Processes.method.signal, request, abort));
}

export async function processes({ channel, limits }: Context): Promise<readonly GuestProcess[]> {
  const options = { kind: 'process', limitMs: limits.replyMs, repeatable: true } as const;
  const reply = await callOnce(channel, options, (signal) => channel.unary(Processes.method.list, {}, signal));
  return reply.processes.map(processOf);
}

function processOf({ processId, pid, argv, leaderAlive }: ProcessStatus): GuestProcess {
  const id = parseId('process', processId);
  if (id === undefined) throw brokenContract('a process has an id that is none of ours');
  return { processId: id, pid, argv: argv.map(textOf), leaderAlive };
}
