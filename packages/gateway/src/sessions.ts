/**
 * Sessions of TLS with hosts, so that the next connection of the same sandbox to the same host is spared a whole handshake. What
 * the host has proved is believed for a while from when it did, however often it is resumed meanwhile; nobody else's session is used.
 */
import type { EgressTarget, SandboxId } from '@space/core';

/** A certificate that ends or is replaced is noticed after so long. */
const BELIEVED_MS = 10 * 60_000;
const MAX_KEPT = 2_000;

export interface Session {
  readonly ticket: Buffer;
  /** When the host showed its certificate. */
  readonly provedAtMs: number;
}

/** Whose sessions with what. */
export interface SessionsOf {
  find(): Session | null;
  keep(session: Session): void;
}

export class Sessions {
  readonly #nowMs: () => number;
  readonly #kept = new Map<string, Session>();

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  of(sandboxId: SandboxId, { host, port }: EgressTarget, protocols: readonly string[]): SessionsOf {
    const key = [sandboxId, host, port, ...protocols].join(' ');
    return {
      find: () => {
        const found = this.#kept.get(key);
        return found !== undefined && this.#nowMs() - found.provedAtMs < BELIEVED_MS ? found : null;
      },
      keep: (session) => {
        this.#kept.delete(key);
        this.#kept.set(key, session);
        const [oldest] = this.#kept.keys();
        if (this.#kept.size > MAX_KEPT && oldest !== undefined) this.#kept.delete(oldest);
      },
    };
  }
}
