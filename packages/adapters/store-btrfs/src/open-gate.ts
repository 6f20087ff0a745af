/**
 * Whether the vault is open, and what still runs on it. Closing waits for operations that have begun and refuses new ones,
 * so that an unmount never meets a half-done one of ours.
 */
import { AppError } from '@space/core';

export class OpenGate {
  #state: 'open' | 'closing' | 'closed' = 'open';
  readonly #running = new Set<Promise<unknown>>();

  run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#state !== 'open') return Promise.reject(new AppError('unavailable', 'The vault is being closed.'));
    const operation = work();
    this.#running.add(operation);
    const done = () => this.#running.delete(operation);
    operation.then(done, done);
    return operation;
  }

  /** Runs `close` once nothing else runs; if it fails, the vault is open as before. Closing twice is fine. */
  async close(close: () => Promise<void>): Promise<void> {
    if (this.#state === 'closed') return;
    if (this.#state === 'closing') throw new AppError('unavailable', 'The vault is being closed.');
    this.#state = 'closing';
    try {
      await Promise.allSettled(this.#running);
      await close();
      this.#state = 'closed';
    } finally {
      if (this.#state === 'closing') this.#state = 'open';
    }
  }
}
