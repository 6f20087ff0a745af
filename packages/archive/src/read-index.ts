/** From the name of an archive to what it says, all checked. */
import { AppError, type Archive, type ArchiveRef, formatArchiveRef, type SizeLimits } from '@space/core';
import { type ArchiveIndex, checkSizes, MAX_INDEX_BYTES, parseIndex } from './format.ts';
import { digestOf } from './pieces.ts';

/**
 * Throws `not_found`, `archive_damaged`, `archive_unsupported`, `size_impossible`. What the index names has not been looked
 * for.
 */
export async function readIndex(
  archive: Archive,
  ref: ArchiveRef,
  limits: SizeLimits,
  signal?: AbortSignal,
): Promise<ArchiveIndex> {
  const bytes = await archive.get({ kind: 'index', ...ref }, MAX_INDEX_BYTES, signal);
  if (bytes === null) throw new AppError('not_found', `There is no archive ${formatArchiveRef(ref)}.`);
  if (digestOf(bytes) !== ref.digest) {
    throw new AppError('archive_damaged', `The index of the archive is not ${ref.digest}: it was changed.`);
  }
  const index = parseIndex(bytes);
  if (index.sandboxId !== ref.sandboxId) {
    throw new AppError('archive_damaged', `The archive is one of ${index.sandboxId} and not of ${ref.sandboxId}.`);
  }
  checkSizes(index, limits);
  return index;
}
