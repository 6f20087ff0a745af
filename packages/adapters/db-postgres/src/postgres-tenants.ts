/** Organisations, projects and API keys in PostgreSQL. */
import {
  eventOfRevocation,
  type KeyHolder,
  type Page,
  type PageRequest,
  type ProjectChanges,
  type ProjectDeletion,
  pageOf,
  type RecordedApiKey,
  type RecordedOrganisation,
  type RecordedProject,
  type Revocation,
  type TenantRecords,
} from '@space/control';
import type { ApiKeyId, Limits, NetworkConstraints, OrganisationId, PolicyChoice, ProjectId, Usage } from '@space/core';
import { type Kysely, type RawBuilder, type Selectable, type SelectQueryBuilder, sql, type Transaction } from 'kysely';
import { translated } from './errors.ts';
import { newestFirst } from './pages.ts';
import { appendEvents } from './postgres-events.ts';
import { rowOfLimits, usageOf } from './postgres-limits.ts';
import { apiKeyOf, organisationOf, projectOf, rowOfApiKey, rowOfProject } from './rows.ts';
import type { Tables } from './schema.ts';

type ProjectQuery = SelectQueryBuilder<Tables, 'projects', Selectable<Tables['projects']>>;

export class PostgresTenants implements TenantRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  addOrganisation(organisation: RecordedOrganisation, project: RecordedProject, key: RecordedApiKey): Promise<void> {
    return translated(() =>
      this.#db.transaction().execute(async (tx) => {
        const { id, name, operator, limits, network, createdAt: created_at } = organisation;
        const row = { id, name, operator, created_at, network: JSON.stringify(network), ...rowOfLimits(limits) };
        await tx.insertInto('organisations').values(row).execute();
        await tx.insertInto('projects').values(rowOfProject(project)).execute();
        await tx.insertInto('api_keys').values(rowOfApiKey(key)).execute();
      }),
    );
  }

  findOrganisation(id: OrganisationId): Promise<RecordedOrganisation | null> {
    return translated(async () => {
      const row = await this.#db.selectFrom('organisations').selectAll().where('id', '=', id).executeTakeFirst();
      return row === undefined ? null : organisationOf(row);
    });
  }

  setLimits(id: OrganisationId, limits: Limits): Promise<boolean> {
    return translated(async () => {
      const update = this.#db.updateTable('organisations').set(rowOfLimits(limits)).where('id', '=', id);
      return (await update.returning('id').executeTakeFirst()) !== undefined;
    });
  }

  setNetwork(id: OrganisationId, changes: Partial<NetworkConstraints>): Promise<NetworkConstraints | null> {
    return translated(async () => {
      const merged = sql<string>`network || ${JSON.stringify(changes)}::jsonb`;
      const update = this.#db.updateTable('organisations').set({ network: merged }).where('id', '=', id);
      return (await update.returning('network').executeTakeFirst())?.network ?? null;
    });
  }

  usage(id: OrganisationId): Promise<Usage> {
    return translated(() => usageOf(this.#db, id));
  }

  listOrganisations(page: PageRequest): Promise<Page<RecordedOrganisation>> {
    return translated(async () => {
      const rows = await newestFirst(this.#db.selectFrom('organisations').selectAll(), page).execute();
      return pageOf(rows.map(organisationOf), page.limit, (one) => one.createdAt);
    });
  }

  addProject(project: RecordedProject): Promise<void> {
    return translated(async () => {
      await this.#db.insertInto('projects').values(rowOfProject(project)).execute();
    });
  }

  renameOrganisation(id: OrganisationId, name: string): Promise<RecordedOrganisation | null> {
    return translated(async () => {
      const update = this.#db.updateTable('organisations').set({ name }).where('id', '=', id);
      const row = await update.returningAll().executeTakeFirst();
      return row === undefined ? null : organisationOf(row);
    });
  }

  deleteProject(
    organisationId: OrganisationId,
    id: ProjectId,
    { force, at }: { readonly force: boolean; readonly at: Date },
  ): Promise<ProjectDeletion> {
    return translated(() =>
      this.#db.transaction().execute(async (tx) => {
        // One at a time in an organisation: two that delete the last two would else both succeed.
        await tx.selectFrom('organisations').select('id').where('id', '=', organisationId).forUpdate().execute();
        const own = tx.selectFrom('projects').select('id').where('organisation_id', '=', organisationId);
        const live = await own.where('deleted_at', 'is', null).execute();
        if (!live.some((project) => project.id === id)) return 'absent';
        if (live.length === 1) return 'last';
        if (!force && (await holdsAnything(tx, id))) return 'not_empty';
        await tx.updateTable('projects').set({ deleted_at: at }).where('id', '=', id).execute();
        const keys = tx.updateTable('api_keys').set({ revoked_at: at }).where('project_id', '=', id);
        const revoked = await keys.where('revoked_at', 'is', null).returning('id').execute();
        await appendEvents(
          tx,
          revoked.map((key) => eventOfRevocation(organisationId, key.id as ApiKeyId, at)),
        );
        return 'deleted';
      }),
    );
  }

  projectsToPurge(): Promise<readonly ProjectId[]> {
    return translated(async () => {
      const { rows } = await sql<{ id: ProjectId }>`
        select id from projects where deleted_at is not null and (
          exists (select from sandboxes where project_id = projects.id and settled <> 'deleted')
          or exists (select from snapshots where project_id = projects.id)
        )`.execute(this.#db);
      return rows.map(({ id }) => id);
    });
  }

  findProject(organisationId: OrganisationId, id: ProjectId): Promise<RecordedProject | null> {
    return this.#project(organisationId, (query) => query.where('id', '=', id));
  }

  organisationOf(id: ProjectId): Promise<OrganisationId | null> {
    return translated(async () => {
      const row = await this.#db
        .selectFrom('projects')
        .select('organisation_id')
        .where('id', '=', id)
        .executeTakeFirst();
      return (row?.organisation_id ?? null) as OrganisationId | null;
    });
  }

  findOrganisationOf(id: ProjectId): Promise<RecordedOrganisation | null> {
    return translated(async () => {
      const row = await this.#db
        .selectFrom('organisations')
        .innerJoin('projects', 'projects.organisation_id', 'organisations.id')
        .selectAll('organisations')
        .where('projects.id', '=', id)
        .executeTakeFirst();
      return row === undefined ? null : organisationOf(row);
    });
  }

  findProjectByName(organisationId: OrganisationId, name: string): Promise<RecordedProject | null> {
    return this.#project(organisationId, (query) => query.where('name', '=', name));
  }

  listProjects(
    page: PageRequest & { readonly organisationId: OrganisationId; readonly only: ProjectId | null },
  ): Promise<Page<RecordedProject>> {
    return translated(async () => {
      let query = this.#projectsOf(page.organisationId);
      if (page.only !== null) query = query.where('id', '=', page.only);
      return pageOf((await newestFirst(query, page).execute()).map(projectOf), page.limit, (one) => one.createdAt);
    });
  }

  updateProject(id: ProjectId, { name, snapshotPolicy }: ProjectChanges): Promise<RecordedProject | null> {
    return translated(async () => {
      const changes = {
        ...(name === undefined ? {} : { name }),
        ...(snapshotPolicy === undefined ? {} : { snapshot_policy: JSON.stringify(snapshotPolicy) }),
      };
      if (Object.keys(changes).length > 0) {
        const update = this.#db.updateTable('projects').set(changes).where('id', '=', id);
        await update.where('deleted_at', 'is', null).execute();
      }
      const live = this.#db.selectFrom('projects').selectAll().where('id', '=', id).where('deleted_at', 'is', null);
      const row = await live.executeTakeFirst();
      return row === undefined ? null : projectOf(row);
    });
  }

  snapshotPolicies(only?: ProjectId): Promise<ReadonlyMap<ProjectId, PolicyChoice>> {
    return translated(async () => {
      const all = this.#db.selectFrom('projects').select(['id', 'snapshot_policy']);
      const wanted = only === undefined ? all : all.where('id', '=', only);
      const rows = await wanted.where(sql<boolean>`snapshot_policy <> '{}'`).execute();
      return new Map(rows.map(({ id, snapshot_policy: policy }) => [id as ProjectId, policy]));
    });
  }

  addApiKey(key: RecordedApiKey): Promise<void> {
    return translated(async () => {
      await this.#db.insertInto('api_keys').values(rowOfApiKey(key)).execute();
    });
  }

  findKeyHolder(sha256: Uint8Array): Promise<KeyHolder | null> {
    return this.#holder(sql`api_keys.sha256 = ${Buffer.from(sha256)}`);
  }

  findKeyHolderById(id: ApiKeyId): Promise<KeyHolder | null> {
    return this.#holder(sql`api_keys.id = ${id}`);
  }

  #holder(which: RawBuilder<boolean>): Promise<KeyHolder | null> {
    return translated(async () => {
      const row = await this.#db
        .selectFrom('api_keys')
        .innerJoin('organisations', 'organisations.id', 'api_keys.organisation_id')
        .selectAll('api_keys')
        .select('organisations.operator')
        .select(({ selectFrom }) =>
          selectFrom('projects')
            .select('projects.id')
            .whereRef('projects.organisation_id', '=', 'api_keys.organisation_id')
            .where('projects.deleted_at', 'is', null)
            .orderBy('projects.ordinal')
            .limit(1)
            .as('first_project'),
        )
        .where(which)
        .where('api_keys.revoked_at', 'is', null)
        .executeTakeFirst();
      if (row === undefined) return null;
      return { key: apiKeyOf(row), operator: row.operator, firstProject: row.first_project as ProjectId | null };
    });
  }

  listApiKeys(page: PageRequest & { readonly organisationId: OrganisationId }): Promise<Page<RecordedApiKey>> {
    return translated(async () => {
      const own = this.#db.selectFrom('api_keys').selectAll().where('organisation_id', '=', page.organisationId);
      return pageOf((await newestFirst(own, page).execute()).map(apiKeyOf), page.limit, (one) => one.createdAt);
    });
  }

  revokeApiKey(organisationId: OrganisationId, id: ApiKeyId, at: Date): Promise<Revocation> {
    return translated(() =>
      this.#db.transaction().execute(async (tx) => {
        // One revocation at a time in an organisation: two admins that revoke each other would else both succeed.
        await tx.selectFrom('organisations').select('id').where('id', '=', organisationId).forUpdate().execute();
        const own = tx.selectFrom('api_keys').selectAll().where('organisation_id', '=', organisationId);
        const key = await own.where('id', '=', id).executeTakeFirst();
        if (key === undefined) return 'absent';
        if (key.revoked_at !== null) return 'revoked';
        const live = (await own.where('revoked_at', 'is', null).execute()).filter(isAdmin);
        if (isAdmin(key) && live.length === 1) return 'last_admin';
        await tx.updateTable('api_keys').set({ revoked_at: at }).where('id', '=', id).execute();
        await appendEvents(tx, [eventOfRevocation(organisationId, id, at)]);
        return 'revoked';
      }),
    );
  }

  revokedAmong(ids: readonly ApiKeyId[]): Promise<readonly ApiKeyId[]> {
    if (ids.length === 0) return Promise.resolve([]);
    return translated(async () => {
      const revoked = this.#db.selectFrom('api_keys').select('id').where('revoked_at', 'is not', null);
      return (await revoked.where('id', 'in', [...ids]).execute()).map(({ id }) => id as ApiKeyId);
    });
  }

  hasApiKeys(): Promise<boolean> {
    return translated(async () => {
      return (await this.#db.selectFrom('api_keys').select('id').limit(1).executeTakeFirst()) !== undefined;
    });
  }

  #projectsOf(organisationId: OrganisationId) {
    const own = this.#db.selectFrom('projects').selectAll().where('organisation_id', '=', organisationId);
    return own.where('deleted_at', 'is', null);
  }

  #project(
    organisationId: OrganisationId,
    narrow: (query: ProjectQuery) => ProjectQuery,
  ): Promise<RecordedProject | null> {
    return translated(async () => {
      const row = await narrow(this.#projectsOf(organisationId)).executeTakeFirst();
      return row === undefined ? null : projectOf(row);
    });
  }
}

async function holdsAnything(tx: Transaction<Tables>, id: ProjectId): Promise<boolean> {
  const sandboxes = tx.selectFrom('sandboxes').select('id').where('project_id', '=', id);
  if ((await sandboxes.where('settled', '<>', 'deleted').limit(1).executeTakeFirst()) !== undefined) return true;
  const snapshots = tx.selectFrom('snapshots').select('id').where('project_id', '=', id);
  return (await snapshots.limit(1).executeTakeFirst()) !== undefined;
}

function isAdmin({ roles, project_id }: { readonly roles: readonly string[]; readonly project_id: string | null }) {
  return project_id === null && roles.includes('admin');
}
