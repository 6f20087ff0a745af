/**
 * Memory is reserved before it is promised: a VM starts only when its whole RAM and the VMM's own memory fit in what the
 * node may give away. The budget is a sum over lives, and over sandboxes that are about to get one, so it cannot leak: a
 * life that is gone is not in it, and a sandbox that gets none is in it for a while only.
 *
 * Spare lives, which belong to nobody yet, are promised nothing: they take what is free, and what they take beyond that
 * (`excessMib`) is to be given back before it is used by whom it was promised to.
 */
import { AppError, type Clock, type LifeId, MEMORY_RESERVED_MS, type MemoryClaim, type SandboxId } from '@space/core';

/** What a VMM process needs beside the guest's RAM: about 28 MB of anonymous memory, rounded up. */
export const VMM_OVERHEAD_MIB = 48;

interface Claimed {
  readonly mib: number;
  readonly untilMs: number;
}

export class MemoryBudget {
  readonly totalMib: number;
  readonly #clock: Clock;
  readonly #lives = new Map<LifeId, number>();
  readonly #spares = new Map<LifeId, number>();
  readonly #claimed = new Map<SandboxId, Claimed>();

  constructor(totalMib: number, clock: Clock) {
    this.totalMib = totalMib;
    this.#clock = clock;
  }

  get promisedMib(): number {
    const nowMs = this.#clock.monotonicMs();
    let sum = sumOf(this.#lives);
    for (const [sandboxId, { mib, untilMs }] of this.#claimed) {
      if (untilMs > nowMs) sum += mib;
      else this.#claimed.delete(sandboxId);
    }
    return sum;
  }

  /** Taken by spare lives. */
  get spareMib(): number {
    return sumOf(this.#spares);
  }

  get freeMib(): number {
    return Math.max(0, this.totalMib - this.promisedMib - this.spareMib);
  }

  /** What spare lives take of what is promised to others. */
  get excessMib(): number {
    return Math.max(0, Math.min(this.spareMib, this.promisedMib + this.spareMib - this.totalMib));
  }

  /** All or none. Throws `insufficient_memory`. */
  claim(claims: readonly MemoryClaim[]): void {
    this.#checkFree(claims.reduce((sum, { memoryMib }) => sum + memoryMib + VMM_OVERHEAD_MIB, 0));
    const untilMs = this.#clock.monotonicMs() + MEMORY_RESERVED_MS;
    for (const { sandboxId, memoryMib } of claims) {
      this.#claimed.set(sandboxId, { mib: memoryMib + VMM_OVERHEAD_MIB, untilMs });
    }
  }

  unclaim(sandboxIds: readonly SandboxId[]): void {
    for (const sandboxId of sandboxIds) this.#claimed.delete(sandboxId);
  }

  /** For a life of the sandbox, which takes up what it has claimed; a spare one is none any more. Throws `insufficient_memory`. */
  reserve(lifeId: LifeId, memoryMib: number, sandboxId: SandboxId): void {
    this.#claimed.delete(sandboxId);
    const asked = memoryMib + VMM_OVERHEAD_MIB;
    this.#checkFree(asked);
    this.#spares.delete(lifeId);
    this.#lives.set(lifeId, asked);
  }

  /** For a life that nobody owns. Throws `insufficient_memory` when that much is not free. */
  reserveSpare(lifeId: LifeId, memoryMib: number): void {
    const asked = memoryMib + VMM_OVERHEAD_MIB;
    this.#checkFree(asked + this.spareMib);
    this.#spares.set(lifeId, asked);
  }

  /** Counts a VM that already runs, whether it fits or not. */
  adopt(lifeId: LifeId, memoryMib: number): void {
    this.#lives.set(lifeId, memoryMib + VMM_OVERHEAD_MIB);
  }

  release(lifeId: LifeId): void {
    this.#lives.delete(lifeId);
    this.#spares.delete(lifeId);
  }

  #checkFree(askedMib: number): void {
    const freeMib = Math.max(0, this.totalMib - this.promisedMib);
    if (askedMib <= freeMib) return;
    throw new AppError('insufficient_memory', {
      detail: `That needs ${askedMib} MiB; ${freeMib} of ${this.totalMib} MiB are free on this node.`,
      facts: { askedMib, freeMib, totalMib: this.totalMib },
    });
  }
}

function sumOf(counts: ReadonlyMap<LifeId, number>): number {
  return counts.values().reduce((sum, mib) => sum + mib, 0);
}
