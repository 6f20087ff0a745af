/** What rounds begin, and do not wait for: once at a time for each, a few at once, and what failed after a pause that grows. */
import type { Clock } from '@space/core';
import { Backoff } from './backoff.ts';
import { Slots } from './turns.ts';

export class Attempts<Key> {
  readonly #backoff: Backoff<Key>;
  readonly #slots: Slots;
  readonly #underWay = new Map<Key, Promise<void>>();

  constructor(clock: Clock, parallel: number) {
    this.#backoff = new Backoff(clock);
    this.#slots = new Slots(parallel);
  }

  isUnderWay(key: Key): boolean {
    return this.#underWay.has(key);
  }

  /** Whether it has not failed just now. */
  mayTry(key: Key): boolean {
    return this.#backoff.mayTry(key);
  }

  /** Failures of all others are forgotten. */
  retain(known: ReadonlySet<Key>): void {
    this.#backoff.retain(known);
  }

  /** `failed` says whether that was a failure of it, to be waited after. */
  begin(key: Key, work: () => Promise<void>, failed: (thrown: unknown) => boolean): void {
    const attempt = this.#slots
      .take(work)
      .catch((thrown: unknown) => {
        if (failed(thrown)) this.#backoff.failed(key);
      })
      .finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, attempt);
  }

  /** When what is under way has ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }
}
