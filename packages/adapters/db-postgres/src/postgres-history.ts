/** History in PostgreSQL: which points there are, are doomed, and were not taken. */
import {
  type AgingSnapshot,
  type Archiving,
  type DoomedAmong,
  type DoomedPoint,
  eventOfArchiving,
  eventOfDamage,
  eventOfDrop,
  eventOfSkip,
  type HistoryRecords,
  type RecordedFork,
  type RecordedSandbox,
  type RecordedSkip,
  type RecordedSnapshot,
} from '@space/control';
import {
  type ErrorCode,
  isPlatformsOwn,
  type ProjectId,
  type SandboxId,
  type SnapshotId,
  type VaultName,
} from '@space/core';
import { type Kysely, type SelectQueryBuilder, sql, type Transaction } from 'kysely';
import { translated } from './errors.ts';
import { appendEvents } from './postgres-events.ts';
import { snapshotOf } from './rows.ts';
import type { SnapshotRow, Tables } from './schema.ts';

type SnapshotQuery = SelectQueryBuilder<Tables, 'snapshots', SnapshotRow>;

export class PostgresHistory implements HistoryRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  newest(sandboxId: SandboxId): Promise<RecordedSnapshot | null> {
    return this.#one(this.#own(sandboxId).orderBy('time_ms', 'desc'));
  }

  tip(sandboxId: SandboxId, generation: number): Promise<RecordedSnapshot | null> {
    const line = this.#own(sandboxId).where('state', '=', 'good').where('generation', '=', generation);
    return this.#one(line.orderBy('time_ms', 'desc'));
  }

  aging(sandboxId: SandboxId): Promise<readonly AgingSnapshot[]> {
    return translated(async () => {
      const query = this.#db
        .selectFrom('snapshots')
        .select(['id', 'name', 'pinned', 'cause', 'kind', 'time_ms', 'generation', 'state', 'taken_at'])
        .where('sandbox_id', '=', sandboxId);
      const rows = await query.orderBy('time_ms').execute();
      return rows.map(({ id, time_ms: timeMs, taken_at: takenAt, generation, ...rest }) => {
        return { ...rest, id: id as SnapshotId, timeMs, takenAt, generation };
      });
    });
  }

  newestAt(sandboxId: SandboxId, at: Date): Promise<RecordedSnapshot | null> {
    const past = this.#own(sandboxId).where('state', '=', 'good').where('taken_at', '<=', at);
    return this.#one(past.orderBy('taken_at', 'desc').orderBy('time_ms', 'desc'));
  }

  doom(ids: readonly SnapshotId[], at: Date, because?: ErrorCode): Promise<void> {
    return translated(() => this.#db.transaction().execute((tx) => doomSnapshots(tx, ids, { at, because })));
  }

  doomUnknown(vault: VaultName, id: SnapshotId, at: Date): Promise<void> {
    return translated(async () => {
      const doomed = this.#db.insertInto('doomed_points').values({ id, vault, since: at, not_before: at });
      await doomed.onConflict((conflict) => conflict.column('id').doNothing()).execute();
    });
  }

  doomed(limit: number, now: Date, { except = [], among }: DoomedAmong = {}): Promise<readonly DoomedPoint[]> {
    return translated(async () => {
      const due = this.#db.selectFrom('doomed_points').selectAll().where('not_before', '<=', now);
      const free = due.where(sql<boolean>`id <> all (${[...except]}::text[])`);
      const wanted = among === undefined ? free : free.where(sql<boolean>`vault = any (${[...among]}::text[])`);
      const rows = await wanted.orderBy('since').orderBy('id').limit(limit).execute();
      return rows.map(({ id, vault, attempts }) => ({ id: id as SnapshotId, vault: vault as VaultName, attempts }));
    });
  }

  removed(id: SnapshotId): Promise<void> {
    return translated(async () => {
      await this.#db.deleteFrom('doomed_points').where('id', '=', id).execute();
    });
  }

  resisted(id: SnapshotId, again: Date): Promise<void> {
    return translated(async () => {
      const later = { attempts: sql<number>`attempts + 1`, not_before: again };
      await this.#db.updateTable('doomed_points').set(later).where('id', '=', id).execute();
    });
  }

  known(ids: readonly SnapshotId[]): Promise<ReadonlySet<SnapshotId>> {
    return translated(async () => {
      const recorded = this.#db
        .selectFrom('snapshots')
        .select('id')
        .where(sql<boolean>`id = any(${[...ids]})`);
      const doomed = this.#db
        .selectFrom('doomed_points')
        .select('id')
        .where(sql<boolean>`id = any(${[...ids]})`);
      return new Set((await recorded.union(doomed).execute()).map(({ id }) => id as SnapshotId));
    });
  }

  abandoned(before: Date, limit: number): Promise<readonly SnapshotId[]> {
    return translated(async () => {
      const rows = await this.#db
        .selectFrom('snapshots')
        .innerJoin('sandboxes', 'sandboxes.id', 'snapshots.sandbox_id')
        .select('snapshots.id')
        .where('snapshots.state', '=', 'taking')
        .where('snapshots.taken_at', '<', before)
        .where('sandboxes.operation', 'is', null)
        .limit(limit)
        .execute();
      return rows.map(({ id }) => id as SnapshotId);
    });
  }

  unchecked(before: Date, limit: number, among?: readonly VaultName[]): Promise<readonly RecordedSnapshot[]> {
    return translated(async () => {
      const last = sql<Date>`coalesce(checked_at, taken_at)`;
      const due = this.#db.selectFrom('snapshots').selectAll().where('state', '=', 'good').where(last, '<', before);
      const wanted = among === undefined ? due : due.where(sql<boolean>`vault = any (${[...among]}::text[])`);
      return (await wanted.orderBy(last).limit(limit).execute()).map(snapshotOf);
    });
  }

  checked(id: SnapshotId, at: Date): Promise<void> {
    return translated(async () => {
      await this.#db.updateTable('snapshots').set({ checked_at: at }).where('id', '=', id).execute();
    });
  }

  spoilt(id: SnapshotId, reason: string, at: Date): Promise<void> {
    return translated(() =>
      this.#db.transaction().execute(async (tx) => {
        const marked = tx.updateTable('snapshots').set({ state: 'bad', bad_reason: reason });
        const row = await marked.where('id', '=', id).where('state', '=', 'good').returningAll().executeTakeFirst();
        if (row !== undefined) await appendEvents(tx, [eventOfDamage(snapshotOf(row), at)]);
      }),
    );
  }

  noteArchiving(sandbox: Pick<RecordedSandbox, 'id' | 'projectId'>, archiving: Archiving, at: Date): Promise<void> {
    return translated(() =>
      this.#db.transaction().execute(async (tx) => {
        const update = tx.updateTable('sandboxes').set({ archiving: JSON.stringify(archiving) });
        const row = await update
          .where('id', '=', sandbox.id)
          .where('settled', '<>', 'deleted')
          .returning('id')
          .executeTakeFirst();
        if (row !== undefined) await appendEvents(tx, [eventOfArchiving(sandbox, archiving, at)]);
      }),
    );
  }

  noteSkip(sandbox: Pick<RecordedSandbox, 'id' | 'projectId'>, skip: RecordedSkip): Promise<void> {
    return translated(() => appendEvents(this.#db, [eventOfSkip(sandbox, skip)]));
  }

  skips(
    { id, projectId }: Pick<RecordedSandbox, 'id' | 'projectId'>,
    { after, until }: { readonly after: Date | null; readonly until: Date | null },
    limit: number,
  ): Promise<readonly RecordedSkip[]> {
    return translated(async () => {
      let query = this.#db
        .selectFrom('events')
        .select(['at', 'error_code'])
        .where('project_id', '=', projectId)
        .where('sandbox_id', '=', id)
        .where('kind', '=', 'snapshot.skipped');
      if (after !== null) query = query.where('at', '>', after);
      if (until !== null) query = query.where('at', '<=', until);
      const rows = await query.orderBy('at', 'desc').limit(limit).execute();
      return rows.map(({ at, error_code: code }) => ({ at, code: code ?? 'internal' }));
    });
  }

  forksFrom(projectId: ProjectId, ids: readonly SnapshotId[]): Promise<readonly RecordedFork[]> {
    return translated(async () => {
      const rows = await this.#db
        .selectFrom('sandboxes')
        .select(['id', 'name', 'origin'])
        .where(sql<boolean>`origin = any(${[...ids]})`)
        .where('project_id', '=', projectId)
        .where('settled', '<>', 'deleted')
        .orderBy('created_at')
        .orderBy('id')
        .execute();
      return rows.map(({ id, name, origin }) => ({ sandboxId: id as SandboxId, name, from: origin as SnapshotId }));
    });
  }

  dropUnasked(before: Date): Promise<void> {
    return translated(async () => {
      const ended = this.#db.deleteFrom('operations').where('ended_at', '<', before);
      await ended.where('request_id', 'is', null).execute();
    });
  }

  #own(sandboxId: SandboxId): SnapshotQuery {
    return this.#db.selectFrom('snapshots').selectAll().where('sandbox_id', '=', sandboxId);
  }

  #one(query: SnapshotQuery): Promise<RecordedSnapshot | null> {
    return translated(async () => {
      const row = await query.limit(1).executeTakeFirst();
      return row === undefined ? null : snapshotOf(row);
    });
  }
}

