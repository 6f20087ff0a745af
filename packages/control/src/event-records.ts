/**
 * The part of the records that says what happened: an outbox, written in the transaction of the change itself. Events come in
 * an order that never changes, and none comes to stand before one that was read: so a cursor misses nothing.
 */
import {
  type ApiKeyId,
  type ApprovalId,
  type ErrorCode,
  isPlatformsOwn,
  type Operation,
  type OperationId,
  type OrganisationId,
  type ProjectId,
  type SandboxId,
  type Settled,
  type ShareId,
  type SnapshotId,
} from '@space/core';
import type { RecordedApproval } from './approval-records.ts';
import type { RecordedSkip } from './history-records.ts';
import type { Archiving, OperationEnd, Outcome, RecordedSandbox, RecordedSnapshot } from './records.ts';
import type { RecordedShare } from './share-records.ts';

export type EventKind =
  | `sandbox.${'created' | 'running' | 'out_of_space' | 'paused' | 'crashed' | 'moved' | 'deleted'}`
  | 'sandbox.not_paused'
  | 'snapshot.taken'
  | 'snapshot.deleted'
  | 'snapshot.skipped'
  | 'snapshot.bad'
  | `archive.${'made' | 'failed'}`
  | 'operation.ended'
  | 'key.revoked'
  | `share.${'created' | 'revoked'}`
  | `approval.${ApprovalNews}`;

/** `released`: what it was used for was never sent, so that it may be used again. */
export type ApprovalNews = 'requested' | 'approved' | 'used' | 'released' | 'denied' | 'expired' | 'void';

export interface NewEvent {
  readonly kind: EventKind;
  readonly at: Date;
  /** Of what is the organisation's; else null. */
  readonly organisationId: OrganisationId | null;
  readonly projectId: ProjectId | null;
  readonly sandboxId: SandboxId | null;
  readonly snapshotId: SnapshotId | null;
  readonly operationId: OperationId | null;
  readonly apiKeyId: ApiKeyId | null;
  readonly shareId: ShareId | null;
  readonly approvalId: ApprovalId | null;
  readonly operation: Operation | null;
  readonly outcome: Outcome | null;
  readonly errorCode: ErrorCode | null;
}

export interface RecordedEvent extends NewEvent {
  readonly cursor: string;
}

export interface EventsRequest {
  /** Null: from the first that is kept. */
  readonly after: string | null;
  readonly projectId: ProjectId;
  /** Also what is the organisation's own; null: not. */
  readonly organisationId: OrganisationId | null;
  readonly limit: number;
}

/** The detail of `events_lost` for a cursor that no event has reached. */
export const CURSOR_AHEAD =
  'The cursor is ahead of every event: it is of another database, or of a time that a restored database does not know.';

export interface EventRecords {
  /** A cursor before all that is written from now on; what others write at this moment may come behind it too. */
  latest(): Promise<string>;
  /** In order. Throws `events_lost` when what came after the cursor is no longer kept, and for a cursor ahead of all events. */
  list(request: EventsRequest): Promise<readonly RecordedEvent[]>;
  dropBefore(time: Date): Promise<void>;
}

const NOTHING = {
  organisationId: null,
  projectId: null,
  sandboxId: null,
  snapshotId: null,
  operationId: null,
  apiKeyId: null,
  shareId: null,
  approvalId: null,
  operation: null,
  outcome: null,
  errorCode: null,
};

/** What the end of an operation makes known, in order. */
export function eventsOfEnd(
  before: Pick<RecordedSandbox, 'settled' | 'operation' | 'id' | 'projectId' | 'name'>,
  end: OperationEnd,
  taken: readonly RecordedSnapshot[],
): readonly NewEvent[] {
  if (isPlatformsOwn(before.name)) return [];
  const { id: sandboxId, projectId, operation } = before;
  const base = { ...NOTHING, at: end.at, projectId, sandboxId };
  const states = eventsOfSettling(before, end.settled, end.at);
  const isBirth = operation === 'create' || (operation === 'arrive' && before.settled === 'absent');
  const created = isBirth && end.settled !== 'deleted';
  const { operationId, outcome, errorCode } = end;
  return [
    ...(created ? [{ ...base, kind: 'sandbox.created' as const }] : []),
    ...taken.map(({ id, degraded }) => {
      return { ...base, kind: 'snapshot.taken' as const, snapshotId: id, errorCode: degraded };
    }),
    ...(isBirth && !created ? [] : states),
    { ...base, kind: 'operation.ended', operationId, operation, outcome, errorCode },
  ];
}

