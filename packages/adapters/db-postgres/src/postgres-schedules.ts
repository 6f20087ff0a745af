/** Schedules and their runs in PostgreSQL. */
import {
  KEPT_RUNS,
  type RecordedRun,
  type RecordedSchedule,
  type RunInProgress,
  type ScheduleChanges,
  type ScheduleRecords,
} from '@space/control';
import { AppError, type ProcessId, type ProjectId, type RunId, type SandboxId, type ScheduleId } from '@space/core';
import { type Kysely, type Selectable, sql, type Transaction } from 'kysely';
import { translated } from './errors.ts';
import type { Tables } from './schema.ts';

export class PostgresSchedules implements ScheduleRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  add(schedule: RecordedSchedule, max: number): Promise<void> {
    return translated(() =>
      this.#db.transaction().execute(async (tx) => {
        const { sandboxId } = schedule;
        await lockLiveSandbox(tx, sandboxId);
        const own = tx.selectFrom('schedules').select('id').where('sandbox_id', '=', sandboxId);
        if ((await own.execute()).length >= max) {
          throw new AppError('limit_reached', { detail: `A sandbox may have ${max} schedules.`, facts: { max } });
        }
        await tx.insertInto('schedules').values(rowOfSchedule(schedule)).execute();
      }),
    );
  }

  find(sandboxId: SandboxId, id: ScheduleId): Promise<RecordedSchedule | null> {
    return translated(async () => {
      const one = this.#db.selectFrom('schedules').selectAll().where('id', '=', id);
      const row = await one.where('sandbox_id', '=', sandboxId).executeTakeFirst();
      return row === undefined ? null : scheduleOf(row);
    });
  }

  list(sandboxId: SandboxId): Promise<readonly RecordedSchedule[]> {
    return translated(async () => {
      const own = this.#db.selectFrom('schedules').selectAll().where('sandbox_id', '=', sandboxId);
      return (await own.orderBy('created_at').orderBy('id').execute()).map(scheduleOf);
    });
  }

  update(id: ScheduleId, changes: ScheduleChanges, at: Date): Promise<RecordedSchedule | null> {
    return translated(async () => {
      const { cron, timeZone, exec, catchUp, enabled, nextRunAt } = changes;
      const row = await this.#db
        .updateTable('schedules')
        .set({
          updated_at: at,
          ...(cron === undefined ? {} : { cron }),
          ...(timeZone === undefined ? {} : { time_zone: timeZone }),
          ...(exec === undefined ? {} : { exec: jsonOf(exec) }),
          ...(catchUp === undefined ? {} : { catch_up: catchUp }),
          ...(enabled === undefined ? {} : { enabled }),
          ...(nextRunAt === undefined ? {} : { next_run_at: nextRunAt }),
        })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirst();
      return row === undefined ? null : scheduleOf(row);
    });
  }

  remove(id: ScheduleId): Promise<boolean> {
    return translated(async () => {
      const gone = this.#db.deleteFrom('schedules').where('id', '=', id).returning('id');
      return (await gone.executeTakeFirst()) !== undefined;
    });
  }

  due(at: Date, limit: number): Promise<readonly RecordedSchedule[]> {
    return translated(async () => {
      const due = this.#db.selectFrom('schedules').selectAll().where('next_run_at', '<=', at);
      return (await due.orderBy('next_run_at').limit(limit).execute()).map(scheduleOf);
    });
  }

  claim(run: RecordedRun, next: Date | null): Promise<boolean> {
    return translated(() =>
      this.#db.transaction().execute(async (tx) => {
        const claimed = await tx
          .updateTable('schedules')
          .set({ next_run_at: next })
          .where('id', '=', run.scheduleId)
          .where('next_run_at', '=', run.dueAt)
          .returning('id')
          .executeTakeFirst();
        if (claimed === undefined) return false;
        await tx.insertInto('schedule_runs').values(rowOfRun(run)).execute();
        await dropOldRuns(tx, run.scheduleId);
        return true;
      }),
    );
  }

  inProgress(): Promise<readonly RunInProgress[]> {
    return translated(async () => {
      const rows = await this.#db.selectFrom('schedule_runs').selectAll().where('ended_at', 'is', null).execute();
      if (rows.length === 0) return [];
      const ids = [...new Set(rows.map((row) => row.schedule_id))];
      const schedules = await this.#db.selectFrom('schedules').selectAll().where('id', 'in', ids).execute();
      const byId = new Map(schedules.map((row) => [row.id, scheduleOf(row)]));
      return rows.flatMap((row) => {
        const schedule = byId.get(row.schedule_id);
        return schedule === undefined ? [] : [{ run: runOf(row), schedule }];
      });
    });
  }

  updateRun(id: RunId, changes: Parameters<ScheduleRecords['updateRun']>[1]): Promise<boolean> {
    return translated(async () => {
      const { startedAt, endedAt, outcome, end, errorCode } = changes;
      const row = await this.#db
        .updateTable('schedule_runs')
        .set({
          ...(startedAt === undefined ? {} : { started_at: startedAt }),
          ...(endedAt === undefined ? {} : { ended_at: endedAt }),
          ...(outcome === undefined ? {} : { outcome }),
          ...(end === undefined ? {} : { process_end: jsonOf(end) }),
          ...(errorCode === undefined ? {} : { error_code: errorCode }),
        })
        .where('id', '=', id)
        .where('ended_at', 'is', null)
        .returning('id')
        .executeTakeFirst();
      return row !== undefined;
    });
  }

  runsOf(ids: readonly ScheduleId[]): Promise<readonly RecordedRun[]> {
    if (ids.length === 0) return Promise.resolve([]);
    return translated(async () => {
      const own = this.#db
        .selectFrom('schedule_runs')
        .selectAll()
        .where('schedule_id', 'in', [...ids]);
      return (await own.orderBy('claimed_at', 'desc').orderBy('id', 'desc').execute()).map(runOf);
    });
  }
}

