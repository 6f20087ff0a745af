/**
 * Memory is reserved before it is promised: a VM starts only when its whole RAM and the VMM's own memory fit in what the
 * node may give away. The budget is a sum over lives, and over sandboxes that are about to get one, so it cannot leak: a
 * life that is gone is not in it, and a sandbox that gets none is in it for a while only.
 */
import { AppError, type Clock, type LifeId, MEMORY_RESERVED_MS, type MemoryClaim, type SandboxId } from '@space/core';

/** What a VMM process needs beside the guest's RAM: about 28 MB of anonymous memory, rounded up. */
const VMM_OVERHEAD_MIB = 48;

interface Claimed {
  readonly mib: number;
  readonly untilMs: number;
}

export class MemoryBudget {
  readonly totalMib: number;
  readonly #clock: Clock;
  readonly #lives = new Map<LifeId, number>();
  readonly #claimed = new Map<SandboxId, Claimed>();

  constructor(totalMib: number, clock: Clock) {
    this.totalMib = totalMib;
    this.#clock = clock;
  }

  get promisedMib(): number {
    const nowMs = this.#clock.monotonicMs();
    let sum = 0;
    for (const mib of this.#lives.values()) sum += mib;
    for (const [sandboxId, { mib, untilMs }] of this.#claimed) {
      if (untilMs > nowMs) sum += mib;
      else this.#claimed.delete(sandboxId);
    }
    return sum;
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

  /** For a life of the sandbox, which takes up what it has claimed. Throws `insufficient_memory`. */
  reserve(lifeId: LifeId, memoryMib: number, sandboxId: SandboxId): void {
    this.#claimed.delete(sandboxId);
    const asked = memoryMib + VMM_OVERHEAD_MIB;
    this.#checkFree(asked);
    this.#lives.set(lifeId, asked);
  }

  /** Counts a VM that already runs, whether it fits or not. */
  adopt(lifeId: LifeId, memoryMib: number): void {
    this.#lives.set(lifeId, memoryMib + VMM_OVERHEAD_MIB);
  }

  release(lifeId: LifeId): void {
    this.#lives.delete(lifeId);
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
