/** The connections that are open, by sandbox, so that new rules reach them: each can be judged again, and is cut. */
import { AppError, MAX_EGRESS_CONNECTIONS, type OrganisationId, type SandboxId, SharedPlaces } from '@space/core';

/** Of all sandboxes. */
const MAX_CONNECTIONS = 10_000;

export interface OpenConnection {
  readonly sandboxId: SandboxId;
  /** Null: no rules are loaded that would say. */
  readonly organisationId: OrganisationId | null;
  readonly activeAtMs: number;
  /** Whether the rules that hold now still let it be open. What they do not let go on of it, it ends. */
  judgeAgain(): boolean;
  cut(reason: AppError): void;
}

export class OpenConnections {
  readonly #bySandbox = new Map<SandboxId, Set<OpenConnection>>();
  readonly #places = new SharedPlaces(MAX_CONNECTIONS, 'connections out of the organisation');

  /** Returns what takes it out. Throws `unavailable` when there are too many. */
  add(connection: OpenConnection): () => void {
    const { sandboxId, organisationId } = connection;
    const own = this.#bySandbox.get(sandboxId) ?? new Set();
    if (own.size >= MAX_EGRESS_CONNECTIONS) {
      const detail = 'Too many connections out of the sandbox are open; others must end first.';
      throw new AppError('unavailable', detail);
    }
    const leave = this.#places.enter(organisationId);
    this.#bySandbox.set(sandboxId, own.add(connection));
    return () => {
      if (!own.delete(connection)) return;
      leave();
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
