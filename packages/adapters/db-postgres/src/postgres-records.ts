/** The records port in PostgreSQL. Each method is one transaction; each compare-and-set is one `update … where`. */
import {
  type ApprovalRecords,
  type ArchiveRecords,
  type AuditRecords,
  type CallRecords,
  type ChainRecords,
  countsAsKept,
  type EventRecords,
  endsPauseFailure,
  eventOfPauseFailure,
  eventsOfEnd,
  eventsOfSettling,
  type FaceRecords,
  type Finding,
  type HistoryRecords,
  inputOfBirth,
  type NewSandbox,
  type NoticeRecords,
  type OperationBegin,
  type OperationEnd,
  type Page,
  type PageRequest,
  type PauseFailure,
  pageOf,
  type RecordedOperation,
  type RecordedSandbox,
  type RecordedSnapshot,
  type Records,
  type RecordsOfEgress,
  type ScheduleRecords,
  type SecretRecords,
  type ShareRecords,
  type TemplateRecords,
  type TenantRecords,
  type VaultRecords,
  voidsApprovals,
} from '@space/control';
import {
  AppError,
  addedBy,
  beginsRun,
  DEFAULT_RUNS,
  type Expiry,
  expiryOfRun,
  isPlatformsOwn,
  type ProcessId,
  type ProjectId,
  type SandboxId,
  type SandboxStatus,
  type Settled,
  type SnapshotId,
} from '@space/core';
import { type Kysely, sql, type Transaction } from 'kysely';
import type { Database } from './database.ts';
import { translated } from './errors.ts';
import { newestFirst } from './pages.ts';
import { PostgresApprovals, voidApprovals } from './postgres-approvals.ts';
import { PostgresArchives } from './postgres-archives.ts';
import { PostgresAudit, recordBegun } from './postgres-audit.ts';
import { PostgresCalls } from './postgres-calls.ts';
import { PostgresChain } from './postgres-chain.ts';
import { PostgresEgress } from './postgres-egress.ts';
import { appendEvents, PostgresEvents } from './postgres-events.ts';
import { PostgresFaces } from './postgres-faces.ts';
import { doomSnapshots, dropSnapshots, PostgresHistory } from './postgres-history.ts';
import { reserve } from './postgres-limits.ts';
import { PostgresNotices } from './postgres-notices.ts';
import { PostgresSchedules } from './postgres-schedules.ts';
import { PostgresSecrets } from './postgres-secrets.ts';
import { PostgresShares } from './postgres-shares.ts';
import { PostgresTemplates } from './postgres-templates.ts';
import { PostgresTenants } from './postgres-tenants.ts';
import { PostgresVaults } from './postgres-vaults.ts';
import { changesOf, operationOf, rowOfBy, rowOfSnapshot, sandboxOf, snapshotOf } from './rows.ts';
import type { Tables } from './schema.ts';
import { hasStatus } from './statuses.ts';

export function createPostgresRecords({ db, load }: Database): Records {
  return new PostgresRecords(db, load);
}

class PostgresRecords implements Records {
  readonly tenants: TenantRecords;
  readonly calls: CallRecords;
  readonly audit: AuditRecords;
  readonly events: EventRecords;
  readonly schedules: ScheduleRecords;
  readonly history: HistoryRecords;
  readonly shares: ShareRecords;
  readonly egress: RecordsOfEgress;
  readonly approvals: ApprovalRecords;
  readonly chain: ChainRecords;
  readonly notices: NoticeRecords;
  readonly secrets: SecretRecords;
  readonly archives: ArchiveRecords;
  readonly vaults: VaultRecords;
  readonly faces: FaceRecords;
  readonly templates: TemplateRecords;
  readonly #db: Kysely<Tables>;
  readonly #load: Database['load'];

  constructor(db: Kysely<Tables>, load: Database['load']) {
    this.#load = load;
    this.#db = db;
    this.tenants = new PostgresTenants(db);
    this.calls = new PostgresCalls(db);
    this.audit = new PostgresAudit(db);
    this.events = new PostgresEvents(db);
    this.schedules = new PostgresSchedules(db);
    this.history = new PostgresHistory(db);
    this.shares = new PostgresShares(db);
    this.egress = new PostgresEgress(db);
    this.approvals = new PostgresApprovals(db);
    this.chain = new PostgresChain(db);
    this.notices = new PostgresNotices(db);
    this.secrets = new PostgresSecrets(db);
    this.archives = new PostgresArchives(db);
    this.vaults = new PostgresVaults(db);
    this.faces = new PostgresFaces(db);
    this.templates = new PostgresTemplates(db);
  }

