/** The audit in PostgreSQL. */
import {
  type Asker,
  type AuditOutcome,
  type AuditRecords,
  type NewAuditRecord,
  type Page,
  type PageRequest,
  pageOf,
  type RecordedAudit,
  type Settles,
} from '@space/control';
import type { ApiKeyId, AuditId, OperationId, OrganisationId, ProjectId } from '@space/core';
import { type Kysely, sql } from 'kysely';
import { translated } from './errors.ts';
import { newestFirst } from './pages.ts';
import type { Tables } from './schema.ts';
import { waitForNoDisk } from './settles.ts';

export class PostgresAudit implements AuditRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  append({ outcome, target, at, ...asker }: NewAuditRecord, settles: Settles): Promise<void> {
    return translated(async () => {
      await this.#db
        .insertInto('audit')
        .values(rowOf(asker, { outcome, target, at, operationId: null }))
        .onConflict((conflict) => conflict.column('request_id').doNothing())
        .$if(settles === 'next', (insert) => insert.returning(waitForNoDisk))
        .execute();
    });
  }

  complete(id: AuditId, { target, outcome }: { target: string | null; outcome: AuditOutcome }): Promise<void> {
    return translated(async () => {
      await this.#db
        .updateTable('audit')
        .set({ outcome, target: sql`coalesce(target, ${target})` })
        .where('id', '=', id)
        .where('operation_id', 'is', null)
        .returning(waitForNoDisk)
        .execute();
    });
  }

  closeLeft(before: Date, underWay: readonly AuditId[]): Promise<void> {
    return translated(async () => {
      await this.#db
        .updateTable('audit')
        .set({ outcome: 'unknown' })
        .where('operation_id', 'is', null)
        .where('outcome', 'is', null)
        .where('at', '<', before)
        .where(sql<boolean>`id <> all(${underWay}::text[])`)
        .execute();
    });
  }

  list(page: PageRequest & { readonly organisationId: OrganisationId }): Promise<Page<RecordedAudit>> {
    return translated(async () => {
      const query = withOperations(this.#db).where('audit.organisation_id', '=', page.organisationId);
      const rows = await newestFirst(query, page, 'audit.at', 'audit.id').execute();
      const records = rows.map((row) => ({ ...recordedAuditOf(row), id: row.id }));
      return pageOf(records, page.limit, (one) => one.at);
    });
  }
}

/** In the transaction that begins the operation: completes the record of the call, or, when there is none, makes it. */
export async function recordBegun(
  tx: Kysely<Tables>,
  by: Asker,
  { target, operationId, at }: { readonly target: string; readonly operationId: OperationId; readonly at: Date },
): Promise<void> {
  await tx
    .insertInto('audit')
    .values(rowOf(by, { target, operationId, outcome: null, at }))
    .onConflict((conflict) =>
      conflict
        .column('request_id')
        .doUpdateSet({ operation_id: operationId, target })
        .where('audit.operation_id', 'is', null)
        .where('audit.outcome', 'is', null),
    )
    .execute();
}

function withOperations(db: Kysely<Tables>) {
  return db
    .selectFrom('audit')
    .leftJoin('operations', 'operations.id', 'audit.operation_id')
    .selectAll('audit')
    .select(['operations.id as found', 'operations.outcome as operation_outcome', 'operations.error_code']);
}

/** Those that will not change any more, and are not linked yet. Of an operation that is gone nobody will ever tell more. */
export function endedAudit(db: Kysely<Tables>) {
  return withOperations(db)
    .where('audit.link', 'is', null)
    .where((eb) =>
      eb.or([
        eb('audit.outcome', 'is not', null),
        eb('operations.outcome', 'is not', null),
        eb.and([eb('audit.operation_id', 'is not', null), eb('operations.id', 'is', null)]),
      ]),
    )
    .forUpdate('audit');
}

type AuditRow = Awaited<ReturnType<ReturnType<typeof withOperations>['executeTakeFirstOrThrow']>>;

export function recordedAuditOf({ found, operation_outcome, error_code, ...row }: AuditRow): RecordedAudit {
  const ended = operation_outcome === 'failed' ? (error_code ?? 'internal') : operation_outcome;
  const lost = row.operation_id !== null && found === null ? 'unknown' : null;
  return { ...auditOf(row), outcome: row.outcome ?? ended ?? lost ?? 'running' };
}

type Said = Pick<RecordedAudit, 'target' | 'operationId' | 'at'> & { readonly outcome: AuditOutcome | null };

function rowOf(asker: Asker, { target, operationId, outcome, at }: Said) {
  const { auditId: id, requestId, apiKeyId, organisationId, projectId, action, call } = asker;
  return {
    id,
    request_id: requestId,
    api_key_id: apiKeyId,
    organisation_id: organisationId,
    project_id: projectId,
    action,
    call,
    target,
    operation_id: operationId,
    outcome,
    at,
  };
}

function auditOf(row: Omit<Tables['audit'], 'outcome' | 'link'>) {
  return {
    auditId: row.id as AuditId,
    requestId: row.request_id,
    apiKeyId: row.api_key_id as ApiKeyId,
    organisationId: row.organisation_id as OrganisationId,
    projectId: row.project_id as ProjectId | null,
    action: row.action,
    call: row.call,
    target: row.target,
    operationId: row.operation_id as OperationId | null,
    at: row.at,
  };
}
