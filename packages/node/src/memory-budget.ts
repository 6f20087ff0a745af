/**
 * Memory is reserved before it is promised: a VM starts only when its whole RAM and the VMM's own memory fit in what the
 * node may give away. The budget is a sum over lives, so it cannot leak: a life that is gone is not in it.
 */
import { AppError, type LifeId } from '@space/core';

/** What a VMM process needs beside the guest's RAM: about 28 MB of anonymous memory, rounded up. */
const VMM_OVERHEAD_MIB = 48;

export class MemoryBudget {
  readonly totalMib: number;
  readonly #reserved = new Map<LifeId, number>();

  constructor(totalMib: number) {
    this.totalMib = totalMib;
  }

  get promisedMib(): number {
    let sum = 0;
    for (const mib of this.#reserved.values()) sum += mib;
    return sum;
  }

  /** Throws `insufficient_memory`. */
  reserve(lifeId: LifeId, memoryMib: number): void {
    const asked = memoryMib + VMM_OVERHEAD_MIB;
    const free = this.totalMib - this.promisedMib;
    if (asked > free) {
      throw new AppError('insufficient_memory', {
        detail: `The sandbox needs ${asked} MiB; ${Math.max(0, free)} of ${this.totalMib} MiB are free on this node.`,
        facts: { askedMib: asked, freeMib: Math.max(0, free), totalMib: this.totalMib },
      });
    }
    this.#reserved.set(lifeId, asked);
  }

  /** Counts a VM that already runs, whether it fits or not. */
  adopt(lifeId: LifeId, memoryMib: number): void {
    this.#reserved.set(lifeId, memoryMib + VMM_OVERHEAD_MIB);
  }

  release(lifeId: LifeId): void {
    this.#reserved.delete(lifeId);
  }
}