  addSandboxes(sandboxes: readonly NewSandbox[]): Promise<void> {
    if (sandboxes.length === 0) return Promise.resolve();
    return this.#transaction(async (tx) => {
      const epochs = new Map<SandboxId, number>();
      for (const one of sandboxes) epochs.set(one.id, await insertSandbox(tx, one));
      await tx
        .insertInto('operations')
        .values(
          sandboxes.map(({ id, projectId, operationId, forkedFrom, arrival, by, at }) => ({
            id: operationId,
            sandbox_id: id,
            project_id: projectId,
            kind: arrival === null ? ('create' as const) : ('arrive' as const),
            epoch: epochs.get(id) ?? 1,
            input: JSON.stringify(inputOfBirth({ forkedFrom, arrival })),
            ...rowOfBy(by),
            started_at: at,
          })),
        )
        .execute();
      // All of one call are in one project.
      const users = sandboxes.filter(({ name }) => !isPlatformsOwn(name));
      for (const projectId of new Set(users.map((one) => one.projectId))) {
        await reserve(tx, projectId, addedBy('create', 'absent', false));
      }
      for (const { id, operationId, by, at } of sandboxes) {
        if (by !== null) await recordBegun(tx, by, { target: id, operationId, at });
      }
    });
  }

  findSandbox(id: SandboxId): Promise<RecordedSandbox | null> {
    return translated(async () => {
      const row = await this.#db.selectFrom('sandboxes').selectAll().where('id', '=', id).executeTakeFirst();
      return row === undefined ? null : sandboxOf(row);
    });
  }

  findSandboxByName(projectId: ProjectId, name: string): Promise<RecordedSandbox | null> {
    return translated(async () => {
      const live = this.#db.selectFrom('sandboxes').selectAll().where('settled', '<>', 'deleted');
      const named = live.where('project_id', '=', projectId).where('name', '=', name);
      const row = await named.executeTakeFirst();
      return row === undefined ? null : sandboxOf(row);
    });
  }

  listSandboxes(
    page: PageRequest & { readonly projectId: ProjectId; readonly status?: SandboxStatus },
  ): Promise<Page<RecordedSandbox>> {
    return translated(async () => {
      const { projectId, status } = page;
      const live = this.#db.selectFrom('sandboxes').selectAll().where('settled', '<>', 'deleted');
      let query = live.where('project_id', '=', projectId).where(isUsers);
      if (status !== undefined) query = query.where((eb) => hasStatus(eb, status));
      const rows = await newestFirst(query, page).execute();
      return pageOf(rows.map(sandboxOf), page.limit, (sandbox) => sandbox.createdAt);
    });
  }

  allSandboxes(): Promise<readonly RecordedSandbox[]> {
    return translated(async () => {
      const rows = await this.#db.selectFrom('sandboxes').selectAll().where('settled', '<>', 'deleted').execute();
      return rows.map(sandboxOf);
    });
  }

  countSandboxes(): Promise<ReadonlyMap<Settled, number>> {
    return translated(async () => {
      const live = this.#db.selectFrom('sandboxes').where('settled', '<>', 'deleted');
      const counted = live.select((eb) => ['settled', eb.fn.countAll<number>().as('count')]).groupBy('settled');
      return new Map((await counted.execute()).map(({ settled, count }) => [settled, count]));
    });
  }

  load(): ReturnType<Records['load']> {
    return this.#load();
  }

  beginOperation({
    seen,
    operationId,
    operation,
    input,
    taking,
    by,
    at,
  }: OperationBegin): Promise<RecordedSandbox | null> {
    return this.#transaction(async (tx) => {
      const row = await tx
        .updateTable('sandboxes')
        .set({ operation, operation_id: operationId, epoch: sql<number>`epoch + 1`, updated_at: at })
        .where('id', '=', seen.id)
        .where('epoch', '=', seen.epoch)
        .where('settled', '=', seen.settled)
        .where(sql<boolean>`operation_id is not distinct from ${seen.operationId}`)
        .returningAll()
        .executeTakeFirst();
      if (row === undefined) return null;
      if (seen.operationId !== null) {
        const superseded = { outcome: 'superseded' as const, ended_at: at };
        await tx.updateTable('operations').set(superseded).where('id', '=', seen.operationId).execute();
      }
      const { id, epoch } = row;
      const journal = {
        id: operationId,
        sandbox_id: id,
        project_id: row.project_id,
        kind: operation,
        epoch,
        ...rowOfBy(by),
        started_at: at,
      };
      await tx
        .insertInto('operations')
        .values({ ...journal, input: JSON.stringify(input) })
        .execute();
      if (by !== null) await recordBegun(tx, by, { target: id, operationId, at });
      if (taking !== null) await tx.insertInto('snapshots').values(rowOfSnapshot(taking)).execute();
      const takesKept = taking !== null && countsAsKept(taking);
      if (!isPlatformsOwn(seen.name)) await reserve(tx, seen.projectId, addedBy(operation, seen.settled, takesKept));
      return sandboxOf(row);
    });
  }

  endOperation(end: OperationEnd): Promise<RecordedSandbox | null> {
    return this.#transaction(async (tx) => {
      const content = end.settled === 'deleted' ? TOMBSTONE : {};
      const before = await tx.selectFrom('sandboxes').selectAll().where('id', '=', end.sandboxId).executeTakeFirst();
      const row = await tx
        .updateTable('sandboxes')
        .set({ ...changesOf(end.changes), ...content, settled: end.settled, updated_at: end.at })
        .set({ operation: null, operation_id: null })
        .set({ wake_at: sql<Date | null>`case when ${isMet(end)} then null else wake_at end` })
        .set(before === undefined ? {} : runOf(sandboxOf(before), end))
        .set(before !== undefined && endsPauseFailure(before.operation, end) ? { pause_failure: null } : {})
        .where('id', '=', end.sandboxId)
        .where('epoch', '=', end.epoch)
        .where('operation_id', '=', end.operationId)
        .returningAll()
        .executeTakeFirst();
      if (row === undefined || before === undefined) return this.#alreadyEnded(tx, end);
      await tx
        .updateTable('operations')
        .set({ outcome: end.outcome, error_code: end.errorCode, ended_at: end.at })
        .set({ timings: end.timings === null ? null : JSON.stringify(end.timings) })
        .where('id', '=', end.operationId)
        .execute();
      const taken: RecordedSnapshot[] = [];
      for (const point of end.points) if (await upsertSnapshot(tx, point)) taken.push(point);
      await appendEvents(tx, eventsOfEnd(sandboxOf(before), end, taken));
      await dropSnapshots(tx, end.dropped, end);
      if (end.settled === 'deleted') {
        await tx.deleteFrom('schedules').where('sandbox_id', '=', row.id).execute();
        await tx.deleteFrom('shares').where('sandbox_id', '=', row.id).execute();
      }
      if (voidsApprovals(before, row)) await voidApprovals(tx, end.sandboxId, end.at);
      await doomSnapshots(tx, end.doomed, end);
      if (end.dropped.length === 0 && end.doomed.length === 0) return sandboxOf(row);
      // Read again: what was dropped may have been its head.
      return sandboxOf(await tx.selectFrom('sandboxes').selectAll().where('id', '=', row.id).executeTakeFirstOrThrow());
    });
  }

  findOperation(id: RecordedOperation['id']): Promise<RecordedOperation | null> {
    return translated(async () => {
      const row = await this.#db.selectFrom('operations').selectAll().where('id', '=', id).executeTakeFirst();
      return row === undefined ? null : operationOf(row);
    });
  }

  operationsOf(requestId: string): Promise<readonly RecordedOperation[]> {
    return translated(async () => {
      const begun = this.#db.selectFrom('operations').selectAll().where('request_id', '=', requestId);
      return (await begun.orderBy('started_at').orderBy('epoch').execute()).map(operationOf);
    });
  }

  listOperations(
    page: PageRequest & { readonly projectId: ProjectId; readonly sandboxId?: SandboxId; readonly requestId?: string },
  ): Promise<Page<RecordedOperation>> {
    return translated(async () => {
      const { projectId, sandboxId, requestId } = page;
      let query = this.#db.selectFrom('operations').selectAll().where('project_id', '=', projectId);
      if (sandboxId !== undefined) query = query.where('sandbox_id', '=', sandboxId);
      if (requestId !== undefined) query = query.where('request_id', '=', requestId);
      const rows = await newestFirst(query, page, 'started_at').execute();
      return pageOf(rows.map(operationOf), page.limit, (one) => one.startedAt);
    });
  }

  updateSandbox(id: SandboxId, changes: Parameters<Records['updateSandbox']>[1], at: Date) {
    const { pauseAfterMs, wakeAt, expiry, snapshotPolicy, network, secrets, missingSecrets } = changes;
    const { runs, publicPorts, access } = changes;
    return translated(async () => {
      const row = await this.#db
        .updateTable('sandboxes')
        .set({
          ...(pauseAfterMs === undefined ? {} : { pause_after_ms: pauseAfterMs }),
          ...(wakeAt === undefined ? {} : { wake_at: wakeAt }),
          ...(expiry === undefined ? {} : rowOfExpiry(expiry)),
          ...(runs === undefined ? {} : { runs: JSON.stringify(runs) }),
          ...(publicPorts === undefined ? {} : { public_ports: publicPorts }),
          ...(access === undefined ? {} : { access: access === null ? null : JSON.stringify(access) }),
          ...(snapshotPolicy === undefined ? {} : { snapshot_policy: JSON.stringify(snapshotPolicy) }),
          ...(network === undefined ? {} : { network: JSON.stringify(network) }),
          ...(secrets === undefined ? {} : { secrets: JSON.stringify(secrets) }),
          ...(missingSecrets === undefined ? {} : { missing_secrets: JSON.stringify(missingSecrets) }),
          updated_at: at,
        })
        .where('id', '=', id)
        .where('settled', '<>', 'deleted')
        .returningAll()
        .executeTakeFirst();
      return row === undefined ? null : sandboxOf(row);
    });
  }

  addKeeper(id: SandboxId, processId: ProcessId): Promise<void> {
    return translated(async () => {
      await sql`
        update sandboxes set keepers = array_append(keepers, ${processId})
        where id = ${id} and settled <> 'deleted' and not ${processId} = any (keepers)`.execute(this.#db);
    });
  }

  dropKeepers(id: SandboxId, processIds: readonly ProcessId[]): Promise<void> {
    return translated(async () => {
      await sql`
        update sandboxes
        set keepers = array(select one from unnest(keepers) as one where not one = any (${[...processIds]}::text[]))
        where id = ${id}`.execute(this.#db);
    });
  }

  notePauseFailure(id: SandboxId, failure: PauseFailure, at: Date): Promise<void> {
    return this.#transaction(async (tx) => {
      const running = tx.selectFrom('sandboxes').selectAll().where('id', '=', id).where('settled', '=', 'running');
      const before = await running.forUpdate().executeTakeFirst();
      if (before === undefined) return;
      const noted = { pause_failure: JSON.stringify(failure) };
      await tx.updateTable('sandboxes').set(noted).where('id', '=', id).execute();
      if (before.pause_failure === null) {
        await appendEvents(tx, [eventOfPauseFailure(sandboxOf(before), failure.code, at)]);
      }
    });
  }

  sandboxesToWake(at: Date, limit: number): Promise<readonly RecordedSandbox[]> {
    return translated(async () => {
      const due = this.#db.selectFrom('sandboxes').selectAll().where('wake_at', '<=', at);
      return (await due.orderBy('wake_at').limit(limit).execute()).map(sandboxOf);
    });
  }

  wakeMet(id: SandboxId, wakeAt: Date): Promise<void> {
    return translated(async () => {
      const update = this.#db.updateTable('sandboxes').set({ wake_at: null }).where('id', '=', id);
      await update.where('wake_at', '=', wakeAt).execute();
    });
  }

  sandboxesToExpire(at: Date, limit: number): Promise<readonly RecordedSandbox[]> {
    return translated(async () => {
      const due = this.#db.selectFrom('sandboxes').selectAll().where('expires_at', '<=', at);
      return (await due.orderBy('expires_at').limit(limit).execute()).map(sandboxOf);
    });
  }

  expiryMet(id: SandboxId, at: Date): Promise<void> {
    return translated(async () => {
      const update = this.#db.updateTable('sandboxes').set(rowOfExpiry(null)).where('id', '=', id);
      await update.where('expires_at', '=', at).execute();
    });
  }

  settle({ seen, settled, changes, at }: Finding): Promise<boolean> {
    return this.#transaction(async (tx) => {
      const row = await tx
        .updateTable('sandboxes')
        .set({ ...changesOf(changes), settled, updated_at: at })
        .set(settled === 'running' ? {} : { pause_failure: null })
        .where('id', '=', seen.id)
        .where('epoch', '=', seen.epoch)
        .where('settled', '=', seen.settled)
        .where('operation', 'is', null)
        .returning(['generation', 'settled'])
        .executeTakeFirst();
      if (row === undefined) return false;
      await appendEvents(tx, eventsOfSettling(seen, settled, at));
      if (voidsApprovals(seen, row)) await voidApprovals(tx, seen.id, at);
      return true;
    });
  }

  findSnapshot(id: SnapshotId): Promise<RecordedSnapshot | null> {
    return translated(async () => {
      const row = await this.#db.selectFrom('snapshots').selectAll().where('id', '=', id).executeTakeFirst();
      return row === undefined ? null : snapshotOf(row);
    });
  }

  findSnapshotByName(projectId: ProjectId, name: string): Promise<RecordedSnapshot | null> {
    return translated(async () => {
      const own = this.#db.selectFrom('snapshots').selectAll().where('project_id', '=', projectId);
      const row = await own.where('name', '=', name).executeTakeFirst();
      return row === undefined ? null : snapshotOf(row);
    });
  }

  snapshotsOf(sandboxId: SandboxId): Promise<readonly RecordedSnapshot[]> {
    return translated(async () => {
      const own = this.#db.selectFrom('snapshots').selectAll().where('sandbox_id', '=', sandboxId);
      return (await own.orderBy('taken_at').orderBy('id').execute()).map(snapshotOf);
    });
  }

  listSnapshots(
    page: PageRequest &
      ({ readonly sandboxId: SandboxId } | { readonly projectId: ProjectId; readonly alsoPlatforms?: true }),
  ): Promise<Page<RecordedSnapshot>> {
    return translated(async () => {
      let query = this.#db.selectFrom('snapshots').selectAll().where('state', '<>', 'taking');
      query =
        'sandboxId' in page
          ? query.where('sandbox_id', '=', page.sandboxId)
          : query.where('project_id', '=', page.projectId).where('name', 'is not', null);
      if (!('sandboxId' in page) && page.alsoPlatforms !== true) query = query.where(isUsers);
      const rows = await newestFirst(query, page, 'taken_at').execute();
      return pageOf(rows.map(snapshotOf), page.limit, (snapshot) => snapshot.takenAt);
    });
  }

  updateSnapshot(
    id: SnapshotId,
    { badReason, ...rest }: Parameters<Records['updateSnapshot']>[1],
  ): Promise<RecordedSnapshot | null> {
    return this.#transaction(async (tx) => {
      const found = tx.selectFrom('snapshots').selectAll().where('id', '=', id).where('state', '<>', 'taking');
      const before = await found.forUpdate().executeTakeFirst();
      if (before === undefined) return null;
      const set = { ...rest, ...(badReason === undefined ? {} : { bad_reason: badReason }) };
      if (Object.keys(set).length === 0) return snapshotOf(before);
      const row = await tx
        .updateTable('snapshots')
        .set(set)
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirstOrThrow();
      const counts = countsAsKept(row) && !countsAsKept(before);
      if (counts) await reserve(tx, row.project_id as ProjectId, ['snapshots']);
      return snapshotOf(row);
    });
  }

  installation(): Promise<string> {
    return translated(async () => {
      const { rows } = await sql<{ id: string }>`select id from installation`.execute(this.#db);
      const [row] = rows;
      if (row === undefined) throw new Error('the migrations name the installation');
      return row.id;
    });
  }

  ping(): Promise<void> {
    return translated(async () => {
      await sql`select 1`.execute(this.#db);
    });
  }

  /** An end whose acknowledgement was lost is repeated; one that was superseded is not. */
  async #alreadyEnded(tx: Transaction<Tables>, end: OperationEnd): Promise<RecordedSandbox | null> {
    const journal = await tx
      .selectFrom('operations')
      .select('outcome')
      .where('id', '=', end.operationId)
      .executeTakeFirst();
    const outcome = journal?.outcome ?? null;
    if (outcome === null || outcome === 'superseded') return null;
    const now = await tx
      .selectFrom('sandboxes')
      .selectAll()
      .where('id', '=', end.sandboxId)
      .where('epoch', '=', end.epoch)
      .executeTakeFirst();
    return now === undefined ? null : sandboxOf(now);
  }

  #transaction<T>(work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> {
    return translated(() => this.#db.transaction().execute(work));
  }
}

