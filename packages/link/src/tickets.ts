/**
 * How the bytes of a connection that is lent find the call that announces it: both bring the same random ticket, in either
 * order. What finds no counterpart is bounded, in number and in time.
 *
 *     line ── call, with the ticket ──────────────┐
 *                                                 ├─► one lent connection
 *     socket ── a frame with the ticket, then raw ┘
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { Socket } from 'node:net';
import { AppError } from '@space/core';

/** What they find each other by, and what must be the same beside it. */
const NAME_BYTES = 16;
const PROOF_BYTES = 32;
const FOUND_WITHIN_MS = 10_000;
/** At once, of either kind: thousands are opened at once, and most find their counterpart in a millisecond. */
const MAX_ALONE = 4_096;

export function newTicket(): Buffer {
  return randomBytes(NAME_BYTES + PROOF_BYTES);
}

/** One side, until the other comes. */
interface Alone {
  readonly proof: Buffer;
  /** Null: it is the call that waits. */
  readonly socket: Socket | null;
  readonly met: (socket: Socket) => void;
}

export class Tickets {
  readonly #alone = new Map<string, Alone>();

  /** For the call: the connection of its ticket. Throws `unavailable` when none comes in time, and the signal's reason. */
  async find(ticket: Uint8Array, signal: AbortSignal): Promise<Socket> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Socket>();
    const leave = this.#bring(ticket, null, resolve, () => reject(none('Its connection did not come in time.')));
    if (leave === null) throw none('The ticket of the call is none, or too many wait.');
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await promise;
    } finally {
      leave();
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** For the connection: kept until its call comes; destroyed when none does. */
  offer(ticket: Uint8Array, socket: Socket): void {
    const giveUp = (): void => void socket.destroy();
    socket.on('error', () => undefined);
    const leave = this.#bring(ticket, socket, () => undefined, giveUp);
    if (leave === null) giveUp();
    else socket.once('close', leave);
  }

  /** Returns what takes it out; null when it is not taken in. */
  #bring(
    ticket: Uint8Array,
    socket: Socket | null,
    met: (socket: Socket) => void,
    late: () => void,
  ): (() => void) | null {
    if (ticket.length !== NAME_BYTES + PROOF_BYTES) return null;
    const name = Buffer.from(ticket.subarray(0, NAME_BYTES)).toString('latin1');
    const proof = Buffer.from(ticket.subarray(NAME_BYTES));
    const other = this.#alone.get(name);
    if (other !== undefined) {
      const found = socket ?? other.socket;
      // Two calls, or two connections, of one ticket are nobody's.
      const isPair = (socket === null) !== (other.socket === null) && timingSafeEqual(proof, other.proof);
      if (found === null || !isPair) return null;
      other.met(found);
      met(found);
      return () => undefined;
    }
    if (this.#alone.size >= MAX_ALONE) return null;
    const timer = setTimeout(late, FOUND_WITHIN_MS);
    const leave = (): void => {
      clearTimeout(timer);
      if (this.#alone.get(name) === alone) this.#alone.delete(name);
    };
    const alone: Alone = {
      proof,
      socket,
      met: (found) => {
        leave();
        met(found);
      },
    };
    this.#alone.set(name, alone);
    return leave;
  }
}

function none(detail: string): AppError {
  return new AppError('unavailable', detail);
}
