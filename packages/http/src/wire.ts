/** From the domain's shapes to those of the wire. */
import { type ExecEvent, type ExecWireEvent, signalNameOf } from '@space/contract';
import { unreachable } from '@space/core';

export function toOctal(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, '0');
}

/** The last instant that ISO 8601 can write with a four-digit year. */
const LAST_INSTANT_MS = Date.UTC(9999, 11, 31, 23, 59, 59);

/** A guest can give a file any time; one that cannot be written down is shown as the nearest that can. */
export function toInstant(milliseconds: number): Date {
  return new Date(Math.min(Math.max(Math.trunc(milliseconds), 0), LAST_INSTANT_MS));
}

export function toExecWireEvent(event: ExecEvent): ExecWireEvent {
  switch (event.kind) {
    case 'started':
      return { type: 'started', processId: event.processId, pid: event.pid };
    case 'output':
      return { type: event.stream, data: asBuffer(event.data).toString('base64') };
    case 'exited': {
      const { exit, timedOut } = event;
      return 'code' in exit
        ? { type: 'exited', exitCode: exit.code, signal: null, timedOut }
        : { type: 'exited', exitCode: null, signal: signalNameOf(exit.signal), timedOut };
    }
    default:
      return unreachable(event);
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
