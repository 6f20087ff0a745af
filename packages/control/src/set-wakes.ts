/**
 * Wakes sandboxes whose `wakeAt` has come. The decision is core's (`schedule.ts`), the wake the ordinary one. The records
 * clear the time in the transaction that records the sandbox as running, so that a process that dies anywhere in between
 * leaves a time that is either still to be met or has been.
 */
import { asAppError, decideWaking, type SandboxId } from '@space/core';
import { Attempts } from './attempts.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';

/** Each takes memory and a VMM's start. */
const PARALLEL_WAKES = 4;
/** Looked at in one round; the others come in the next. */
export const MAX_DUE = 1000;

export class SetWakes {
  readonly #machinery: Machinery;
  readonly #attempts: Attempts<SandboxId>;

  constructor(machinery: Machinery) {
    this.#machinery = machinery;
    this.#attempts = new Attempts(machinery.ports.clock, PARALLEL_WAKES);
  }

  /** What is begun here ends by itself; see `settled`. */
  async round(): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    const nowMs = clock.now();
    const due = await records.sandboxesToWake(new Date(nowMs), MAX_DUE);
    this.#attempts.retain(new Set(due.map(({ id }) => id)));
    for (const sandbox of due) {
      const { id, wakeAt } = sandbox;
      if (wakeAt === null || this.#attempts.isUnderWay(id)) continue;
      const waking = decideWaking(sandbox, wakeAt.getTime(), nowMs);
      if (waking === 'met') await records.wakeMet(id, wakeAt);
      if (waking === 'wake' && this.#attempts.mayTry(id)) this.#begin(sandbox, wakeAt);
    }
  }

  settled(): Promise<void> {
    return this.#attempts.settled();
  }

  #begin({ id }: RecordedSandbox, wakeAt: Date): void {
    this.#attempts.begin(
      id,
      () => this.#wake(id, wakeAt),
      (err) => {
        this.#machinery.ports.logger.warn({ sandboxId: id, err }, 'a sandbox could not be woken at its time');
        return true;
      },
    );
  }

  async #wake(id: SandboxId, wakeAt: Date): Promise<void> {
    const { ports, driver, effects } = this.#machinery;
    try {
      await driver.perform(id, 'use', effects.resume('wake_at'));
    } catch (thrown) {
      // Trying again would fail again. The operation that failed says why.
      if (asAppError(thrown).kind.retry === 'never') await ports.records.wakeMet(id, wakeAt);
      throw thrown;
    }
  }
}
