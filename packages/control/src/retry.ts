/** Repeats what failed for want of the database or the node, with growing pauses: both are back within a second or two. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, type ErrorCode } from '@space/core';

const PAUSES_MS = [20, 100, 300, 800, 1500];
const ABSENCES: readonly ErrorCode[] = ['unavailable', 'node_unavailable'];

export async function retryUnavailable<T>(attempt: () => Promise<T>): Promise<T> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await attempt();
    } catch (thrown) {
      if (!(thrown instanceof AppError) || !ABSENCES.includes(thrown.code)) throw thrown;
      await sleep(pauseMs);
    }
  }
  return attempt();
}
