/**
 * When a vault runs out of room: what stands still before it does. Pure.
 *
 * A guest's memory is a file in the vault. After a snapshot each page that the guest writes needs a new block, and a write
 * that finds none kills its VMM. So vCPUs are stopped while there is still room: what stands still takes none.
 *
 * ```
 *   available ──────────────────────────────────────────────────────────────────────► 0
 *     all is well │ nothing new: no sandbox,   │ who fills its disk     │ all stand
 *                 │ snapshot, fork or resume   │ stands still           │ still
 *             memory of all lives            3 × edge                  edge
 *             + 3 × edge
 * ```
 *
 * Between the last two, memory that is rewritten takes blocks which the file system has back at its next commit only. What was
 * stopped at the edge goes on at twice the edge, so that one who filled a vault does not hold up those who only compute.
 *
 * The memory of a life is promised to it, disks are not: so disks give way first, and a guest that only computes goes on.
 */
import type { LifeId } from './ids.ts';

/**
 * What guests may take between two looks and the stop that follows: 1 GB/s was measured for one process that writes to
 * memory after a snapshot, and a look may be late by a quarter of a second.
 */
const MAX_RATE_BYTES_PER_MS = 1_000_000;
const EDGE_BYTES = 256 * 1024 * 1024;
/** Of a small vault the edge is no more than this part. */
const EDGE_PART = 1 / 16;

/** While something runs: the nearer the edge, the sooner the next look. */
const MIN_LOOK_MS = 25;
const MAX_LOOK_MS = 1_000;
/** While something stands still, and between two that go on: what the first takes is seen before the next. */
const RELEASE_LOOK_MS = 250;
/** Writes below this between two looks are not what fills a vault, */
const WRITER_BYTES = 64 * 1024;
/** nor are those below this part of what is left above the edge: a new file system, say, zeroes its tables bit by bit. */
const WRITER_PART = 1 / 32;

export interface SpaceMarks {
  /** Below it all vCPUs stand still. */
  readonly edgeBytes: number;
  /** From it on who was stopped at the edge, and did not write, may go on. */
  readonly restBytes: number;
  /** Below it those that write to their disks do, and nothing new is let in. */
  readonly writersBytes: number;
  /** From it on who wrote may go on. */
  readonly calmBytes: number;
}

export function spaceMarks(totalBytes: number): SpaceMarks {
  const edgeBytes = Math.floor(Math.min(EDGE_BYTES, totalBytes * EDGE_PART));
  return { edgeBytes, restBytes: 2 * edgeBytes, writersBytes: 3 * edgeBytes, calmBytes: 4 * edgeBytes };
}

export interface WatchedLife {
  readonly lifeId: LifeId;
  readonly memoryBytes: number;
  /** Null: it runs. Else what it was stopped as. */
  readonly stopped: 'writer' | 'all' | null;
  /** Written to its disk since the look before; 0 when it is not known. */
  readonly writtenBytes: number;
}

export interface SpaceVerdict {
  /** Less is left than is promised: snapshots should go. */
  readonly short: boolean;
  /** Those whose vCPUs are to stand still, and as what. */
  readonly stop: readonly { readonly lifeId: LifeId; readonly as: 'writer' | 'all' }[];
  /** At most one at a time. */
  readonly letGoOn: LifeId | null;
  readonly nextLookMs: number;
}

export function judgeSpace(
  space: { readonly totalBytes: number; readonly availableBytes: number },
  lives: readonly WatchedLife[],
): SpaceVerdict {
  const { availableBytes } = space;
  const { edgeBytes, writersBytes } = spaceMarks(space.totalBytes);
  const promised = lives.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
  const running = lives.filter(({ stopped }) => stopped === null);
  const stop = whoStops(availableBytes, { edgeBytes, writersBytes }, running);
  const first = stop.length > 0 ? undefined : lives.find((life) => mayGoOn(space, life));
  return {
    short: availableBytes < promised + writersBytes,
    stop,
    letGoOn: first?.lifeId ?? null,
    nextLookMs: nextLook(availableBytes - edgeBytes, running.length, lives.length),
  };
}

/** Whether a life that was stopped has room again. Who did not write needs less than who did. */
export function mayGoOn(
  { totalBytes, availableBytes }: { readonly totalBytes: number; readonly availableBytes: number },
  { stopped }: Pick<WatchedLife, 'stopped'>,
): boolean {
  const { restBytes, calmBytes } = spaceMarks(totalBytes);
  return stopped !== null && availableBytes >= (stopped === 'writer' ? calmBytes : restBytes);
}

function whoStops(
  availableBytes: number,
  { edgeBytes, writersBytes }: Pick<SpaceMarks, 'edgeBytes' | 'writersBytes'>,
  running: readonly WatchedLife[],
): SpaceVerdict['stop'] {
  if (availableBytes < edgeBytes) {
    return running.map(({ lifeId, writtenBytes }) => ({ lifeId, as: writtenBytes >= WRITER_BYTES ? 'writer' : 'all' }));
  }
  if (availableBytes >= writersBytes) return [];
  const least = Math.max(WRITER_BYTES, (availableBytes - edgeBytes) * WRITER_PART);
  const most = running.reduce((max, { writtenBytes }) => Math.max(max, writtenBytes), least);
  return running.filter(({ writtenBytes }) => writtenBytes === most).map(({ lifeId }) => ({ lifeId, as: 'writer' }));
}

function nextLook(distanceBytes: number, running: number, watched: number): number {
  const soon = running < watched ? RELEASE_LOOK_MS : MAX_LOOK_MS;
  if (running === 0) return soon;
  const reachedMs = Math.floor(distanceBytes / MAX_RATE_BYTES_PER_MS);
  return Math.min(soon, Math.max(MIN_LOOK_MS, reachedMs));
}
