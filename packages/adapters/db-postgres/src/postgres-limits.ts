/** What an organisation holds, counted from the rows, in the transaction that is about to add to it. */
import {
  checkLimits,
  LIMITED,
  type Limited,
  type Limits,
  type OrganisationId,
  type ProjectId,
  STARTS,
  type Usage,
} from '@space/core';
import { type Kysely, sql, type Transaction } from 'kysely';
import type { OrganisationRow, Tables } from './schema.ts';

export function limitsOf(row: OrganisationRow): Limits {
  return {
    sandboxes: row.max_sandboxes,
    running: row.max_running,
    snapshots: row.max_snapshots,
    memoryMib: row.max_memory_mib,
  };
}

export function rowOfLimits({ sandboxes, running, snapshots, memoryMib }: Limits) {
  return { max_sandboxes: sandboxes, max_running: running, max_snapshots: snapshots, max_memory_mib: memoryMib };
}

export async function usageOf(db: Kysely<Tables>, organisationId: OrganisationId): Promise<Usage> {
  const projects = sql`(select id from projects where organisation_id = ${organisationId})`;
  const isUsers = sql`(name is null or name not like '.%')`;
  const holdsVm = sql`(settled in ('running', 'out_of_space') or operation in (${sql.join(STARTS)}))`;
  const { rows } = await sql<Usage>`
    select
      (select count(*) from sandboxes where settled <> 'deleted' and ${isUsers} and project_id in ${projects}) as sandboxes,
      (select count(*) from sandboxes
        where settled <> 'deleted' and ${isUsers} and ${holdsVm} and project_id in ${projects}) as running,
      (select coalesce(sum((size->>'memoryMib')::bigint), 0)::bigint from sandboxes
        where settled <> 'deleted' and ${isUsers} and ${holdsVm} and project_id in ${projects}) as "memoryMib",
      (select count(*) from snapshots
        where (pinned or name is not null) and ${isUsers} and project_id in ${projects}) as snapshots
  `.execute(db);
  const [usage] = rows;
  if (usage === undefined) throw new Error('a select of counts has one row');
  return usage;
}

/**
 * Throws `limit_reached`, and then the transaction, whose rows are counted already, changes nothing. Who adds at the same
 * time waits for its turn.
 */
export async function reserve(tx: Transaction<Tables>, projectId: ProjectId, added: readonly Limited[]): Promise<void> {
  if (added.length === 0) return;
  const own = tx
    .selectFrom('organisations')
    .selectAll('organisations')
    .where('organisations.id', '=', (eb) =>
      eb.selectFrom('projects').select('organisation_id').where('id', '=', projectId),
    );
  const seen = limitsOf(await own.executeTakeFirstOrThrow());
  if (LIMITED.every((limit) => seen[limit] === null)) return;
  const locked = await own.forNoKeyUpdate().executeTakeFirstOrThrow();
  checkLimits(limitsOf(locked), await usageOf(tx, locked.id as OrganisationId), added);
}
