/**
 * The part of the records that says what was asked for and decided. Of one request, by its digest, of one generation of one
 * sandbox, at most one approval waits or holds at a time. What an approval may become is core's table; each step is taken once,
 * whoever tries it at the same moment, and is told as an event with it. A sandbox that goes back, leaves or is deleted voids
 * what waits or was not used in the same transaction.
 */
import type {
  ApiKeyId,
  ApprovalId,
  ApprovalLimits,
  ApprovalState,
  ErrorCode,
  OrganisationId,
  ProjectId,
  SandboxId,
  ShownRequest,
  SnapshotId,
} from '@space/core';
import type { Page, PageRequest } from './records.ts';

export interface RecordedApproval {
  readonly id: ApprovalId;
  readonly organisationId: OrganisationId;
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly generation: number;
  /** Of the whole request, in hex. */
  readonly digest: string;
  /** That asks for it. */
  readonly rule: string;
  readonly request: ShownRequest;
  readonly state: ApprovalState;
  readonly requestedAt: Date;
  /** Until then it waits, may be used, or, when it was denied, is not asked for again. */
  readonly expiresAt: Date;
  readonly decidedBy: ApiKeyId | null;
  readonly decidedAt: Date | null;
  /** What the reviewer said. */
  readonly reason: string | null;
  /** When it was used, has expired or became void. */
  readonly endedAt: Date | null;
  /** The held request that it was used for, by the name that the gateway has for it. */
  readonly usedFor: string | null;
  /** The point before it was used, or why there is none. */
  readonly snapshot: SnapshotBefore | null;
}

export type SnapshotBefore = { readonly id: SnapshotId } | { readonly code: ErrorCode };

export type NewApproval = Pick<
  RecordedApproval,
  'id' | 'organisationId' | 'projectId' | 'sandboxId' | 'digest' | 'rule' | 'request' | 'requestedAt' | 'expiresAt'
> & {
  /** The held request that asks. */
  readonly askedBy: string;
};

export interface ApprovalDecision {
  readonly step: 'approve' | 'deny';
  readonly by: ApiKeyId;
  readonly reason: string | null;
  readonly at: Date;
  readonly expiresAt: Date;
}

export interface ApprovalRecords {
  /**
   * What holds for the request now: what waits, was approved or denied and has not expired, or was used for the very one that
   * asks; else it is asked for anew. Throws `limit_reached` when too many wait, `not_found` when the sandbox is gone.
   */
  ask(fresh: NewApproval, limits: ApprovalLimits): Promise<RecordedApproval>;
  find(id: ApprovalId): Promise<RecordedApproval | null>;
  /** Newest first. */
  list(
    page: PageRequest & {
      readonly projectId: ProjectId;
      readonly sandboxId?: SandboxId;
      readonly state?: ApprovalState;
    },
  ): Promise<Page<RecordedApproval>>;
  /** Null: it does not wait any more. */
  decide(id: ApprovalId, decision: ApprovalDecision): Promise<RecordedApproval | null>;
  /** Null: it may not be used, or not any more. */
  use(
    id: ApprovalId,
    use: { readonly usedFor: string; readonly snapshot: SnapshotBefore | null; readonly at: Date },
  ): Promise<RecordedApproval | null>;
  /** What it was used for was never sent. False: it was used for something else. */
  release(id: ApprovalId, usedFor: string, at: Date): Promise<boolean>;
  /** Ends what waits or was not used in time; at most so many at once. */
  expire(at: Date, limit: number): Promise<readonly RecordedApproval[]>;
  /** Those that ended before. */
  dropBefore(at: Date): Promise<void>;
}

/** Whether a sandbox that becomes this has left behind what its approvals were for. */
export function voidsApprovals(
  before: { readonly generation: number },
  after: { readonly generation: number; readonly settled: string },
): boolean {
  return after.generation !== before.generation || after.settled === 'deleted' || after.settled === 'moved';
}
