/**
 * The part of the records that says when sandboxes are woken again and again, and what came of it.
 *
 * - A time of a schedule is claimed by one run: claiming moves the schedule on to its next time in the same transaction, by
 *   compare-and-set, so that a time is neither lost nor met twice, whoever dies in between.
 * - The process of a run has its id from the claim on. A guest starts an id once, so a start whose end is not known can be
 *   made again.
 * - Of the runs that have ended, the newest `KEPT_RUNS` of each schedule are kept. All goes with its sandbox.
 */
import type { CatchUp, ErrorCode, ProcessEnd, ProcessId, ProjectId, RunId, SandboxId, ScheduleId } from '@space/core';

export const KEPT_RUNS = 10;

export interface ScheduledCommand {
  readonly command?: string;
  readonly argv?: readonly string[];
  readonly cwd?: string;
  readonly user?: string;
  readonly timeoutMs?: number;
}

export interface RecordedSchedule {
  readonly id: ScheduleId;
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly cron: string;
  readonly timeZone: string;
  /** Null: the sandbox is only woken. */
  readonly exec: ScheduledCommand | null;
  readonly catchUp: CatchUp;
  readonly enabled: boolean;
  /** Null: it does not come again, or is not enabled. */
  readonly nextRunAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** `missed`, `skipped`: nothing was done. `interrupted`: it was begun, and how it ended is not known. */
export type RunOutcome = 'succeeded' | 'failed' | 'skipped' | 'missed' | 'interrupted';

export interface RecordedRun {
  readonly id: RunId;
  readonly scheduleId: ScheduleId;
  readonly sandboxId: SandboxId;
  readonly dueAt: Date;
  readonly claimedAt: Date;
  /** Of its command; null: it has none. */
  readonly processId: ProcessId | null;
  /** When the command was seen to run. */
  readonly startedAt: Date | null;
  readonly endedAt: Date | null;
  readonly outcome: RunOutcome | null;
  /** How the command ended. */
  readonly end: ProcessEnd | null;
  readonly errorCode: ErrorCode | null;
}

export type ScheduleChanges = Partial<
  Pick<RecordedSchedule, 'cron' | 'timeZone' | 'exec' | 'catchUp' | 'enabled' | 'nextRunAt'>
>;

export interface RunInProgress {
  readonly run: RecordedRun;
  readonly schedule: RecordedSchedule;
}

export interface ScheduleRecords {
  /** Throws `limit_reached` when the sandbox has `max` already, `not_found` when it is deleted. */
  add(schedule: RecordedSchedule, max: number): Promise<void>;
  find(sandboxId: SandboxId, id: ScheduleId): Promise<RecordedSchedule | null>;
  /** Oldest first. */
  list(sandboxId: SandboxId): Promise<readonly RecordedSchedule[]>;
  /** Null: it is gone. */
  update(id: ScheduleId, changes: ScheduleChanges, at: Date): Promise<RecordedSchedule | null>;
  /** With its runs; false: it is gone. */
  remove(id: ScheduleId): Promise<boolean>;

  /** Whose next time has come, those that wait longest first. */
  due(at: Date, limit: number): Promise<readonly RecordedSchedule[]>;
  /** Records the run, and moves the schedule on from `run.dueAt` to `next`. False: somebody else has, or it was changed. */
  claim(run: RecordedRun, next: Date | null): Promise<boolean>;
  /** All that have not ended. */
  inProgress(): Promise<readonly RunInProgress[]>;
  /** False: it is gone, or has ended. */
  updateRun(
    id: RunId,
    changes: Partial<Pick<RecordedRun, 'startedAt' | 'endedAt' | 'outcome' | 'end' | 'errorCode'>>,
  ): Promise<boolean>;
  /** Newest first. */
  runsOf(ids: readonly ScheduleId[]): Promise<readonly RecordedRun[]>;
}
