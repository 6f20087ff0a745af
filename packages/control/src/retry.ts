/** Repeats what failed as `unavailable`, a few times with growing pauses: a private database is back within a second. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '@space/core';

const PAUSES_MS = [20, 100, 300, 800, 1500];

export async function retryUnavailable<T>(attempt: () => Promise<T>): Promise<T> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await attempt();
    } catch (thrown) {
      if (!(thrown instanceof AppError) || thrown.code !== 'unavailable') throw thrown;
      await sleep(pauseMs);
    }
  }
  return attempt();
}
