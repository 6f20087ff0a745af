/** Approvals in PostgreSQL. */
import {
  type ApprovalDecision,
  type ApprovalRecords,
  eventOfApproval,
  type NewApproval,
  type Page,
  type PageRequest,
  pageOf,
  type RecordedApproval,
  type SnapshotBefore,
} from '@space/control';
import {
  type ApiKeyId,
  AppError,
  type ApprovalId,
  type ApprovalLimits,
  type ApprovalState,
  type ApprovalStep,
  afterStep,
  type OrganisationId,
  type ProjectId,
  type SandboxId,
  statesBefore,
} from '@space/core';
import { type Kysely, type Selectable, sql, type Transaction, type Updateable } from 'kysely';
import { translated } from './errors.ts';
import { addNotice, dropNotices } from './notice-rows.ts';
import { newestFirst } from './pages.ts';
import { appendEvents } from './postgres-events.ts';
import type { Tables } from './schema.ts';

type Row = Selectable<Tables['approvals']>;
type Changes = Updateable<Tables['approvals']>;

export class PostgresApprovals implements ApprovalRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  ask(fresh: NewApproval, limits: ApprovalLimits): Promise<RecordedApproval> {
    return this.#transaction(async (tx) => {
      // The lock: two that ask for the same at once get the same answer, and neither changes its generation meanwhile.
      const live = tx.selectFrom('sandboxes').select(['generation', 'settled']).where('id', '=', fresh.sandboxId);
      const sandbox = await live.forNoKeyUpdate().executeTakeFirst();
      if (sandbox === undefined || sandbox.settled === 'deleted') {
        throw new AppError('not_found', `There is no sandbox "${fresh.sandboxId}".`);
      }
      const { generation } = sandbox;
      const known = await tx
        .selectFrom('approvals')
        .selectAll()
        .where('sandbox_id', '=', fresh.sandboxId)
        .where('generation', '=', generation)
        .where('digest', '=', fresh.digest)
        .where((eb) =>
          eb.or([
            eb.and([eb('state', 'in', ['pending', 'approved', 'denied']), eb('expires_at', '>', fresh.requestedAt)]),
            eb.and([eb('state', '=', 'used'), eb('used_for', '=', fresh.askedBy)]),
          ]),
        )
        .orderBy(sql`used_for is not distinct from ${fresh.askedBy}`, 'desc')
        .orderBy('requested_at', 'desc')
        .executeTakeFirst();
      if (known !== undefined) return approvalOf(known);
      // What is late has expired, also when nobody has written that down yet.
      const late = tx
        .selectFrom('approvals')
        .selectAll()
        .where('sandbox_id', '=', fresh.sandboxId)
        .where('digest', '=', fresh.digest)
        .where('state', 'in', [...statesBefore('expire')]);
      await endAll(tx, await late.forUpdate().execute(), 'expire', fresh.requestedAt);
      await checkLimits(tx, fresh, limits);
      const { askedBy: _, ...rest } = fresh;
      const approval = { ...rest, ...UNDECIDED, generation };
      await tx.insertInto('approvals').values(rowOf(approval)).execute();
      await addNotice(tx, approval);
      await appendEvents(tx, [eventOfApproval('requested', approval, fresh.requestedAt)]);
      return approval;
    });
  }

  find(id: ApprovalId): Promise<RecordedApproval | null> {
    return translated(async () => {
      const row = await this.#db.selectFrom('approvals').selectAll().where('id', '=', id).executeTakeFirst();
      return row === undefined ? null : approvalOf(row);
    });
  }

  list(
    page: PageRequest & {
      readonly projectId: ProjectId;
      readonly sandboxId?: SandboxId;
      readonly state?: ApprovalState;
    },
  ): Promise<Page<RecordedApproval>> {
    return translated(async () => {
      const { projectId, sandboxId, state } = page;
      let query = this.#db.selectFrom('approvals').selectAll().where('project_id', '=', projectId);
      if (sandboxId !== undefined) query = query.where('sandbox_id', '=', sandboxId);
      if (state !== undefined) query = query.where('state', '=', state);
      const rows = await newestFirst(query, page, 'requested_at').execute();
      return pageOf(rows.map(approvalOf), page.limit, (one) => one.requestedAt);
    });
  }

  decide(id: ApprovalId, { step, by, reason, at, expiresAt }: ApprovalDecision): Promise<RecordedApproval | null> {
    return this.#step(id, step, at, () => ({ decided_by: by, decided_at: at, reason, expires_at: expiresAt }));
  }

  use(
    id: ApprovalId,
    {
      usedFor,
      snapshot,
      at,
    }: { readonly usedFor: string; readonly snapshot: SnapshotBefore | null; readonly at: Date },
  ): Promise<RecordedApproval | null> {
    const taken = snapshot === null ? null : JSON.stringify(snapshot);
    return this.#step(id, 'use', at, () => ({ used_for: usedFor, snapshot: taken, ended_at: at }));
  }

  async release(id: ApprovalId, usedFor: string, at: Date): Promise<boolean> {
    const changes = (row: Row) => (row.used_for === usedFor ? { used_for: null, ended_at: null } : null);
    return (await this.#step(id, 'release', at, changes)) !== null;
  }

  expire(at: Date, limit: number): Promise<readonly RecordedApproval[]> {
    return this.#transaction(async (tx) => {
      const late = tx
        .selectFrom('approvals')
        .selectAll()
        .where('state', 'in', [...statesBefore('expire')])
        .where('expires_at', '<=', at);
      const rows = await late.orderBy('expires_at').limit(limit).forUpdate().skipLocked().execute();
      return endAll(tx, rows, 'expire', at);
    });
  }

  dropBefore(at: Date): Promise<void> {
    return translated(async () => {
      const old = this.#db.deleteFrom('approvals').where('state', 'not in', [...statesBefore('expire')]);
      await old.where('expires_at', '<', at).execute();
    });
  }

  /** Under the lock of its row: of all that try at once, the table lets one. */
  #step(
    id: ApprovalId,
    step: ApprovalStep,
    at: Date,
    changesOf: (row: Row) => Changes | null,
  ): Promise<RecordedApproval | null> {
    return this.#transaction(async (tx) => {
      const found = tx.selectFrom('approvals').selectAll().where('id', '=', id);
      const before = await found.forUpdate().executeTakeFirst();
      if (before === undefined) return null;
      const state = afterStep(before.state, step);
      // What is late has expired, also when nobody has written that down yet.
      if (state === null || (step !== 'release' && before.expires_at <= at)) return null;
      const changes = changesOf(before);
      if (changes === null) return null;
      const update = tx
        .updateTable('approvals')
        .set({ ...changes, state })
        .where('id', '=', id);
      const after = approvalOf(await update.returningAll().executeTakeFirstOrThrow());
      await dropNotices(tx, [id]);
      await appendEvents(tx, [eventOfApproval(step === 'release' ? 'released' : after.state, after, at)]);
      return after;
    });
  }

  #transaction<T>(work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> {
    return translated(() => this.#db.transaction().execute(work));
  }
}

