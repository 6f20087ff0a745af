/**
 * Pauses or deletes sandboxes whose expiry has come. The decision is core's (`expiry.ts`), and is made again in the driver's turn:
 * who puts the expiry off in the last moment has put it off. The records clear it in the transaction that ends the pause or
 * the delete, so that a process that dies anywhere in between leaves one that is either still to be met or has been. One whose pause
 * fails again and again stays, is tried at longer and longer intervals, and the sandbox says so (`pause-failures.ts`).
 */
import { decideExpiry, type Expiry, type SandboxId } from '@space/core';
import { Attempts } from './attempts.ts';
import { NotDueError } from './effects.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import { PauseFailures } from './pause-failures.ts';
import type { RecordedSandbox } from './records.ts';
import { MAX_DUE } from './set-wakes.ts';

/** Each writes out the memory of a sandbox, or takes it down. */
const PARALLEL = 2;

export class Expiries {
  readonly #machinery: Machinery;
  readonly #pauseFailures: PauseFailures;
  readonly #attempts: Attempts<SandboxId>;

  constructor(machinery: Machinery, pauseFailures: PauseFailures) {
    this.#pauseFailures = pauseFailures;
    this.#machinery = machinery;
    this.#attempts = new Attempts(machinery.ports.clock, PARALLEL);
  }

  /** What is begun here ends by itself; see `settled`. */
  async round(): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    const nowMs = clock.now();
    const due = await records.sandboxesToExpire(new Date(nowMs), MAX_DUE);
    this.#attempts.retain(new Set(due.map(({ id }) => id)));
    for (const sandbox of due) {
      const { id, expiry } = sandbox;
      if (expiry === null || this.#attempts.isUnderWay(id)) continue;
      const expiring = decideExpiry(sandbox, expiry, nowMs);
      if (expiring === 'met') await records.expiryMet(id, expiry.at);
      if (expiring !== 'wait' && expiring !== 'met' && this.#attempts.mayTry(id)) this.#begin(id, expiring);
    }
  }

  settled(): Promise<void> {
    return this.#attempts.settled();
  }

  #begin(id: SandboxId, action: Expiry['action']): void {
    this.#attempts.begin(
      id,
      () => this.#end(id, action).catch((thrown: unknown) => this.#failed(id, action, thrown)),
      (err) => {
        if (err instanceof NotDueError) return false;
        this.#machinery.ports.logger.warn({ sandboxId: id, err }, 'a sandbox could not be ended at its expiry');
        return true;
      },
    );
  }

  async #failed(id: SandboxId, action: Expiry['action'], thrown: unknown): Promise<never> {
    const { logger } = this.#machinery.ports;
    if (action !== 'delete' && !(thrown instanceof NotDueError) && PauseFailures.isOne(thrown)) {
      await this.#pauseFailures
        .failed(id, thrown)
        .catch((err: unknown) => logger.warn({ sandboxId: id, err }, 'that was not written down'));
    }
    throw thrown;
  }

  async #end(id: SandboxId, action: Expiry['action']): Promise<void> {
    const { driver, effects, ports } = this.#machinery;
    const isDue = ({ settled, expiry }: RecordedSandbox) =>
      expiry !== null && decideExpiry({ settled, operation: null }, expiry, ports.clock.now()) === action;
    await driver.perform(id, action === 'delete' ? 'delete' : 'pause', effects.expire(action, isDue));
  }
}
