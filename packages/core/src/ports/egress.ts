/**
 * The egress port: what the node asks of the gateway, a connection at a time. Adapters: the link, where the two are processes
 * of their own, and testkit's fake. The gateway implements it.
 */
import type { Socket } from 'node:net';
import type { LifeId, SandboxId } from '../ids.ts';
import type { PortConnection } from './port-connection.ts';

/** One connection that a program in a sandbox opened. */
export interface EgressConnection {
  readonly sandboxId: SandboxId;
  readonly lifeId: LifeId;
  /** As the program named it: the name that it looked up, or the address literal that it dialled without looking anything up. */
  readonly host: string;
  readonly port: number;
}

/** The program's end. Where the bytes have a socket of the kernel's to themselves, it can be taken out of it. */
export interface LentGuest extends PortConnection {
  /**
   * The socket itself, with `unread`, which was read of it, to be read again; null when it is not whole any more. From then on
   * `output`, `write` and `end` are not to be used; `reset` still is.
   */
  take?(unread: Uint8Array): LentSocket | null;
}

export interface LentSocket {
  readonly socket: Socket;
  /** To be called when what was written to it has ended and is delivered: without it an end is taken for a reset. */
  ended(): void;
}

export interface EgressPort {
  /**
   * Carries one connection to its end; what has not ended both ways when it returns is reset. Throws `egress_refused` (the
   * guest's program sees a reset) or `unavailable` before any byte. The signal aborts when the life ends.
   *
   * `guest` is the program's end of it, seen from here: `output` is what the program sends, and `write` is what it receives.
   */
  carry(connection: EgressConnection, guest: LentGuest, signal: AbortSignal): Promise<void>;
}

/** At once, of one sandbox; the next wait in the guest. */
export const MAX_EGRESS_CONNECTIONS = 256;
