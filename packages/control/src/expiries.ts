/**
 * Pauses or deletes sandboxes whose expiry has come. The decision is core's (`expiry.ts`), and is made again in the driver's turn:
 * who puts the expiry off in the last moment has put it off. The records clear it in the transaction that ends the pause or
 * the delete, so that a process that dies anywhere in between leaves one that is either still to be met or has been.
 */
import { decideExpiry, type Expiry, type SandboxId } from '@space/core';
import { Backoff } from './backoff.ts';
import { NotDueError } from './effects.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';
import { MAX_DUE } from './set-wakes.ts';
import { Slots } from './turns.ts';

/** Each writes out the memory of a sandbox, or takes it down. */
const PARALLEL = 2;

export class Expiries {
  readonly #machinery: Machinery;
  readonly #backoff: Backoff<SandboxId>;
  readonly #slots = new Slots(PARALLEL);
  readonly #underWay = new Map<SandboxId, Promise<void>>();

  constructor(machinery: Machinery) {
    this.#machinery = machinery;
    this.#backoff = new Backoff(machinery.ports.clock);
  }

  /** What is begun here ends by itself; see `settled`. */
  async round(): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    const nowMs = clock.now();
    const due = await records.sandboxesToExpire(new Date(nowMs), MAX_DUE);
    this.#backoff.retain(new Set(due.map(({ id }) => id)));
    for (const sandbox of due) {
      const { id, expiry } = sandbox;
      if (expiry === null || this.#underWay.has(id)) continue;
      const expiring = decideExpiry(sandbox, expiry, nowMs);
      if (expiring === 'met') await records.expiryMet(id, expiry.at);
      if ((expiring === 'pause' || expiring === 'delete') && this.#backoff.mayTry(id)) this.#begin(id, expiring);
    }
  }

  async settled(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  #begin(id: SandboxId, action: Expiry['action']): void {
    const attempt = this.#slots
      .take(() => this.#end(id, action))
      .catch((err: unknown) => {
        if (err instanceof NotDueError) return;
        this.#backoff.failed(id);
        this.#machinery.ports.logger.warn({ sandboxId: id, err }, 'a sandbox could not be ended at its expiry');
      })
      .finally(() => this.#underWay.delete(id));
    this.#underWay.set(id, attempt);
  }

  async #end(id: SandboxId, action: Expiry['action']): Promise<void> {
    const { driver, effects, ports } = this.#machinery;
    const isDue = ({ settled, expiry }: RecordedSandbox) =>
      expiry !== null && decideExpiry({ settled, operation: null }, expiry, ports.clock.now()) === action;
    await driver.perform(id, action, effects.expire(action, isDue));
  }
}
