/** What left sandboxes, in PostgreSQL. */
import {
  entryOfChange,
  entryOfEgress,
  type Page,
  type PageRequest,
  pageOf,
  type RecordedEgress,
  type RecordsOfEgress,
  type TakenEgress,
} from '@space/control';
import type { EgressId, EgressPosition, SandboxId } from '@space/core';
import { type Kysely, sql } from 'kysely';
import { translated } from './errors.ts';
import { newestFirst } from './pages.ts';
import { appendLinks } from './postgres-chain.ts';
import type { Tables } from './schema.ts';

function positionOf(row: { instance: string; next: string | number } | undefined): EgressPosition | null {
  return row === undefined ? null : { instance: row.instance, next: Number(row.next) };
}

export class PostgresEgress implements RecordsOfEgress {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  position(): Promise<EgressPosition | null> {
    return translated(async () =>
      positionOf(await this.#db.selectFrom('egress_position').selectAll().executeTakeFirst()),
    );
  }

  add(taken: TakenEgress, behind: EgressPosition | null): Promise<void> {
    const { records, changes, position, linkedAt } = taken;
    return translated(() =>
      this.#db.transaction().execute(async (tx) => {
        const held = await tx.selectFrom('egress_position').selectAll().forUpdate().executeTakeFirst();
        const now = positionOf(held);
        if (now?.instance !== behind?.instance || now?.next !== behind?.next) return;
        if (held === undefined) await tx.insertInto('egress_position').values(position).execute();
        else await tx.updateTable('egress_position').set(position).execute();
        const rows = records.map(({ id, sandboxId, at, organisationId: _, ...record }) => {
          return { id, sandbox_id: sandboxId, at, record: JSON.stringify(record) };
        });
        if (rows.length > 0) await tx.insertInto('egress').values(rows).execute();
        const entries = [
          ...changes.map((one) => ({ organisationId: one.organisationId, entry: entryOfChange(one) })),
          ...records.map((one) => ({ organisationId: one.organisationId, entry: entryOfEgress(one) })),
        ];
        await appendLinks(tx, 'egress', entries, linkedAt);
      }),
    );
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