/** An id is never used again, so its row stays; nothing of the tenant does. */
const TOMBSTONE = {
  env: '{}',
  secrets: '[]',
  missing_secrets: '[]',
  metadata: '{}',
  content: null,
  access: null,
  crash_detail: null,
  crash_at: null,
  moved: null,
  archiving: null,
  keepers: [],
};

/** Its epoch. An id that is here stands in the way, unless it is a tombstone which has been through fewer moves. */
async function insertSandbox(tx: Transaction<Tables>, sandbox: NewSandbox): Promise<number> {
  const row = rowOfNewSandbox(sandbox);
  const { arrival } = sandbox;
  const insert = tx.insertInto('sandboxes').values(row);
  const { id: _, epoch: __, ...again } = row;
  const arriving = insert.onConflict((conflict) =>
    conflict
      .column('id')
      .doUpdateSet({ ...again, epoch: sql<number>`sandboxes.epoch + 1` })
      .where('sandboxes.settled', '=', 'deleted')
      .where('sandboxes.moves', '<', arrival?.number ?? 0),
  );
  const made = await (arrival === null ? insert : arriving).returning('epoch').executeTakeFirst();
  if (made === undefined) throw new AppError('wrong_state', `${sandbox.id} is here, or has been since.`);
  return made.epoch;
}

