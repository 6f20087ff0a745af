/**
 * The events of a command as E2B's SDKs read them: `start` first, output in pieces, a sign of life when there is none,
 * `end` last.
 */
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type { OutputStream, ProcessEnd, ProcessEvent } from '@space/core';
import { ProcessEventSchema, type ProcessEvent as Told } from '../../gen/process_pb.ts';
import { KEEPALIVE, withKeepalive } from './keepalive.ts';

const MAX_OUTPUT_BYTES = 32 * 1024;
const MAX_TERMINAL_BYTES = 16 * 1024;

export interface Telling {
  readonly isTerminal: boolean;
  readonly keepaliveMs: number;
  /** What an end by the time limit of the command means; undefined: no more than that a signal ended it. */
  readonly onTimedOut?: () => Error;
}

type Event = NonNullable<MessageInitShape<typeof ProcessEventSchema>['event']>;

export async function* toldEvents(
  events: AsyncIterable<ProcessEvent>,
  { isTerminal, keepaliveMs, onTimedOut }: Telling,
): AsyncGenerator<Told> {
  for await (const event of withKeepalive(events, keepaliveMs)) {
    if (event === KEEPALIVE) {
      yield told({ case: 'keepalive', value: {} });
      continue;
    }
    switch (event.kind) {
      case 'started':
        yield told({ case: 'start', value: { pid: event.pid } });
        break;
      case 'output':
        for (const output of outputsOf(event.stream, event.data, isTerminal)) {
          yield told({ case: 'data', value: { output } });
        }
        break;
      case 'lost':
        // There is no event for it, and a gap that nobody sees would be worse than an error.
        throw new ConnectError(
          `${event.sizeBytes} bytes of ${event.stream} were not read in time and are lost`,
          Code.DataLoss,
        );
      case 'exited':
        if (event.timedOut && onTimedOut !== undefined) throw onTimedOut();
        yield told({ case: 'end', value: endOf(event) });
        return;
    }
  }
}

function told(event: Event): Told {
  return create(ProcessEventSchema, { event });
}

function* outputsOf(stream: OutputStream, data: Uint8Array, isTerminal: boolean) {
  const maxBytes = isTerminal ? MAX_TERMINAL_BYTES : MAX_OUTPUT_BYTES;
  for (let at = 0; at < data.length; at += maxBytes) {
    yield { case: isTerminal ? 'pty' : stream, value: Uint8Array.from(data.subarray(at, at + maxBytes)) } as const;
  }
}

function endOf({ exit }: ProcessEnd) {
  if ('signal' in exit) {
    const status = `signal: ${SIGNAL_WORDS[exit.signal] ?? `signal ${exit.signal}`}`;
    return { exitCode: -1, exited: false, status, error: status };
  }
  const status = `exit status ${exit.code}`;
  return { exitCode: exit.code, exited: true, status, ...(exit.code === 0 ? {} : { error: status }) };
}

/** As Go's library names them, which is what the SDKs show. */
const SIGNAL_WORDS: Readonly<Record<number, string>> = {
  1: 'hangup',
  2: 'interrupt',
  3: 'quit',
  4: 'illegal instruction',
  5: 'trace/breakpoint trap',
  6: 'aborted',
  7: 'bus error',
  8: 'floating point exception',
  9: 'killed',
  10: 'user defined signal 1',
  11: 'segmentation fault',
  12: 'user defined signal 2',
  13: 'broken pipe',
  14: 'alarm clock',
  15: 'terminated',
};
