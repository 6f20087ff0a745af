/**
 * The part of the records that says who did what. A record is appended and never changed. The one of a call that begins an
 * operation is written in the transaction that begins it, and its outcome is that of the operation; any other call is
 * recorded with its outcome when it has ended. Nothing of a tenant's content is in it.
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
  readonly outcome: 'ok' | ErrorCode;
  readonly at: Date;
}

export interface RecordedAudit extends Asker {
  readonly target: string | null;
  readonly operationId: OperationId | null;
  /** `running`, `superseded`, `interrupted`: of an operation. */
  readonly outcome: 'ok' | 'running' | 'superseded' | 'interrupted' | ErrorCode;
  readonly at: Date;
}

export interface AuditRecords {
  /** One per request: another one of the same request changes nothing. */
  append(record: NewAuditRecord): Promise<void>;
  /** Newest first. */
  list(page: PageRequest & { readonly organisationId: OrganisationId }): Promise<Page<RecordedAudit>>;
  dropBefore(time: Date): Promise<void>;
}
