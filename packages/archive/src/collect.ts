/**
 * Removes the pieces of a space that no archive names any more. First all that the indexes name is found, which holds nobody up;
 * then the space is taken (`marks.ts`: a use holds that up, and is held up by it), what came meanwhile is found too, and what lies
 * there is gone through. Broken off at any point, it is begun anew.
 *
 * - An index whose bytes are not what its name says, or no index, can never be imported, and keeps nothing.
 * - One that is whole and of a format that is not known here may be a later version's: then nothing is removed.
 * - A piece that cannot be removed keeps no other from its turn, up to a number in a row.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Packer } from '@space/core';
import { beginCollection, type MarkPlan } from './marks.ts';
import { Names } from './names.ts';

const MAX_FAILURES_IN_A_ROW = 10;

export interface CollectPlan extends MarkPlan {
  /** Left out: threads. */
  readonly packer?: Packer;
  /** After each removal, so that exports elsewhere find the storage free. */
  readonly restMs?: number;
}

export interface Collected {
  readonly removed: number;
  readonly kept: number;
  /** What could not be removed, and is left to the next. */
  readonly resisted: number;
}

/** Null: it is in use, or being collected by somebody else; then not all that could go has gone. Throws `archive_unavailable`, `archive_unsupported`. */
export async function collectSpace(plan: CollectPlan): Promise<Collected | null> {
  const { archive, space, signal } = plan;
  const names = new Names(plan);
  await names.all(async () => true);
  await using collection = await beginCollection(plan);
  if (collection === null) return null;
  const named = await names.all(() => collection.goesOn());
  if (named === null) return null;
  const counts = { removed: 0, kept: 0, resisted: 0 };
  let inARow = 0;
  for await (const key of archive.list(space, 'chunks', signal)) {
    if (!(await collection.goesOn())) return null;
    if (key.kind !== 'chunk' || named.has(key.digest)) {
      counts.kept += 1;
      continue;
    }
    try {
      await archive.remove(key, signal);
      counts.removed += 1;
      inARow = 0;
    } catch (thrown) {
      signal?.throwIfAborted();
      counts.resisted += 1;
      inARow += 1;
      if (inARow === MAX_FAILURES_IN_A_ROW) throw thrown;
    }
    if (plan.restMs !== undefined) await sleep(plan.restMs, undefined, signal === undefined ? {} : { signal });
  }
  return counts;
}
