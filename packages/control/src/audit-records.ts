/**
 * The part of the records that says who did what. A call that changes something is recorded before it does anything, and its
 * record is completed once: by the transaction that begins its operation, whose outcome is then its own, or when it has
 * ended. One that its process left behind is completed as `unknown`. Nothing of a tenant's content is in it.
 */
import type { Action, ApiKeyId, AuditId, ErrorCode, OperationId, OrganisationId, ProjectId } from '@space/core';
import type { Page, PageRequest } from './records.ts';

/** Which request of whom asks for what. */
export interface Asker {
  readonly auditId: AuditId;
  readonly requestId: string;
  readonly apiKeyId: ApiKeyId;
  readonly organisationId: OrganisationId;
  /** Null: the call was about the organisation, or the installation. */
  readonly projectId: ProjectId | null;
  readonly action: Action;
  /** The name of the route. */
  readonly call: string;
}

export interface NewAuditRecord extends Asker {
  /** Id or name of what it was done to; null when there is none. */
  readonly target: string | null;
  /** Null: it has only begun. */
  readonly outcome: AuditOutcome | null;
  readonly at: Date;
}

export type AuditOutcome = 'ok' | ErrorCode;

export interface RecordedAudit extends Asker {
  readonly target: string | null;
  readonly operationId: OperationId | null;
  /** `superseded`, `interrupted`: of an operation. `unknown`: its process died before it told. */
  readonly outcome: AuditOutcome | 'running' | 'unknown' | 'superseded' | 'interrupted';
  readonly at: Date;
}

/**
 * When a change is on the disk. `now`: before the call returns. `next`: with the next change that is waited for, by whomever; that is
 * enough for what announces an operation, whose beginning is waited for before anything is done, and for what its records would tell as well.
 */
export type Settles = 'now' | 'next';

export interface AuditRecords {
  /** One per request: another one of the same request changes nothing. */
  append(record: NewAuditRecord, settles: Settles): Promise<void>;
  /**
   * How a call that had begun has ended; nothing happens when it began an operation. A target that was known stays. On the disk with the
   * next change: whoever reads of a call whose end did not get there is told that it is not known.
   */
  complete(id: AuditId, end: { readonly target: string | null; readonly outcome: AuditOutcome }): Promise<void>;
  /** Those that began before the time, no operation and have no end, but these: how they ended is not known. */
  closeLeft(before: Date, underWay: readonly AuditId[]): Promise<void>;
  /** Newest first. */
  list(page: PageRequest & { readonly organisationId: OrganisationId }): Promise<Page<RecordedAudit>>;
}
