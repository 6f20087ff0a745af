/** The requests that are under way, by the sandbox that they are for, so that they can be broken off with it. */
import type { SandboxId } from '@space/core';
import { type EnvdResponse, resetConnection } from './http.ts';

export class LiveRequests {
  readonly #responses = new Map<SandboxId, Set<EnvdResponse>>();

  /** The signal aborts when the request has ended, for whatever reason. */
  add(sandboxId: SandboxId, response: EnvdResponse): AbortSignal {
    // It may have gone while it was judged.
    if (response.destroyed) return AbortSignal.abort();
    const ended = new AbortController();
    const mine = this.#responses.get(sandboxId) ?? new Set();
    this.#responses.set(sandboxId, mine.add(response));
    response.once('close', () => {
      mine.delete(response);
      if (mine.size === 0 && this.#responses.get(sandboxId) === mine) this.#responses.delete(sandboxId);
      ended.abort();
    });
    return ended.signal;
  }

  breakOff(sandboxId: SandboxId): void {
    for (const response of this.#responses.get(sandboxId) ?? []) resetConnection(response);
  }

  breakOffAll(): void {
    for (const sandboxId of this.#responses.keys()) this.breakOff(sandboxId);
  }
}
