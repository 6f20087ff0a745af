/** The connections that are open, by sandbox, so that new rules reach them: each can be judged again, and is cut. */
import { AppError, MAX_EGRESS_CONNECTIONS, type OrganisationId, type SandboxId } from '@space/core';

/** Of all sandboxes; no organisation has more than is left for all others. */
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
  readonly #byOrganisation = new Map<OrganisationId | null, number>();
  #count = 0;

  /** Returns what takes it out. Throws `unavailable` when there are too many. */
  add(connection: OpenConnection): () => void {
    const { sandboxId, organisationId } = connection;
    const own = this.#bySandbox.get(sandboxId) ?? new Set();
    if (own.size >= MAX_EGRESS_CONNECTIONS) throw tooMany('the sandbox');
    if ((this.#byOrganisation.get(organisationId) ?? 0) >= MAX_CONNECTIONS - this.#count) {
      throw tooMany('the organisation');
    }
    this.#bySandbox.set(sandboxId, own.add(connection));
    this.#enter(organisationId, 1);
    return () => {
      if (!own.delete(connection)) return;
      this.#enter(organisationId, -1);
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

  #enter(organisationId: OrganisationId | null, change: 1 | -1): void {
    this.#count += change;
    const count = (this.#byOrganisation.get(organisationId) ?? 0) + change;
    if (count > 0) this.#byOrganisation.set(organisationId, count);
    else this.#byOrganisation.delete(organisationId);
  }

  *#all(): Generator<OpenConnection> {
    for (const own of this.#bySandbox.values()) yield* [...own];
  }
}

function tooMany(whose: string): AppError {
  return new AppError('unavailable', `Too many connections out of ${whose} are open; others must end first.`);
}