function rowOfNewSandbox(sandbox: NewSandbox) {
  const {
    projectId,
    by: _,
    operationId,
    forkedFrom,
    arrival,
    at,
    size,
    env,
    metadata,
    sealed,
    pauseAfterMs,
    wakeAt,
    expiry,
    snapshotPolicy,
    network,
    runs = DEFAULT_RUNS,
    publicPorts = false,
    builtFrom = null,
    secrets = [],
    missingSecrets = [],
    ...rest
  } = sandbox;
  return {
    ...rest,
    project_id: projectId,
    size: JSON.stringify(size),
    env: JSON.stringify(env),
    metadata: JSON.stringify(metadata),
    content: sealed === undefined ? null : Buffer.from(sealed),
    pause_after_ms: pauseAfterMs,
    wake_at: wakeAt,
    ...rowOfExpiry(expiry),
    snapshot_policy: JSON.stringify(snapshotPolicy),
    network: JSON.stringify(network),
    runs: JSON.stringify(runs),
    public_ports: publicPorts,
    built_from: builtFrom === null ? null : JSON.stringify(builtFrom),
    secrets: JSON.stringify(secrets),
    missing_secrets: JSON.stringify(missingSecrets),
    settled: 'absent' as const,
    operation: arrival === null ? ('create' as const) : ('arrive' as const),
    operation_id: operationId,
    epoch: 1,
    generation: arrival?.generation ?? 1,
    head: forkedFrom?.snapshotId ?? null,
    forked_from_sandbox: forkedFrom?.sandboxId ?? null,
    forked_from_snapshot: forkedFrom?.snapshotId ?? null,
    origin: forkedFrom?.snapshotId ?? null,
    created_at: at,
    updated_at: at,
  };
}