/** Who adds to the sandbox at the same time waits, and so does the end of a delete. Throws `not_found`. */
export async function lockLiveSandbox(tx: Transaction<Tables>, id: SandboxId): Promise<void> {
  const live = tx.selectFrom('sandboxes').select('id').where('id', '=', id).where('settled', '<>', 'deleted');
  if ((await live.forNoKeyUpdate().executeTakeFirst()) !== undefined) return;
  throw new AppError('not_found', `There is no sandbox "${id}".`);
}

async function dropOldRuns(tx: Transaction<Tables>, scheduleId: ScheduleId): Promise<void> {
  await sql`
    delete from schedule_runs where id in (
      select id from schedule_runs where schedule_id = ${scheduleId} and ended_at is not null
      order by claimed_at desc, id desc offset ${KEPT_RUNS}
    )`.execute(tx);
}

function jsonOf(value: unknown): string | null {
  return value === null ? null : JSON.stringify(value);
}

function scheduleOf(row: Selectable<Tables['schedules']>): RecordedSchedule {
  return {
    id: row.id as ScheduleId,
    projectId: row.project_id as ProjectId,
    sandboxId: row.sandbox_id as SandboxId,
    cron: row.cron,
    timeZone: row.time_zone,
    exec: row.exec,
    catchUp: row.catch_up,
    enabled: row.enabled,
    nextRunAt: row.next_run_at,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function rowOfSchedule(schedule: RecordedSchedule) {
  return {
    id: schedule.id,
    project_id: schedule.projectId,
    sandbox_id: schedule.sandboxId,
    cron: schedule.cron,
    time_zone: schedule.timeZone,
    exec: jsonOf(schedule.exec),
    catch_up: schedule.catchUp,
    enabled: schedule.enabled,
    next_run_at: schedule.nextRunAt,
    created_at: schedule.createdAt,
    updated_at: schedule.updatedAt,
  };
}

function runOf(row: Selectable<Tables['schedule_runs']>): RecordedRun {
  return {
    id: row.id as RunId,
    scheduleId: row.schedule_id as ScheduleId,
    sandboxId: row.sandbox_id as SandboxId,
    dueAt: row.due_at,
    claimedAt: row.claimed_at,
    processId: row.process_id as ProcessId | null,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    outcome: row.outcome,
    end: row.process_end,
    errorCode: row.error_code,
  };
}

function rowOfRun(run: RecordedRun) {
  return {
    id: run.id,
    schedule_id: run.scheduleId,
    sandbox_id: run.sandboxId,
    due_at: run.dueAt,
    claimed_at: run.claimedAt,
    process_id: run.processId,
    started_at: run.startedAt,
    ended_at: run.endedAt,
    outcome: run.outcome,
    process_end: jsonOf(run.end),
    error_code: run.errorCode,
  };
}
