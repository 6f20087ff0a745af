/**
 * Wakes sandboxes whose `wakeAt` has come. The decision is core's (`schedule.ts`), the wake the ordinary one. The records
 * clear the time in the transaction that records the sandbox as running, so that a process that dies anywhere in between
 * leaves a time that is either still to be met or has been.
 */
import { asAppError, decideWaking, type SandboxId } from '@space/core';
import { Backoff } from './backoff.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';
import { Slots } from './turns.ts';

/** Each takes memory and a VMM's start. */
const PARALLEL_WAKES = 4;
/** Looked at in one round; the others come in the next. */
export const MAX_DUE = 1000;

export class SetWakes {
  readonly #machinery: Machinery;
  readonly #backoff: Backoff<SandboxId>;
  readonly #slots = new Slots(PARALLEL_WAKES);
  readonly #underWay = new Map<SandboxId, Promise<void>>();

  constructor(machinery: Machinery) {
    this.#machinery = machinery;
    this.#backoff = new Backoff(machinery.ports.clock);
  }

  /** What is begun here ends by itself; see `settled`. */
  async round(): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    const nowMs = clock.now();
    const due = await records.sandboxesToWake(new Date(nowMs), MAX_DUE);
    this.#backoff.retain(new Set(due.map(({ id }) => id)));
    for (const sandbox of due) {
      const { id, wakeAt } = sandbox;
      if (wakeAt === null || this.#underWay.has(id)) continue;
      const waking = decideWaking(sandbox, wakeAt.getTime(), nowMs);
      if (waking === 'met') await records.wakeMet(id, wakeAt);
      if (waking === 'wake' && this.#backoff.mayTry(id)) this.#begin(sandbox, wakeAt);
    }
  }

  async settled(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  #begin({ id }: RecordedSandbox, wakeAt: Date): void {
    const attempt = this.#slots
      .take(() => this.#wake(id, wakeAt))
      .catch((err: unknown) => {
        this.#backoff.failed(id);
        this.#machinery.ports.logger.warn({ sandboxId: id, err }, 'a sandbox could not be woken at its time');
      })
      .finally(() => this.#underWay.delete(id));
    this.#underWay.set(id, attempt);
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
