/** Clock and chance for tests: time goes on by itself a little, chance comes from a seed. */
import type { Chance, Clock } from '@space/core';

export function realClock(): Clock {
  return { now: () => Date.now(), monotonicMs: () => performance.now() };
}

/** Whole numbers from 0 to 2^32 - 1, by a small, well-mixed generator (splitmix32); not for keys. */
export function seededNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state ^ (state >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed ^= mixed >>> 15;
    mixed = Math.imul(mixed, 0x735a2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  };
}

export function seededChance(seed: number): Chance {
  const next = seededNumbers(seed);
  return { bytes: (count) => Uint8Array.from({ length: count }, () => next() & 255) };
}
