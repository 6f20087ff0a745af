/**
 * Ends the calls of keys that are revoked. While a key has calls open, it is looked up every second, since another process
 * may have revoked it; a revocation of our own is known at once.
 */
import { type ApiKeyId, AppError } from '@space/core';
import type { ControlPorts } from './ports.ts';

const LOOK_EVERY_MS = 1_000;

interface Watched {
  readonly stop: AbortController;
  calls: number;
}

export class KeyWatch {
  readonly #ports: Pick<ControlPorts, 'records' | 'logger'>;
  readonly #watched = new Map<ApiKeyId, Watched>();
  #timer: NodeJS.Timeout | undefined;

  constructor(ports: Pick<ControlPorts, 'records' | 'logger'>) {
    this.#ports = ports;
  }

  /** The signal aborts when the key is revoked; `leave` must be called when the call has ended. */
  enter(id: ApiKeyId): { readonly signal: AbortSignal; readonly leave: () => void } {
    const watched = this.#watched.get(id) ?? { stop: new AbortController(), calls: 0 };
    this.#watched.set(id, watched);
    watched.calls++;
    this.#timer ??= setInterval(() => void this.#look(), LOOK_EVERY_MS).unref();
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

  revoked(id: ApiKeyId): void {
    const watched = this.#watched.get(id);
    this.#watched.delete(id);
    watched?.stop.abort(new AppError('unauthenticated', 'The key was revoked.'));
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #look(): Promise<void> {
    try {
      for (const id of await this.#ports.records.tenants.revokedAmong([...this.#watched.keys()])) this.revoked(id);
    } catch (err) {
      this.#ports.logger.warn({ err }, 'whether keys were revoked is not known; the next look will tell');
    }
  }
}
