/** Webhooks and their notices in PostgreSQL. */
import type { DueNotice, NoticeRecords, RecordedApproval, RecordedWebhook } from '@space/control';
import type { ErrorCode, OrganisationId } from '@space/core';
import { type Kysely, sql, type Transaction } from 'kysely';
import { translated } from './errors.ts';
import { approvalOf } from './postgres-approvals.ts';
import type { Tables } from './schema.ts';

type Told = Pick<RecordedApproval, 'id' | 'organisationId'>;

export class PostgresNotices implements NoticeRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  setWebhook(organisationId: OrganisationId, url: string | null, at: Date): Promise<void> {
    return this.#transaction(async (tx) => {
      await tx.deleteFrom('notices').where('organisation_id', '=', organisationId).execute();
      await tx.deleteFrom('webhooks').where('organisation_id', '=', organisationId).execute();
      if (url === null) return;
      await tx.insertInto('webhooks').values({ organisation_id: organisationId, url, set_at: at }).execute();
    });
  }

  findWebhook(organisationId: OrganisationId): Promise<RecordedWebhook | null> {
    return translated(async () => {
      const own = this.#db.selectFrom('webhooks').selectAll().where('organisation_id', '=', organisationId);
      const row = await own.executeTakeFirst();
      if (row === undefined) return null;
      const { url, set_at: setAt, failure_code: code, failed_at: failedAt } = row;
      const failure = code === null || failedAt === null ? null : { code: code as ErrorCode, at: failedAt };
      return { organisationId, url, setAt, failure };
    });
  }

  due(at: Date, limit: number): Promise<readonly DueNotice[]> {
    return translated(async () => {
      const rows = await this.#db
        .selectFrom('notices')
        .innerJoin('webhooks', 'webhooks.organisation_id', 'notices.organisation_id')
        .innerJoin('approvals', 'approvals.id', 'notices.approval_id')
        .selectAll('approvals')
        .select(['webhooks.url', 'notices.tries'])
        .where('approvals.state', '=', 'pending')
        .where('notices.next_at', '<=', at)
        .orderBy('notices.next_at')
        .limit(limit)
        .execute();
      return rows.map(({ url, tries, ...row }) => ({ approval: approvalOf(row), url, tries }));
    });
  }

  sent({ id, organisationId }: Told): Promise<void> {
    return this.#transaction(async (tx) => {
      await tx.deleteFrom('notices').where('approval_id', '=', id).execute();
      const well = { failure_code: null, failed_at: null };
      await tx.updateTable('webhooks').set(well).where('organisation_id', '=', organisationId).execute();
    });
  }

  failed(
    { id, organisationId }: Told,
    { code, at, nextAt }: { readonly code: ErrorCode; readonly at: Date; readonly nextAt: Date },
  ): Promise<void> {
    return this.#transaction(async (tx) => {
      const later = { next_at: nextAt, tries: sql<number>`tries + 1` };
      await tx.updateTable('notices').set(later).where('approval_id', '=', id).execute();
      const ill = { failure_code: code, failed_at: at };
      await tx.updateTable('webhooks').set(ill).where('organisation_id', '=', organisationId).execute();
    });
  }

  #transaction(work: (tx: Transaction<Tables>) => Promise<void>): Promise<void> {
    return translated(() => this.#db.transaction().execute(work));
  }
}
