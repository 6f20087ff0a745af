/** From the domain's shapes to those of the wire. */
import { type ExecWireEvent, type ProcessList, signalNameOf } from '@space/contract';
import { type GuestProcess, type ProcessEnd, type ProcessEvent, unreachable } from '@space/core';

export function toOctal(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, '0');
}

/** The last instant that ISO 8601 can write with a four-digit year. */
const LAST_INSTANT_MS = Date.UTC(9999, 11, 31, 23, 59, 59);

/** A guest can give a file any time; one that cannot be written down is shown as the nearest that can. */
export function toInstant(milliseconds: number): Date {
  return new Date(Math.min(Math.max(Math.trunc(milliseconds), 0), LAST_INSTANT_MS));
}

export function toExecWireEvent(event: ProcessEvent): ExecWireEvent {
  switch (event.kind) {
    case 'started':
      return { type: 'started', processId: event.processId, pid: event.pid };
    case 'output':
      return { type: event.stream, offset: event.offset, data: asBuffer(event.data).toString('base64') };
    case 'lost':
      return { type: 'lost', stream: event.stream, offset: event.offset, sizeBytes: event.sizeBytes };
    case 'exited':
      return { type: 'exited', ...toEnd(event) };
    default:
      return unreachable(event);
  }
}

function toEnd({ exit, timedOut, oom }: ProcessEnd) {
  return 'code' in exit
    ? { exitCode: exit.code, signal: null, timedOut, oom }
    : { exitCode: null, signal: signalNameOf(exit.signal), timedOut, oom };
}

/** Without its label, which may hold what not everybody who lists processes is to see. */
export function toProcess({ argv, startedMs, end, label: _, ...rest }: GuestProcess): ProcessList['processes'][number] {
  return {
    ...rest,
    argv: [...argv],
    startedAt: toInstant(startedMs).toISOString(),
    end: end === undefined ? null : toEnd(end),
  };
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
