/** The connections that are open, by sandbox, so that new rules reach them: each can be judged again, and is cut. */
import { AppError, MAX_EGRESS_CONNECTIONS, type SandboxId } from '@space/core';

/** Of all sandboxes. */
const MAX_CONNECTIONS = 10_000;

export interface OpenConnection {
  readonly sandboxId: SandboxId;
  readonly activeAtMs: number;
  /** Whether the rules that hold now still let it be open. What they do not let go on of it, it ends. */
  judgeAgain(): boolean;
  cut(reason: AppError): void;
}

export class OpenConnections {
  readonly #bySandbox = new Map<SandboxId, Set<OpenConnection>>();
  #count = 0;

  /** Returns what takes it out. Throws `unavailable` when there are too many. */
  add(connection: OpenConnection): () => void {
    const { sandboxId } = connection;
    const own = this.#bySandbox.get(sandboxId) ?? new Set();
    if (own.size >= MAX_EGRESS_CONNECTIONS || this.#count >= MAX_CONNECTIONS) {
      throw new AppError('unavailable', 'Too many connections out of sandboxes are open.');
    }
    this.#bySandbox.set(sandboxId, own.add(connection));
    this.#count++;
    return () => {
      if (!own.delete(connection)) return;
      this.#count--;
      if (own.size === 0) this.#bySandbox.delete(sandboxId);
    };
  }

  judgeAgain(sandboxId: SandboxId): void {
    for (const connection of this.#bySandbox.get(sandboxId) ?? []) {
      if (!connection.judgeAgain()) connection.cut(new AppError('egress_refused', 'The rules have changed.'));
    }
  }

  cutIdle(beforeMs: number): void {
    for (const connection of this.#all()) {
      if (connection.activeAtMs < beforeMs) connection.cut(new AppError('timed_out', 'Nothing came for long.'));
    }
  }

  cutAll(): void {
    for (const connection of this.#all()) connection.cut(new AppError('unavailable', 'The gateway is ending.'));
  }

  *#all(): Generator<OpenConnection> {
    for (const own of this.#bySandbox.values()) yield* [...own];
  }
}
