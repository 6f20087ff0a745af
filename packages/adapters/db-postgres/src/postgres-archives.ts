/** Where archives are to be collected, in PostgreSQL. */
import type { ArchiveRecords, ToCollect } from '@space/control';
import type { ProjectId } from '@space/core';
import { type Kysely, sql } from 'kysely';
import { translated } from './errors.ts';
import type { Tables } from './schema.ts';

export class PostgresArchives implements ArchiveRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  ask({ projectId, location, askedAt }: ToCollect): Promise<boolean> {
    return translated(async () => {
      const row = await this.#db
        .insertInto('archive_collections')
        .values({ project_id: projectId, location, asked_at: askedAt })
        .onConflict((conflict) =>
          conflict
            .columns(['project_id', 'location'])
            .doUpdateSet({ asked_at: sql`greatest(archive_collections.asked_at, excluded.asked_at)` }),
        )
        // A row that was there is locked by whoever changes it.
        .returning(sql<boolean>`xmax = 0`.as('is_new'))
        .executeTakeFirstOrThrow();
      return row.is_new;
    });
  }

  asked(limit: number): Promise<readonly ToCollect[]> {
    return translated(async () => {
      const rows = await this.#db
        .selectFrom('archive_collections')
        .selectAll()
        .orderBy('asked_at')
        .limit(limit)
        .execute();
      return rows.map(({ project_id: projectId, location, asked_at: askedAt }) => {
        return { projectId: projectId as ProjectId, location, askedAt };
      });
    });
  }

  collected({ projectId, location, askedAt }: ToCollect): Promise<void> {
    return translated(async () => {
      const row = this.#db.deleteFrom('archive_collections').where('project_id', '=', projectId);
      await row.where('location', '=', location).where('asked_at', '<=', askedAt).execute();
    });
  }
}
