/** Chance under a seed, in the forms that a schedule is drawn in. */
import { seededNumbers } from '@space/testkit';

export class Random {
  readonly #next: () => number;

  constructor(seed: number) {
    this.#next = seededNumbers(seed);
  }

  /** From 0 up to 1. */
  part(): number {
    return this.#next() / 2 ** 32;
  }

  /** Whole, from 0 up to below `limit`. */
  below(limit: number): number {
    return Math.floor(this.part() * limit);
  }

  happens(probability: number): boolean {
    return this.part() < probability;
  }

  pick<T>(from: readonly T[]): T | undefined {
    return from[this.below(from.length)];
  }

  /** By weight. */
  weighted<K extends string>(weights: Readonly<Record<K, number>>): K {
    const entries = Object.entries(weights) as [K, number][];
    let left = this.part() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of entries) {
      left -= weight;
      if (left < 0) return name;
    }
    throw new Error('there is nothing to choose from');
  }
}