export function eventsOfSettling(
  { id, projectId, settled: before, name }: Pick<RecordedSandbox, 'settled' | 'id' | 'projectId' | 'name'>,
  settled: Settled,
  at: Date,
): readonly NewEvent[] {
  if (isPlatformsOwn(name)) return [];
  if (settled === before || settled === 'absent') return [];
  return [{ ...NOTHING, kind: `sandbox.${settled}`, at, projectId, sandboxId: id }];
}

export function eventOfDrop(
  { id, sandboxId, projectId }: Pick<RecordedSnapshot, 'id' | 'sandboxId' | 'projectId'>,
  at: Date,
  because: ErrorCode | null = null,
): NewEvent {
  return { ...NOTHING, kind: 'snapshot.deleted', at, projectId, sandboxId, snapshotId: id, errorCode: because };
}

export function eventOfDamage(
  { id, sandboxId, projectId }: Pick<RecordedSnapshot, 'id' | 'sandboxId' | 'projectId'>,
  at: Date,
): NewEvent {
  return { ...NOTHING, kind: 'snapshot.bad', at, projectId, sandboxId, snapshotId: id, errorCode: 'snapshot_bad' };
}

export function eventOfSkip(
  { id: sandboxId, projectId }: Pick<RecordedSandbox, 'id' | 'projectId'>,
  { at, code: errorCode }: RecordedSkip,
): NewEvent {
  return { ...NOTHING, kind: 'snapshot.skipped', at, projectId, sandboxId, errorCode };
}

/** It is idle and holds its memory. */
export function eventOfPauseFailure(
  { id: sandboxId, projectId }: Pick<RecordedSandbox, 'id' | 'projectId'>,
  errorCode: ErrorCode,
  at: Date,
): NewEvent {
  return { ...NOTHING, kind: 'sandbox.not_paused', at, projectId, sandboxId, errorCode };
}

/** Whether what is known of failed pauses is over. */
export function endsPauseFailure(
  operation: Operation | null,
  { settled, outcome }: Pick<OperationEnd, 'settled' | 'outcome'>,
): boolean {
  return settled !== 'running' || (operation === 'rewind' && outcome === 'ok');
}

export function eventOfArchiving(
  { id: sandboxId, projectId }: Pick<RecordedSandbox, 'id' | 'projectId'>,
  { last, failure }: Archiving,
  at: Date,
): NewEvent {
  const base = { ...NOTHING, at, projectId, sandboxId };
  if (failure !== null) return { ...base, kind: 'archive.failed', errorCode: failure.code };
  return { ...base, kind: 'archive.made', snapshotId: last?.snapshotId ?? null };
}

export function eventOfShare(
  kind: 'share.created' | 'share.revoked',
  { id, projectId, sandboxId }: Pick<RecordedShare, 'id' | 'projectId' | 'sandboxId'>,
  at: Date,
): NewEvent {
  return { ...NOTHING, kind, at, projectId, sandboxId, shareId: id };
}

/** Of a state, the news is that it has come to it. */
export function eventOfApproval(
  news: ApprovalNews | 'pending',
  { id, projectId, sandboxId }: Pick<RecordedApproval, 'id' | 'projectId' | 'sandboxId'>,
  at: Date,
): NewEvent {
  const kind = `approval.${news === 'pending' ? 'requested' : news}` as const;
  return { ...NOTHING, kind, at, projectId, sandboxId, approvalId: id };
}

export function eventOfRevocation(organisationId: OrganisationId, apiKeyId: ApiKeyId, at: Date): NewEvent {
  return { ...NOTHING, kind: 'key.revoked', at, organisationId, apiKeyId };
}
