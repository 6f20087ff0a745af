/**
 * Who has taken up a move. A claim is made once and stays for ever, and the storage sees to it that there is one: whoever made it, the
 * sandbox runs there and nowhere else. Who left it undoes the move by a claim of its own.
 */
import { AppError, type Archive, type ArchiveRef } from '@space/core';
import { z } from 'zod';

const KIND = 'space claim';
const FORMAT = 1;
const MAX_CLAIM_BYTES = 1000;

const claim = z.strictObject({ kind: z.literal(KIND), format: z.literal(FORMAT), by: z.string().min(1).max(200) });

/**
 * Returns when the move is the claimant's, also when it was before. Throws `move_taken`; `archive_damaged` when it cannot be told
 * whose it is; `archive_unavailable`, and then it may be the claimant's or not: it is to be claimed again.
 */
export async function claimMove(
  archive: Archive,
  ref: ArchiveRef,
  claimant: string,
  signal?: AbortSignal,
): Promise<void> {
  const key = { kind: 'claim', ...ref } as const;
  await archive.create(key, Buffer.from(`${JSON.stringify({ kind: KIND, format: FORMAT, by: claimant })}\n`), signal);
  // Whoever made it, and if the answer to our own was lost: what is there decides.
  const bytes = await archive.get(key, MAX_CLAIM_BYTES, signal);
  if (bytes === null)
    throw new AppError('archive_unavailable', 'The storage of archives does not show what was put there.');
  if (readClaim(bytes) !== claimant)
    throw new AppError('move_taken', 'The move was taken up by another installation, or undone.');
}

function readClaim(bytes: Uint8Array): string {
  try {
    return claim.parse(JSON.parse(Buffer.from(bytes).toString('utf8'))).by;
  } catch (thrown) {
    throw new AppError('archive_damaged', 'The claim of the move cannot be read.', { cause: thrown });
  }
}
