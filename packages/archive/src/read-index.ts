/** From the name of an archive to what it says, all checked. */
import {
  AppError,
  type Archive,
  type ArchiveRef,
  formatArchiveRef,
  type KeyBytes,
  type SizeLimits,
  type WrappedArchiveKey,
} from '@space/core';
import { type ArchiveIndex, checkSizes, MAX_INDEX_BYTES } from './format.ts';
import { digestOf } from './pieces.ts';
import { openIndex, outlineOf } from './sealed-index.ts';

/**
 * Throws `not_found`, `archive_damaged`, `archive_unsupported`, `size_impossible`, `vault_key_wrong`. What the index names has not been
 * looked for. `key`: of an archive that is encrypted.
 */
export async function readIndex(
  archive: Archive,
  ref: ArchiveRef,
  { limits, key = null, signal }: ReadOptions,
): Promise<ArchiveIndex> {
  const index = openIndex(await fetchIndex(archive, ref, signal), ref, key);
  if (index.sandboxId !== ref.sandboxId) {
    throw new AppError('archive_damaged', `The archive is one of ${index.sandboxId} and not of ${ref.sandboxId}.`);
  }
  checkSizes(index, limits);
  return index;
}

interface ReadOptions {
  readonly limits: SizeLimits;
  readonly key?: KeyBytes | null;
  readonly signal?: AbortSignal;
}

/** The key that it is encrypted with, as it was wrapped; null: it is not. Throws as `readIndex`. */
export async function readArchiveKey(
  archive: Archive,
  ref: ArchiveRef,
  signal?: AbortSignal,
): Promise<WrappedArchiveKey | null> {
  return outlineOf(await fetchIndex(archive, ref, signal)).key;
}

async function fetchIndex(archive: Archive, ref: ArchiveRef, signal: AbortSignal | undefined): Promise<Uint8Array> {
  const bytes = await archive.get({ kind: 'index', ...ref }, MAX_INDEX_BYTES, signal);
  if (bytes === null) throw new AppError('not_found', `There is no archive ${formatArchiveRef(ref)}.`);
  if (digestOf(bytes) === ref.digest) return bytes;
  throw new AppError('archive_damaged', `The index of the archive is not ${ref.digest}: it was changed.`);
}
