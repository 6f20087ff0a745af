/** The part of the records that says where archives may have left pieces that nothing names any more. */
import type { ProjectId } from '@space/core';

export interface ToCollect {
  readonly projectId: ProjectId;
  readonly location: string;
  readonly askedAt: Date;
}

export interface ArchiveRecords {
  /** Written before anything is removed or sent, so that a process that dies leaves it to the next. Says whether nobody had asked. */
  ask(space: ToCollect): Promise<boolean>;
  /** Those that wait longest first. */
  asked(limit: number): Promise<readonly ToCollect[]>;
  /** Unless it was asked for again meanwhile. */
  collected(space: ToCollect): Promise<void>;
}
