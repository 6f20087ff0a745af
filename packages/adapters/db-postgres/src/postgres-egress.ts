/** What left sandboxes, in PostgreSQL. */
import { type Page, type PageRequest, pageOf, type RecordedEgress, type RecordsOfEgress } from '@space/control';
import type { EgressId, SandboxId } from '@space/core';
import { type Kysely, sql } from 'kysely';
import { translated } from './errors.ts';
import { newestFirst } from './pages.ts';
import type { Tables } from './schema.ts';

export class PostgresEgress implements RecordsOfEgress {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  add(records: readonly RecordedEgress[]): Promise<void> {
    if (records.length === 0) return Promise.resolve();
    const rows = records.map(({ id, sandboxId, at, ...record }) => {
      return { id, sandbox_id: sandboxId, at, record: JSON.stringify(record) };
    });
    return translated(async () => {
      await this.#db.insertInto('egress').values(rows).execute();
    });
  }

  list(page: PageRequest & { readonly sandboxId: SandboxId }): Promise<Page<RecordedEgress>> {
    return translated(async () => {
      const query = this.#db.selectFrom('egress').selectAll().where('sandbox_id', '=', page.sandboxId);
      const rows = await newestFirst(query, page, 'at').execute();
      const records = rows.map(({ id, sandbox_id: sandboxId, at, record }): RecordedEgress => {
        return { ...record, id: id as EgressId, sandboxId: sandboxId as SandboxId, at };
      });
      return pageOf(records, page.limit, (one) => one.at);
    });
  }

  trim(sandboxId: SandboxId, kept: number): Promise<void> {
    return translated(async () => {
      await sql`
        delete from egress
        where sandbox_id = ${sandboxId} and (at, id) <= (
          select at, id from egress where sandbox_id = ${sandboxId}
          order by at desc, id desc offset ${kept} limit 1
        )`.execute(this.#db);
    });
  }

  dropBefore(at: Date): Promise<void> {
    return translated(async () => {
      await this.#db.deleteFrom('egress').where('at', '<', at).execute();
    });
  }
}
