/**
 * The outbox in PostgreSQL. Transactions end in another order than their rows are numbered, so a number alone is no cursor:
 * a reader could pass a row that is not committed yet. Each row also names its transaction, rows are read in the order of
 * (transaction, number), and only those of transactions before every one that still runs. So nothing comes to stand before
 * what was read.
 */
import { CURSOR_AHEAD, type EventRecords, type EventsRequest, type NewEvent, type RecordedEvent } from '@space/control';
import {
  type ApiKeyId,
  AppError,
  type ApprovalId,
  type OperationId,
  type OrganisationId,
  type ProjectId,
  type SandboxId,
  type ShareId,
  type SnapshotId,
} from '@space/core';
import { type Kysely, type Selectable, sql } from 'kysely';
import { translated } from './errors.ts';
import type { Tables } from './schema.ts';

/** Stands behind all of its transaction; as long as a cursor may be. */
const LAST_NUMBER = '9'.repeat(18);

interface Place {
  readonly tx: string;
  readonly number: string;
}

export class PostgresEvents implements EventRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  list({ after, projectId, organisationId, limit }: EventsRequest): Promise<readonly RecordedEvent[]> {
    return translated(async () => {
      const from = placeOf(after ?? '0-0');
      const rows = await this.#db
        .selectFrom('events')
        .selectAll()
        .where(sql<boolean>`(tx, number) > (${from.tx}::bigint, ${from.number}::bigint)`)
        .where(sql<boolean>`tx < pg_snapshot_xmin(pg_current_snapshot())::text::bigint`)
        .where((eb) => eb.or([eb('project_id', '=', projectId), eb('organisation_id', '=', organisationId)]))
        .orderBy('tx')
        .orderBy('number')
        .limit(limit)
        .execute();
      // Asked last: where the floor is not above the cursor now, nothing was missing when the rows were read.
      const floor = await this.#db
        .selectFrom('event_floor')
        .select(['tx', 'number', sql<string>`pg_snapshot_xmax(pg_current_snapshot())::text`.as('nextTx')])
        .executeTakeFirstOrThrow();
      if (after !== null && isBefore(from, floor))
        throw new AppError('events_lost', 'What came right after the cursor is no longer kept.');
      // No transaction of this database has got as far: the reader would wait in silence for what passes it by.
      if (BigInt(from.tx) >= BigInt(floor.nextTx)) throw new AppError('events_lost', CURSOR_AHEAD);
      return rows.map(eventOf);
    });
  }

  latest(): Promise<string> {
    return translated(async () => {
      const query = sql<{ tx: string }>`select pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 as tx`;
      const { rows } = await query.execute(this.#db);
      return `${rows[0]?.tx ?? 0}-${LAST_NUMBER}`;
    });
  }

  dropBefore(time: Date): Promise<void> {
    return translated(async () => {
      await sql`
        with gone as (delete from events where at < ${time} returning tx, number),
          newest as (select tx, number from gone order by tx desc, number desc limit 1)
        update event_floor set tx = newest.tx, number = newest.number from newest
        where (event_floor.tx, event_floor.number) < (newest.tx, newest.number)`.execute(this.#db);
    });
  }
}

/** In the transaction of the change that they tell of. */
export async function appendEvents(tx: Kysely<Tables>, events: readonly NewEvent[]): Promise<void> {
  if (events.length === 0) return;
  const rows = events.map((event) => ({
    kind: event.kind,
    at: event.at,
    organisation_id: event.organisationId,
    project_id: event.projectId,
    sandbox_id: event.sandboxId,
    snapshot_id: event.snapshotId,
    operation_id: event.operationId,
    api_key_id: event.apiKeyId,
    share_id: event.shareId,
    approval_id: event.approvalId,
    operation: event.operation,
    outcome: event.outcome,
    error_code: event.errorCode,
  }));
  await tx.insertInto('events').values(rows).execute();
}

function placeOf(cursor: string): Place {
  const [tx = '0', number = '0'] = cursor.split('-');
  return { tx, number };
}

function isBefore(place: Place, floor: { readonly tx: number; readonly number: number }): boolean {
  const [tx, number] = [BigInt(place.tx), BigInt(place.number)];
  return tx < BigInt(floor.tx) || (tx === BigInt(floor.tx) && number < BigInt(floor.number));
}

function eventOf(row: Selectable<Tables['events']>): RecordedEvent {
  return {
    cursor: `${row.tx}-${row.number}`,
    kind: row.kind,
    at: row.at,
    organisationId: row.organisation_id as OrganisationId | null,
    projectId: row.project_id as ProjectId | null,
    sandboxId: row.sandbox_id as SandboxId | null,
    snapshotId: row.snapshot_id as SnapshotId | null,
    operationId: row.operation_id as OperationId | null,
    apiKeyId: row.api_key_id as ApiKeyId | null,
    shareId: row.share_id as ShareId | null,
    approvalId: row.approval_id as ApprovalId | null,
    operation: row.operation,
    outcome: row.outcome,
    errorCode: row.error_code,
  };
}
