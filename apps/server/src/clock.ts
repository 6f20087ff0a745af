/** Time and chance of this machine, for whoever takes them as ports. */
import { randomBytes } from 'node:crypto';
import type { Chance, Clock } from '@space/core';

export const clock: Clock = { now: () => Date.now(), monotonicMs: () => performance.now() };
export const chance: Chance = { bytes: (count) => randomBytes(count) };
