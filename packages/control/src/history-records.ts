/**
 * The part of the records that history is made of beside the snapshots themselves: what was forked from them, when none was
 * taken, and which points are still to be removed from their vault.
 *
 * A point that goes is dropped from the snapshots and *doomed* in one transaction: from then on nobody finds it, and it is
 * removed from its vault however often that has to be tried.
 */
import type { ErrorCode, ProjectId, SandboxId, SnapshotId, VaultName } from '@space/core';
import type { AgingSnapshot, Archiving, RecordedSandbox, RecordedSnapshot } from './records.ts';

export interface DoomedPoint {
  readonly id: SnapshotId;
  readonly vault: VaultName;
  /** Removals that failed. */
  readonly attempts: number;
}

export interface RecordedSkip {
  readonly at: Date;
  readonly code: ErrorCode;
}

export interface RecordedFork {
  readonly sandboxId: SandboxId;
  readonly name: string | null;
  readonly from: SnapshotId;
}

export interface DoomedAmong {
  readonly except?: readonly SnapshotId[];
  /** Left out: of whichever vault. */
  readonly among?: readonly VaultName[];
}

export interface HistoryRecords {
  /** The newest of a sandbox in sandbox time, in whatever state. */
  newest(sandboxId: SandboxId): Promise<RecordedSnapshot | null>;
  /** The newest good one of a generation: the next one follows it. */
  tip(sandboxId: SandboxId, generation: number): Promise<RecordedSnapshot | null>;
  /** What retention asks of the points of a sandbox, oldest first, whatever their state; there may be ten thousand. */
  aging(sandboxId: SandboxId): Promise<readonly AgingSnapshot[]>;
  /** The newest good one that was taken at or before a time on the clock. */
  newestAt(sandboxId: SandboxId, at: Date): Promise<RecordedSnapshot | null>;

  /** Drops the snapshots, and dooms their points; `because` is told with it. Idempotent. */
  doom(ids: readonly SnapshotId[], at: Date, because?: ErrorCode): Promise<void>;
  /** Dooms a point that no snapshot is recorded of. Idempotent. */
  doomUnknown(vault: VaultName, id: SnapshotId, at: Date): Promise<void>;
  /** Those to be removed now, in the order in which they were doomed; `except`: none of these. */
  doomed(limit: number, now: Date, which?: DoomedAmong): Promise<readonly DoomedPoint[]>;
  removed(id: SnapshotId): Promise<void>;
  /** It could not be removed, and is tried again then. */
  resisted(id: SnapshotId, again: Date): Promise<void>;
  /** Which of the points are recorded, as a snapshot or as doomed. */
  known(ids: readonly SnapshotId[]): Promise<ReadonlySet<SnapshotId>>;
  /** Asked for before a time and never completed, by no operation that is still in flight. */
  abandoned(before: Date, limit: number): Promise<readonly SnapshotId[]>;

  /** Good ones of the vaults, or of all, whose last check, or else whose instant, was before a time: longest ago first. */
  unchecked(before: Date, limit: number, among?: readonly VaultName[]): Promise<readonly RecordedSnapshot[]>;
  /** All of it was read and found good. */
  checked(id: SnapshotId, at: Date): Promise<void>;
  /** It cannot be restored, and whoever listens is told. Nothing, when it is gone or known to be bad. */
  spoilt(id: SnapshotId, reason: string, at: Date): Promise<void>;

  /** How an attempt at a regular archive went; told to whoever listens. Nothing else of the sandbox changes. */
  noteArchiving(sandbox: Pick<RecordedSandbox, 'id' | 'projectId'>, archiving: Archiving, at: Date): Promise<void>;
  /** Tells that the schedule took none. */
  noteSkip(sandbox: Pick<RecordedSandbox, 'id' | 'projectId'>, skip: RecordedSkip): Promise<void>;
  /** Newest first; after the one time, up to the other. */
  skips(
    sandbox: Pick<RecordedSandbox, 'id' | 'projectId'>,
    over: { readonly after: Date | null; readonly until: Date | null },
    limit: number,
  ): Promise<readonly RecordedSkip[]>;
  /** Live sandboxes of the project whose timelines begin at one of the points. */
  forksFrom(projectId: ProjectId, ids: readonly SnapshotId[]): Promise<readonly RecordedFork[]>;
  /** Drops from the journal what nobody asked for and has ended. */
  dropUnasked(before: Date): Promise<void>;
}
