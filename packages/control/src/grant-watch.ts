/**
 * Ends what was begun with a key or a share when that is no longer good. While one is in use it is looked up every second,
 * since it may expire, and another process may have revoked it; a revocation of our own is known at once.
 */
import { AppError } from '@space/core';
import type { Logger } from './ports.ts';
import { Repeated } from './repeated.ts';

const LOOK_EVERY_MS = 1_000;

interface Watched {
  readonly stop: AbortController;
  calls: number;
}

export interface Grants<Id> {
  /** Those that are no longer good. */
  endedAmong(ids: readonly Id[]): Promise<readonly Id[]>;
  /** Told to who used one. */
  readonly end: string;
  readonly logger: Logger;
}

export class GrantWatch<Id extends string> {
  readonly #grants: Grants<Id>;
  readonly #watched = new Map<Id, Watched>();
  readonly #looks: Repeated;

  constructor(grants: Grants<Id>) {
    this.#grants = grants;
    this.#looks = new Repeated(
      LOOK_EVERY_MS,
      () => this.#look(),
      (err) => grants.logger.warn({ err }, 'whether keys or shares were revoked is not known; the next look will tell'),
    );
  }

  /** The signal aborts when it ends; `leave` must be called when the call has ended. */
  enter(id: Id): { readonly signal: AbortSignal; readonly leave: () => void } {
    const watched = this.#watched.get(id) ?? { stop: new AbortController(), calls: 0 };
    this.#watched.set(id, watched);
    watched.calls++;
    this.#looks.start();
    let left = false;
    const leave = () => {
      if (left) return;
      left = true;
      watched.calls--;
      if (watched.calls === 0 && this.#watched.get(id) === watched) this.#watched.delete(id);
      if (this.#watched.size === 0) this.close();
    };
    return { signal: watched.stop.signal, leave };
  }

  revoked(id: Id): void {
    const watched = this.#watched.get(id);
    this.#watched.delete(id);
    watched?.stop.abort(new AppError('unauthenticated', this.#grants.end));
  }

  close(): void {
    void this.#looks.stop();
  }

  async #look(): Promise<void> {
    for (const id of await this.#grants.endedAmong([...this.#watched.keys()])) this.revoked(id);
  }
}
