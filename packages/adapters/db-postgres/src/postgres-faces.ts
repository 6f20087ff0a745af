/** What faces ask of PostgreSQL. A list by runs sorts what is live of one project; each request into a sandbox is one statement. */
import type { FaceRecords, RecordedReach, RecordedSandbox, RunsAsked, RunsPage } from '@space/control';
import type { ApiKeyId, OrganisationId, ProjectId, Role, SandboxId } from '@space/core';
import { type Kysely, type SelectQueryBuilder, sql } from 'kysely';
import { translated } from './errors.ts';
import { sandboxOf } from './rows.ts';
import type { Tables } from './schema.ts';
import { hasStatus } from './statuses.ts';

const BEGAN = sql<Date>`coalesce(sandboxes.started_at, sandboxes.created_at)`;

export class PostgresFaces implements FaceRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  findReach(id: SandboxId): Promise<RecordedReach | null> {
    return translated(async () => {
      const row = await this.#db
        .selectFrom('sandboxes')
        .leftJoin('api_keys', (join) =>
          join
            .on(({ eb, ref }) => eb(ref('api_keys.id'), '=', sql<string>`sandboxes.access ->> 'keyId'`))
            .on('api_keys.revoked_at', 'is', null),
        )
        .leftJoin('organisations', 'organisations.id', 'api_keys.organisation_id')
        .leftJoin('projects', 'projects.id', 'sandboxes.project_id')
        .leftJoin('snapshots', 'snapshots.id', 'sandboxes.head')
        .selectAll('sandboxes')
        .select([
          'projects.organisation_id as owner',
          'organisations.operator as key_operator',
          'api_keys.id as key_id',
          'api_keys.organisation_id as key_organisation',
          'api_keys.project_id as key_project',
          'api_keys.roles as key_roles',
          'snapshots.kind as head_kind',
        ])
        .where('sandboxes.id', '=', id)
        .executeTakeFirst();
      if (row === undefined) return null;
      const organisationId = row.owner as OrganisationId | null;
      return { sandbox: sandboxOf(row), holder: holderIn(row), headKind: row.head_kind, organisationId };
    });
  }

  listTokens(limit: number): Promise<readonly { readonly id: SandboxId; readonly token: string }[]> {
    return translated(async () => {
      const rows = await this.#db
        .selectFrom('sandboxes')
        .select(['id', sql<string>`access ->> 'token'`.as('token')])
        .where('settled', '<>', 'deleted')
        .where('access', 'is not', null)
        .orderBy('created_at', 'desc')
        .limit(limit)
        .execute();
      return rows.map(({ id, token }) => ({ id: id as SandboxId, token }));
    });
  }

  listByRun({ order, limit, after, ...asked }: RunsPage): Promise<readonly RecordedSandbox[]> {
    return translated(async () => {
      let query = this.#asked(asked).selectAll('sandboxes');
      if (after !== undefined) {
        const past = order === 'asc' ? sql`>` : sql`<`;
        query = query.where(
          sql<boolean>`(${BEGAN} ${past} ${after.at} or (${BEGAN} = ${after.at} and sandboxes.id > ${after.id}))`,
        );
      }
      const rows = await query.orderBy(BEGAN, order).orderBy('sandboxes.id').limit(limit).execute();
      return rows.map(sandboxOf);
    });
  }

  countByRun(asked: RunsAsked): Promise<number> {
    return translated(async () => {
      const row = await this.#asked(asked)
        .select((eb) => eb.fn.countAll<number>().as('count'))
        .executeTakeFirst();
      return Number(row?.count ?? 0);
    });
  }

  #asked({
    projectId,
    statuses,
    metadata,
    startedFrom,
    template,
  }: RunsAsked): SelectQueryBuilder<Tables, 'sandboxes', object> {
    let query = this.#db
      .selectFrom('sandboxes')
      .where('sandboxes.settled', '<>', 'deleted')
      .where('sandboxes.project_id', '=', projectId)
      .where(sql<boolean>`(sandboxes.name is null or sandboxes.name not like '.%')`)
      .where((eb) => eb.or(statuses.map((status) => hasStatus(eb, status))));
    if (Object.keys(metadata).length > 0) {
      query = query.where(sql<boolean>`sandboxes.metadata @> ${JSON.stringify(metadata)}::jsonb`);
    }
    if (startedFrom !== undefined) query = query.where(BEGAN, '>=', startedFrom);
    if (template === undefined) return query;
    return query.where(sql<boolean>`coalesce(sandboxes.built_from ->> 'template', sandboxes.template) = ${template}`);
  }
}

interface HolderRow {
  readonly key_operator: boolean | null;
  readonly key_id: string | null;
  readonly key_organisation: string | null;
  readonly key_project: string | null;
  readonly key_roles: readonly Role[] | null;
}

function holderIn({ key_operator: operator, key_roles: roles, ...row }: HolderRow): RecordedReach['holder'] {
  if (row.key_id === null || row.key_organisation === null || roles === null || operator === null) return null;
  const id = row.key_id as ApiKeyId;
  const organisationId = row.key_organisation as OrganisationId;
  return { operator, key: { id, organisationId, projectId: row.key_project as ProjectId | null, roles } };
}
