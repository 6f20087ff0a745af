/**
 * When a sandbox is archived by itself, again. The time of the last attempt lies in the records, on a clock that may be set: so it is
 * compared with care, and a platform that was away for hours begins at once.
 */

/** What is known of the regular archives of a sandbox. */
export interface ArchivingTrack {
  /** When the last attempt ended, on the clock; null: there was none. */
  readonly triedAtMs: number | null;
  /** How long it took. */
  readonly tookMs: number;
  /** Attempts in a row that failed, up to the last. */
  readonly failures: number;
}

const MIN_RETRY_MS = 30_000;
const MAX_DOUBLINGS = 20;
/** Reading a sandbox takes time of the disk from all who share it: no more than half of the time goes into it. */
const REST_PER_ARCHIVE = 1;

/** A failure is tried again sooner than the next is due, and later each time. */
export function archiveWaitMs({ tookMs, failures }: ArchivingTrack, everyMs: number): number {
  const backOffMs = MIN_RETRY_MS * 2 ** Math.min(Math.max(0, failures - 1), MAX_DOUBLINGS);
  const waitMs = failures === 0 ? everyMs : Math.min(everyMs, backOffMs);
  return Math.max(waitMs, tookMs * REST_PER_ARCHIVE);
}

/** By how much it is overdue; negative: it is not due yet. */
export function archiveOverdueMs(track: ArchivingTrack, everyMs: number, nowMs: number): number {
  const { triedAtMs } = track;
  // The clock was set back: when that was, nobody knows.
  if (triedAtMs === null || triedAtMs > nowMs) return 0;
  return nowMs - triedAtMs - archiveWaitMs(track, everyMs);
}
