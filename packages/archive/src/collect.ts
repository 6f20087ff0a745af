/**
 * Removes the pieces of a space that no archive names any more. First all that the indexes name is found, then what lies there is gone
 * through; a use of the space holds that up, and is held up by it (`marks.ts`). Broken off at any point, it is begun anew.
 *
 * - An index whose bytes are not what its name says, or no index, can never be imported, and keeps nothing.
 * - One that is whole and of a format that is not known here may be a later version's: then nothing is removed.
 * - A piece that cannot be removed keeps no other from its turn, up to a number in a row.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, type ArchiveKey, type Digest, type Packer } from '@space/core';
import { Chunks } from './chunks.ts';
import { type ArchivedFile, type ArchiveIndex, MAX_INDEX_BYTES, parseIndex } from './format.ts';
import { beginCollection, type Collection, type MarkPlan } from './marks.ts';
import { digestOf } from './pieces.ts';

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
  await using collection = await beginCollection(plan);
  if (collection === null) return null;
  const { archive, space, signal } = plan;
  const named = await namedBy(plan, collection);
  if (named === null) return null;
  const counts = { removed: 0, kept: 0, resisted: 0 };
  let inARow = 0;
  for await (const key of archive.list(space, 'chunks', signal)) {
    if (!(await collection.goesOn())) return null;
    if (key.kind !== 'chunk' || named.has(shortOf(key.digest))) {
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

type Named = Set<string>;

/** Half the bytes that the text takes: there may be millions. */
function shortOf(digest: Digest): string {
  return Buffer.from(digest, 'hex').toString('latin1');
}

/** Null: somebody waits. */
async function namedBy(plan: CollectPlan, collection: Collection): Promise<Named | null> {
  const { archive, space, signal } = plan;
  const chunks = new Chunks(plan);
  const named: Named = new Set();
  for await (const key of archive.list(space, 'indexes', signal)) {
    const index = await readWhole(plan, key);
    for (const { disk, memory, deviceState } of index?.points ?? []) {
      for (const file of [disk, memory, deviceState]) {
        if (!(await collection.goesOn())) return null;
        if (file !== null) await nameAll(chunks, file, named);
      }
    }
  }
  return named;
}

/** Null: it is none that could be imported. */
async function readWhole({ archive, signal }: CollectPlan, key: ArchiveKey): Promise<ArchiveIndex | null> {
  if (key.kind !== 'index') return null;
  const bytes = await archive.get(key, MAX_INDEX_BYTES, signal).catch(unlessDamaged);
  if (bytes === null || digestOf(bytes) !== key.digest) return null;
  try {
    return parseIndex(bytes);
  } catch (thrown) {
    return unlessDamaged(thrown);
  }
}

/** A part of a table that has been seen names nothing new; one that is missing or damaged names nothing. */
async function nameAll(chunks: Chunks, file: ArchivedFile, named: Named): Promise<void> {
  const isNew = file.table.some((digest) => digest !== null && !named.has(shortOf(digest)));
  for (const digest of file.table) if (digest !== null) named.add(shortOf(digest));
  if (!isNew) return;
  const table = await chunks.getTable(file).catch(unlessDamaged);
  for (let piece = 0; table !== null && piece < table.pieces; piece++) {
    const digest = table.get(piece);
    if (digest !== null) named.add(shortOf(digest));
  }
}

function unlessDamaged(thrown: unknown): null {
  if (thrown instanceof AppError && thrown.code === 'archive_damaged') return null;
  throw thrown;
}
