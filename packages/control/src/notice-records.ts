/**
 * The part of the records that says whom to tell of what waits for a reviewer: at most one address of an organisation, and a
 * notice for each approval that was asked for since it was set, written in the transaction that asks. A notice is there until
 * it was sent, or its approval does not wait any more.
 */
import type { ErrorCode, OrganisationId } from '@space/core';
import type { RecordedApproval } from './approval-records.ts';

export interface RecordedWebhook {
  readonly organisationId: OrganisationId;
  readonly url: string;
  readonly setAt: Date;
  /** Of the last notice; null: it was sent, or there was none. */
  readonly failure: { readonly code: ErrorCode; readonly at: Date } | null;
}

export interface DueNotice {
  readonly approval: RecordedApproval;
  readonly url: string;
  /** How many have failed. */
  readonly tries: number;
}

export interface NoticeRecords {
  /** Takes the place of another one; null: none. Notices that wait go with the address that they were for. */
  setWebhook(organisationId: OrganisationId, url: string | null, at: Date): Promise<void>;
  findWebhook(organisationId: OrganisationId): Promise<RecordedWebhook | null>;
  /** Those whose time has come, those that wait longest first. */
  due(at: Date, limit: number): Promise<readonly DueNotice[]>;
  sent(approval: Pick<RecordedApproval, 'id' | 'organisationId'>): Promise<void>;
  failed(
    approval: Pick<RecordedApproval, 'id' | 'organisationId'>,
    failure: { readonly code: ErrorCode; readonly at: Date; readonly nextAt: Date },
  ): Promise<void>;
}
