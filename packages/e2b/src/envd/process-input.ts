/** Input for a process: whole, in order, at its pace. */
import { Code, ConnectError } from '@connectrpc/connect';
import type { GuestProcess } from '@space/core';
import type { ProcessInput, ProcessSelector, StreamInputRequest } from '../../gen/process_pb.ts';
import type { EnvdCall } from './call.ts';
import { selectorKey, selectProcess } from './select-process.ts';
import type { Turns } from './turns.ts';

interface Given {
  readonly selector: ProcessSelector | undefined;
  readonly input: ProcessInput | undefined;
}

export async function sendInput(call: EnvdCall, turns: Turns, { selector, input }: Given) {
  const given = bytesOf(input);
  await turns.take(turnOf(call, selector), given.bytes.length, async () => {
    call.caller.signal.throwIfAborted();
    await give(call, await selectProcess(call, selector), given);
  });
  return {};
}

export async function closeInput(call: EnvdCall, turns: Turns, selector: ProcessSelector | undefined) {
  await turns.take(turnOf(call, selector), 0, async () => {
    call.caller.signal.throwIfAborted();
    const { processId, pty } = await selectProcess(call, selector);
    if (pty) throw new ConnectError('the input of a terminal is not closed; send it the byte 4', Code.Internal);
    await call.useCases.writeInput(call.caller, { id: call.sandboxId, processId, eof: true }, nothing());
  });
  return {};
}

/** The first message names the process. Each piece takes its turn, so that others can get a word in. */
export async function streamInput(call: EnvdCall, turns: Turns, requests: AsyncIterable<StreamInputRequest>) {
  let selector: ProcessSelector | undefined;
  for await (const { event } of requests) {
    if (event.case === 'start') selector = event.value.process;
    else if (event.case === 'data') await sendInput(call, turns, { selector, input: event.value.input });
    else if (event.case === undefined) throw new ConnectError('an event of no known kind', Code.Unimplemented);
  }
  return {};
}

interface Bytes {
  readonly kind: 'stdin' | 'pty';
  readonly bytes: Uint8Array;
}

function bytesOf(input: ProcessInput | undefined): Bytes {
  if (input?.input.case === undefined) throw new ConnectError('an input of no known kind', Code.Unimplemented);
  return { kind: input.input.case, bytes: input.input.value };
}

async function give(call: EnvdCall, { processId, pty }: GuestProcess, { kind, bytes }: Bytes): Promise<void> {
  if (pty !== (kind === 'pty')) {
    throw new ConnectError(pty ? 'the process reads from a terminal' : 'the process has no terminal', Code.Internal);
  }
  if (bytes.length === 0) return;
  await call.useCases.writeInput(call.caller, { id: call.sandboxId, processId, eof: false }, one(bytes));
}

function turnOf({ sandboxId }: EnvdCall, selector: ProcessSelector | undefined): string {
  return `${sandboxId} ${selectorKey(selector)}`;
}

async function* one(bytes: Uint8Array) {
  yield bytes;
}

async function* nothing() {}
