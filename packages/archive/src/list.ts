/** Which archives there are in a space, and their removal. What they leave is collected (`collect.ts`). */
import {
  AppError,
  type Archive,
  type ArchiveListing,
  type ArchiveRef,
  formatArchiveRef,
  type ProjectId,
  type SandboxId,
} from '@space/core';
import { MAX_INDEX_BYTES } from './format.ts';
import { digestOf } from './pieces.ts';
import { outlineOf } from './sealed-index.ts';

export type ListedArchive = ArchiveListing;

/** Newest first, up to a number; those that cannot be read are among the last. */
export async function listArchives(
  archive: Archive,
  space: ProjectId,
  {
    sandboxId,
    limit,
    signal,
  }: { readonly sandboxId: SandboxId | null; readonly limit: number; readonly signal?: AbortSignal },
): Promise<readonly ListedArchive[]> {
  const found: ListedArchive[] = [];
  for await (const key of archive.list(space, 'indexes', signal)) {
    if (key.kind !== 'index' || (sandboxId !== null && key.sandboxId !== sandboxId)) continue;
    if (found.length === limit) {
      throw new AppError('bad_request', `There are more than ${limit} archives: ask for those of one sandbox.`);
    }
    const one = await describe(archive, key, signal);
    // It was removed meanwhile.
    if (one !== null) found.push(one);
  }
  return found.toSorted((a, b) => (b.madeAt ?? '').localeCompare(a.madeAt ?? ''));
}

async function describe(archive: Archive, ref: ArchiveRef, signal?: AbortSignal): Promise<ListedArchive | null> {
  const { sandboxId } = ref;
  const base = { archive: formatArchiveRef(ref), sandboxId };
  const unreadable = { ...base, madeAt: null, takenAt: null, points: 0, isMove: false };
  try {
    const bytes = await archive.get({ kind: 'index', ...ref }, MAX_INDEX_BYTES, signal);
    if (bytes === null) return null;
    if (digestOf(bytes) !== ref.digest) return { ...unreadable, fault: 'archive_damaged' };
    const { madeAt, takenAt, points, isMove } = outlineOf(bytes);
    return { ...base, madeAt, takenAt, points, isMove, fault: null };
  } catch (thrown) {
    if (!(thrown instanceof AppError) || thrown.code === 'archive_unavailable') throw thrown;
    return { ...unreadable, fault: thrown.code };
  }
}

/** Idempotent. A claim of it stays: what was taken up once is not taken up again. */
export async function removeArchive(archive: Archive, ref: ArchiveRef, signal?: AbortSignal): Promise<void> {
  await archive.remove({ kind: 'index', ...ref }, signal);
}