/** In the transaction in which its sandbox goes back, leaves or is deleted. */
export async function voidApprovals(tx: Transaction<Tables>, sandboxId: SandboxId, at: Date): Promise<void> {
  const open = tx
    .selectFrom('approvals')
    .selectAll()
    .where('sandbox_id', '=', sandboxId)
    .where('state', 'in', [...statesBefore('void')]);
  await endAll(tx, await open.orderBy('id').forUpdate().execute(), 'void', at);
}

async function endAll(
  tx: Transaction<Tables>,
  rows: readonly Row[],
  step: 'expire' | 'void',
  at: Date,
): Promise<readonly RecordedApproval[]> {
  if (rows.length === 0) return [];
  const state = step === 'expire' ? 'expired' : 'void';
  const ids = rows.map(({ id }) => id);
  const update = tx.updateTable('approvals').set({ state, ended_at: at }).where('id', 'in', ids);
  const ended = (await update.returningAll().execute()).map(approvalOf);
  await dropNotices(tx, ids);
  await appendEvents(
    tx,
    ended.map((one) => eventOfApproval(state, one, at)),
  );
  return ended;
}

/** Under the lock of the sandbox, and then of the organisation, as whatever is counted is. */
async function checkLimits(
  tx: Transaction<Tables>,
  { sandboxId, organisationId }: NewApproval,
  { perSandbox, perOrganisation }: ApprovalLimits,
): Promise<void> {
  const own = tx.selectFrom('organisations').select('id').where('id', '=', organisationId);
  await own.forNoKeyUpdate().executeTakeFirst();
  const pending = tx.selectFrom('approvals').where('state', '=', 'pending');
  const counted = pending.select((eb) => eb.fn.countAll<number>().as('count'));
  const count = async (column: 'sandbox_id' | 'organisation_id', id: string): Promise<number> =>
    (await counted.where(column, '=', id).executeTakeFirstOrThrow()).count;
  if ((await count('sandbox_id', sandboxId)) >= perSandbox) {
    throw new AppError('limit_reached', {
      detail: `${perSandbox} requests of the sandbox wait for a reviewer already.`,
      facts: { max: perSandbox },
    });
  }
  if ((await count('organisation_id', organisationId)) >= perOrganisation) {
    throw new AppError('limit_reached', {
      detail: `${perOrganisation} requests of the organisation wait for a reviewer already.`,
      facts: { max: perOrganisation },
    });
  }
}

const UNDECIDED = {
  state: 'pending',
  decidedBy: null,
  decidedAt: null,
  reason: null,
  endedAt: null,
  usedFor: null,
  snapshot: null,
} as const satisfies Partial<RecordedApproval>;

export function approvalOf(row: Row): RecordedApproval {
  return {
    id: row.id as ApprovalId,
    organisationId: row.organisation_id as OrganisationId,
    projectId: row.project_id as ProjectId,
    sandboxId: row.sandbox_id as SandboxId,
    generation: row.generation,
    digest: row.digest,
    rule: row.rule,
    request: row.request,
    state: row.state,
    requestedAt: row.requested_at,
    expiresAt: row.expires_at,
    decidedBy: row.decided_by as ApiKeyId | null,
    decidedAt: row.decided_at,
    reason: row.reason,
    endedAt: row.ended_at,
    usedFor: row.used_for,
    snapshot: row.snapshot,
  };
}

function rowOf(approval: RecordedApproval) {
  return {
    id: approval.id,
    organisation_id: approval.organisationId,
    project_id: approval.projectId,
    sandbox_id: approval.sandboxId,
    generation: approval.generation,
    digest: approval.digest,
    rule: approval.rule,
    request: JSON.stringify(approval.request),
    state: approval.state,
    requested_at: approval.requestedAt,
    expires_at: approval.expiresAt,
  };
}