const isUsers = sql<boolean>`(name is null or name not like '.%')`;

function rowOfExpiry(expiry: Expiry | null) {
  return { expires_at: expiry?.at ?? null, expiry_action: expiry?.action ?? null };
}

/** What the end of an operation says of its run. */
function runOf(before: RecordedSandbox, end: OperationEnd) {
  const expiry = expiryOfRun(before, end.settled, end.at);
  const kept = {
    expires_at: sql<Date | null>`case when ${isExpiryMet(end)} then null else expires_at end`,
    expiry_action: sql<Expiry['action'] | null>`case when ${isExpiryMet(end)} then null else expiry_action end`,
  };
  return {
    ...(expiry === undefined ? kept : rowOfExpiry(expiry)),
    ...(beginsRun(before.settled, end.settled) ? { started_at: end.at } : {}),
  };
}

/** One that is to be deleted is not done with when it is paused. */
function isExpiryMet({ settled, at }: OperationEnd) {
  if (settled === 'deleted') return sql`true`;
  return settled === 'paused' ? sql`expires_at <= ${at} and expiry_action <> 'delete'` : sql`false`;
}

/** Whether an operation has ended with what a set time asks for. */
function isMet({ settled, at }: OperationEnd) {
  return settled === 'deleted' ? sql`true` : settled === 'running' ? sql`wake_at <= ${at}` : sql`false`;
}

/** Whether it was being taken. */
async function upsertSnapshot(tx: Transaction<Tables>, snapshot: RecordedSnapshot): Promise<boolean> {
  const { id, ...changes } = rowOfSnapshot(snapshot);
  const upsert = tx
    .insertInto('snapshots')
    .values({ id, ...changes })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(changes));
  // A query within a statement sees the rows as they were before it.
  const before = sql<string | null>`(select state from snapshots where id = ${id})`.as('before');
  return (await upsert.returning(before).executeTakeFirst())?.before === 'taking';
}
