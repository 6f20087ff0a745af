/** The audit in PostgreSQL. */
import {
  type Asker,
  type AuditRecords,
  type NewAuditRecord,
  type Page,
  type PageRequest,
  pageOf,
  type RecordedAudit,
} from '@space/control';
import type { ApiKeyId, AuditId, OperationId, OrganisationId, ProjectId } from '@space/core';
import type { Kysely } from 'kysely';
import { translated } from './errors.ts';
import { newestFirst } from './pages.ts';
import type { Tables } from './schema.ts';

export class PostgresAudit implements AuditRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  append({ outcome, target, at, ...asker }: NewAuditRecord): Promise<void> {
    return translated(() => appendAudit(this.#db, asker, { outcome, target, at, operationId: null }));
  }

  list(page: PageRequest & { readonly organisationId: OrganisationId }): Promise<Page<RecordedAudit>> {
    return translated(async () => {
      const query = this.#db
        .selectFrom('audit')
        .leftJoin('operations', 'operations.id', 'audit.operation_id')
        .selectAll('audit')
        .select(['operations.outcome as operation_outcome', 'operations.error_code'])
        .where('audit.organisation_id', '=', page.organisationId);
      const rows = await newestFirst(query, page, 'audit.at', 'audit.id').execute();
      const records = rows.map(({ operation_outcome, error_code, ...row }) => {
        const ended = operation_outcome === 'failed' ? (error_code ?? 'internal') : operation_outcome;
        const outcome: RecordedAudit['outcome'] = row.outcome ?? ended ?? 'running';
        return { ...auditOf(row), id: row.id, outcome };
      });
      return pageOf(records, page.limit, (one) => one.at);
    });
  }

  dropBefore(time: Date): Promise<void> {
    return translated(async () => {
      await this.#db.deleteFrom('audit').where('at', '<', time).execute();
    });
  }
}

/** In the transaction of the change that it belongs to, where there is one. */
export async function appendAudit(
  db: Kysely<Tables>,
  { auditId, requestId, apiKeyId, organisationId, projectId, action, call }: Asker,
  end: Pick<RecordedAudit, 'target' | 'operationId' | 'at'> & { readonly outcome: NewAuditRecord['outcome'] | null },
): Promise<void> {
  const row = {
    id: auditId,
    request_id: requestId,
    api_key_id: apiKeyId,
    organisation_id: organisationId,
    project_id: projectId,
    action,
    call,
    target: end.target,
    operation_id: end.operationId,
    outcome: end.outcome,
    at: end.at,
  };
  await db
    .insertInto('audit')
    .values(row)
    .onConflict((conflict) => conflict.column('request_id').doNothing())
    .execute();
}

function auditOf(row: Omit<Tables['audit'], 'outcome'>) {
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