interface Drop {
  readonly at: Date;
  /** Told with it. */
  readonly because?: ErrorCode | undefined;
}

/** Drops the snapshots, and keeps in mind that their points are still to be removed. */
export async function doomSnapshots(tx: Transaction<Tables>, ids: readonly SnapshotId[], drop: Drop): Promise<void> {
  const { at } = drop;
  if (ids.length === 0) return;
  await sql`
    insert into doomed_points (id, vault, since, not_before)
    select id, vault, ${at}, ${at} from snapshots where id = any(${[...ids]})
    on conflict (id) do nothing`.execute(tx);
  await dropSnapshots(tx, ids, drop);
}

/** Hands on to the parent whoever came after: one by one, so that a chain that goes at once ends where it should. */
export async function dropSnapshots(
  tx: Transaction<Tables>,
  ids: readonly SnapshotId[],
  { at, because }: Drop,
): Promise<void> {
  for (const id of ids) {
    const gone = await tx.deleteFrom('snapshots').where('id', '=', id).returningAll().executeTakeFirst();
    if (gone === undefined) continue;
    if (gone.state !== 'taking' && !isPlatformsOwn(gone.name))
      await appendEvents(tx, [eventOfDrop(snapshotOf(gone), at, because)]);
    const { parent } = gone;
    await tx.updateTable('snapshots').set({ parent }).where('parent', '=', id).execute();
    await tx.updateTable('sandboxes').set({ origin: parent }).where('origin', '=', id).execute();
    await tx.updateTable('sandboxes').set({ head: parent }).where('head', '=', id).execute();
  }
}
