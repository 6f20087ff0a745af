/**
 * Slows down who tries keys: after some failed attempts in a minute, an address is refused without a look at the key. Of IPv6,
 * all addresses of one owner count as one. A key that worked lately is not refused, so that a flood through a shared proxy
 * locks nobody out. Both tables have a limit; when it is reached, the oldest entry goes.
 */
import { createHash } from 'node:crypto';
import { AppError } from '@space/core';
import { FAILED_ATTEMPTS_PER_MINUTE, KNOWN_ADDRESSES, KNOWN_KEYS } from './limits.ts';
import { ownerOf } from './per-address.ts';

const WINDOW_MS = 60_000;

export class FailedAttempts {
  readonly #now: () => number;
  readonly #attempts = new Map<string, { readonly since: number; count: number }>();
  readonly #worked = new Set<string>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Throws `too_many_attempts`. */
  check(address: string, token: string | undefined): void {
    const owner = ownerOf(address);
    const attempts = this.#attempts.get(owner);
    if (attempts === undefined || attempts.count < FAILED_ATTEMPTS_PER_MINUTE) return;
    if (this.#now() - attempts.since > WINDOW_MS) {
      this.#attempts.delete(owner);
    } else if (token === undefined || !this.#worked.has(digest(token))) {
      throw new AppError('too_many_attempts', 'Wait a minute, then send a valid key.');
    }
  }

  failed(address: string): void {
    const owner = ownerOf(address);
    const before = this.#attempts.get(owner);
    if (before !== undefined && this.#now() - before.since <= WINDOW_MS) {
      before.count++;
      return;
    }
    this.#attempts.delete(owner);
    dropOldest(this.#attempts, KNOWN_ADDRESSES);
    this.#attempts.set(owner, { since: this.#now(), count: 1 });
  }

  succeeded(token: string): void {
    const key = digest(token);
    this.#worked.delete(key);
    dropOldest(this.#worked, KNOWN_KEYS);
    this.#worked.add(key);
  }

  /** For tests: how much is remembered. */
  get size(): { readonly addresses: number; readonly keys: number } {
    return { addresses: this.#attempts.size, keys: this.#worked.size };
  }
}

/** Maps and sets keep the order in which their entries came. */
function dropOldest(table: Map<string, unknown> | Set<string>, limit: number): void {
  if (table.size < limit) return;
  const [oldest] = table.keys();
  if (oldest !== undefined) table.delete(oldest);
}

function digest(token: string): string {
  return createHash('sha256').update(token).digest('base64');
}
