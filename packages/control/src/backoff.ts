/** When to try again what failed: after a pause that grows with each failure. In memory: a new process tries at once. */
import type { Clock } from '@space/core';

const FIRST_MS = 1_000;
const LAST_MS = 5 * 60_000;

export class Backoff<Key> {
  readonly #clock: Clock;
  readonly #failed = new Map<Key, { readonly pauseMs: number; readonly atMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  mayTry(key: Key): boolean {
    const failed = this.#failed.get(key);
    return failed === undefined || this.#clock.monotonicMs() - failed.atMs >= failed.pauseMs;
  }

  failed(key: Key): void {
    const before = this.#failed.get(key);
    const pauseMs = before === undefined ? FIRST_MS : Math.min(LAST_MS, before.pauseMs * 2);
    this.#failed.set(key, { pauseMs, atMs: this.#clock.monotonicMs() });
  }

  /** It went well, or is no longer of interest. */
  forget(key: Key): void {
    this.#failed.delete(key);
  }

  retain(known: ReadonlySet<Key>): void {
    for (const key of this.#failed.keys()) if (!known.has(key)) this.#failed.delete(key);
  }
}
