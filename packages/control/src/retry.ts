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

/** A storage of archives that fails for a moment; each time it goes on with what is missing. */
const STORAGE_PAUSES_MS = [1_000, 3_000, 10_000, 30_000];

export async function goOn<T>(attempt: () => Promise<T>): Promise<T> {
  for (const pauseMs of STORAGE_PAUSES_MS) {
    try {
      return await attempt();
    } catch (thrown) {
      if (!(thrown instanceof AppError) || thrown.code !== 'archive_unavailable') throw thrown;
      await sleep(pauseMs);
    }
  }
  return attempt();
}
