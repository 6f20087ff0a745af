/** Templates that are built here, in PostgreSQL. */
import type {
  BuildEnd,
  LogEntry,
  RecordedBuild,
  RecordedLayer,
  RecordedTag,
  RecordedTemplate,
  StoredFile,
  TemplateRecords,
} from '@space/control';
import {
  type ApiKeyId,
  AppError,
  type BuildId,
  type ProjectId,
  type Recipe,
  type SandboxId,
  type SnapshotId,
  type TemplateId,
} from '@space/core';
import { type Kysely, type Selectable, sql, type Transaction } from 'kysely';
import { translated } from './errors.ts';
import type { Tables } from './schema.ts';

export class PostgresTemplates implements TemplateRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  request(template: RecordedTemplate, build: RecordedBuild, maxTemplates: number): Promise<RecordedBuild> {
    return this.#transaction(async (tx) => {
      await lockProject(tx, template.projectId);
      const { id, projectId, name, createdAt, updatedAt } = template;
      const owner = await tx
        .insertInto('templates')
        .values({ id, project_id: projectId, name, created_at: createdAt, updated_at: updatedAt })
        .onConflict((conflict) => conflict.columns(['project_id', 'name']).doUpdateSet({ updated_at: build.createdAt }))
        .returning('id')
        .executeTakeFirstOrThrow();
      if (owner.id === id) {
        const own = tx.selectFrom('templates').select('id').where('project_id', '=', projectId);
        if ((await own.execute()).length > maxTemplates) {
          const detail = `A project may have ${maxTemplates} templates.`;
          throw new AppError('limit_reached', { detail, facts: { max: maxTemplates } });
        }
      }
      const row = { ...rowOfBuild(build), template_id: owner.id };
      return buildOf(await tx.insertInto('template_builds').values(row).returningAll().executeTakeFirstOrThrow());
    });
  }

  findTemplate(projectId: ProjectId, reference: string): Promise<RecordedTemplate | null> {
    return translated(async () => {
      const own = this.#db.selectFrom('templates').selectAll().where('project_id', '=', projectId);
      const row = await own
        .where((eb) => eb.or([eb('id', '=', reference), eb('name', '=', reference)]))
        .executeTakeFirst();
      return row === undefined ? null : templateOf(row);
    });
  }

  listTemplates(projectId: ProjectId): Promise<readonly RecordedTemplate[]> {
    return translated(async () => {
      const own = this.#db.selectFrom('templates').selectAll().where('project_id', '=', projectId);
      return (await own.orderBy('name').execute()).map(templateOf);
    });
  }

  deleteTemplate(id: TemplateId): Promise<void> {
    return translated(async () => {
      await this.#db.deleteFrom('templates').where('id', '=', id).execute();
    });
  }

  findBuild(id: BuildId): Promise<RecordedBuild | null> {
    return translated(async () => {
      const row = await this.#db.selectFrom('template_builds').selectAll().where('id', '=', id).executeTakeFirst();
      return row === undefined ? null : buildOf(row);
    });
  }

  buildsOf(templateId: TemplateId): Promise<readonly RecordedBuild[]> {
    return translated(async () => {
      const own = this.#db.selectFrom('template_builds').selectAll().where('template_id', '=', templateId);
      return (await own.orderBy('created_at', 'desc').orderBy('id', 'desc').execute()).map(buildOf);
    });
  }

  unfinished(): Promise<readonly RecordedBuild[]> {
    return translated(async () => {
      const all = this.#db.selectFrom('template_builds').selectAll();
      return (await all.where('status', 'in', ['waiting', 'building']).execute()).map(buildOf);
    });
  }

  startBuild(id: BuildId, recipe: Recipe): Promise<RecordedBuild | null> {
    return translated(async () => {
      const row = await this.#db
        .updateTable('template_builds')
        .set({ status: 'building', recipe: JSON.stringify(recipe) })
        .where('id', '=', id)
        .where('status', '=', 'waiting')
        .returningAll()
        .executeTakeFirst();
      return row === undefined ? null : buildOf(row);
    });
  }

  endBuild(id: BuildId, end: BuildEnd): Promise<RecordedBuild | null> {
    return this.#transaction(async (tx) => {
      const row = await tx
        .updateTable('template_builds')
        .set({
          status: end.status,
          failure: end.failure === null ? null : JSON.stringify(end.failure),
          snapshot_id: end.snapshotId,
          state: end.state === null ? null : JSON.stringify(end.state),
          size: end.size === null ? null : JSON.stringify(end.size),
          cached_steps: end.cachedSteps,
          ended_at: end.at,
        })
        .where('id', '=', id)
        .where('ended_at', 'is', null)
        .returningAll()
        .executeTakeFirst();
      if (row === undefined) return null;
      const build = buildOf(row);
      if (end.status === 'ready') await setTags(tx, build.templateId, id, build.tags, end.at);
      return build;
    });
  }

  dropBuild(id: BuildId): Promise<void> {
    return translated(async () => {
      await this.#db
        .deleteFrom('template_builds')
        .where('id', '=', id)
        .where(({ not, exists, selectFrom }) =>
          not(exists(selectFrom('template_tags').select('tag').where('build_id', '=', id))),
        )
        .execute();
    });
  }

  appendLog(id: BuildId, entries: readonly LogEntry[]): Promise<void> {
    if (entries.length === 0) return Promise.resolve();
    return this.#transaction(async (tx) => {
      const build = tx.selectFrom('template_builds').select('id').where('id', '=', id).forShare();
      if ((await build.executeTakeFirst()) === undefined) return;
      await tx
        .insertInto('template_logs')
        .values(entries.map((entry) => ({ build_id: id, ...entry })))
        .execute();
    });
  }

  readLog(id: BuildId, offset: number, limit: number): Promise<readonly LogEntry[]> {
    return translated(() => {
      const own = this.#db.selectFrom('template_logs').select(['at', 'level', 'message', 'step']);
      return own.where('build_id', '=', id).orderBy('number').offset(offset).limit(limit).execute();
    });
  }

  tagsOf(templateId: TemplateId): Promise<readonly RecordedTag[]> {
    return translated(async () => {
      const own = this.#db.selectFrom('template_tags').selectAll().where('template_id', '=', templateId);
      return (await own.orderBy('tag').execute()).map((row) => ({
        templateId: row.template_id as TemplateId,
        tag: row.tag,
        buildId: row.build_id as BuildId,
        createdAt: row.created_at,
      }));
    });
  }

  setTags(templateId: TemplateId, buildId: BuildId, tags: readonly string[], at: Date): Promise<void> {
    return this.#transaction((tx) => setTags(tx, templateId, buildId, tags, at));
  }

  dropTag(templateId: TemplateId, tag: string): Promise<boolean> {
    return translated(async () => {
      const gone = this.#db.deleteFrom('template_tags').where('template_id', '=', templateId).where('tag', '=', tag);
      return (await gone.executeTakeFirst()).numDeletedRows > 0n;
    });
  }

  findLayer(projectId: ProjectId, key: string): Promise<RecordedLayer | null> {
    return translated(async () => {
      const own = this.#db.selectFrom('template_layers').selectAll().where('project_id', '=', projectId);
      const row = await own.where('key', '=', key).executeTakeFirst();
      if (row === undefined) return null;
      const [templateId, snapshotId] = [row.template_id as TemplateId, row.snapshot_id as SnapshotId];
      return { projectId, key, templateId, snapshotId, state: row.state, usedAt: row.used_at };
    });
  }

  putLayer({ projectId, key, templateId, snapshotId, state, usedAt }: RecordedLayer): Promise<void> {
    return this.#transaction(async (tx) => {
      const owner = tx.selectFrom('templates').select('id').where('id', '=', templateId).forShare();
      if ((await owner.executeTakeFirst()) === undefined) return;
      const said = state === null ? null : JSON.stringify(state);
      const content = { template_id: templateId, snapshot_id: snapshotId, state: said, used_at: usedAt };
      await tx
        .insertInto('template_layers')
        .values({ project_id: projectId, key, ...content })
        .onConflict((conflict) => conflict.columns(['project_id', 'key']).doUpdateSet(content))
        .execute();
    });
  }

  useLayers(projectId: ProjectId, keys: readonly string[], at: Date): Promise<void> {
    if (keys.length === 0) return Promise.resolve();
    return translated(async () => {
      const own = this.#db.updateTable('template_layers').set({ used_at: at }).where('project_id', '=', projectId);
      await own.where('key', 'in', [...keys]).execute();
    });
  }

  dropLayers(keep: number, unusedSince: Date): Promise<void> {
    return translated(async () => {
      await sql`
        delete from template_layers where (project_id, key) in (
          select project_id, key from (
            select project_id, key, used_at,
              row_number() over (partition by project_id order by used_at desc, key) as place
            from template_layers
          ) as placed where place > ${keep} or used_at < ${unusedSince}
        )`.execute(this.#db);
    });
  }

  strayPoints(before: Date): Promise<readonly SnapshotId[]> {
    return translated(async () => {
      const { rows } = await sql<{ id: SnapshotId }>`
        select id from snapshots
        where name like '.%' and taken_at < ${before}
          and not exists (select from template_layers where snapshot_id = snapshots.id)
          and not exists (select from template_builds where snapshot_id = snapshots.id)`.execute(this.#db);
      return rows.map(({ id }) => id);
    });
  }

  buildSandboxes(): Promise<readonly SandboxId[]> {
    return translated(async () => {
      const own = this.#db.selectFrom('sandboxes').select('id').where('settled', '<>', 'deleted');
      return (await own.where('name', 'like', '.%').execute()).map(({ id }) => id as SandboxId);
    });
  }

  findFile(projectId: ProjectId, hash: string): Promise<StoredFile | null> {
    return translated(async () => {
      const own = this.#db.selectFrom('template_files').selectAll().where('project_id', '=', projectId);
      const row = await own.where('hash', '=', hash).executeTakeFirst();
      return row === undefined ? null : { projectId, hash, sizeBytes: row.size_bytes, upload: row.upload };
    });
  }

  addPart(upload: string, number: number, bytes: Uint8Array, at: Date): Promise<void> {
    return translated(async () => {
      await this.#db
        .insertInto('template_file_parts')
        .values({ upload, number, bytes: Buffer.from(bytes), at })
        .execute();
    });
  }

  publishFile({ projectId, hash, sizeBytes, upload }: StoredFile, at: Date, maxTotalBytes: number): Promise<void> {
    return this.#transaction(async (tx) => {
      await lockProject(tx, projectId);
      const content = { size_bytes: sizeBytes, upload, used_at: at };
      await tx
        .insertInto('template_files')
        .values({ project_id: projectId, hash, ...content })
        .onConflict((conflict) => conflict.columns(['project_id', 'hash']).doUpdateSet(content))
        .execute();
      const own = tx.selectFrom('template_files').select('size_bytes').where('project_id', '=', projectId);
      const total = (await own.execute()).reduce((sum, row) => sum + row.size_bytes, 0);
      if (total <= maxTotalBytes) return;
      const detail = `Archives of a project may have ${maxTotalBytes} bytes.`;
      throw new AppError('limit_reached', { detail, facts: { max: maxTotalBytes } });
    });
  }

  dropUpload(upload: string): Promise<void> {
    return translated(async () => {
      await this.#db.deleteFrom('template_file_parts').where('upload', '=', upload).execute();
    });
  }

  useFile(projectId: ProjectId, hash: string, at: Date): Promise<void> {
    return translated(async () => {
      const own = this.#db.updateTable('template_files').set({ used_at: at }).where('project_id', '=', projectId);
      await own.where('hash', '=', hash).execute();
    });
  }

  readPart(upload: string, number: number): Promise<Uint8Array | null> {
    return translated(async () => {
      const part = this.#db.selectFrom('template_file_parts').select('bytes').where('upload', '=', upload);
      return (await part.where('number', '=', number).executeTakeFirst())?.bytes ?? null;
    });
  }

  dropFiles(unusedSince: Date): Promise<void> {
    return this.#transaction(async (tx) => {
      await tx.deleteFrom('template_files').where('used_at', '<', unusedSince).execute();
      await sql`
        delete from template_file_parts as part where part.at < ${unusedSince}
          and not exists (select from template_files as file where file.upload = part.upload)`.execute(tx);
    });
  }

  #transaction<T>(work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> {
    return translated(() => this.#db.transaction().execute(work));
  }
}

/** Who adds to the project at the same time waits for its turn. */
async function lockProject(tx: Transaction<Tables>, projectId: ProjectId): Promise<void> {
  await tx.selectFrom('projects').select('id').where('id', '=', projectId).forNoKeyUpdate().executeTakeFirstOrThrow();
}

async function setTags(
  tx: Transaction<Tables>,
  templateId: TemplateId,
  buildId: BuildId,
  tags: readonly string[],
  at: Date,
): Promise<void> {
  if (tags.length === 0) return;
  await tx
    .insertInto('template_tags')
    .values(tags.map((tag) => ({ template_id: templateId, tag, build_id: buildId, created_at: at })))
    .onConflict((conflict) =>
      conflict.columns(['template_id', 'tag']).doUpdateSet({ build_id: buildId, created_at: at }),
    )
    .execute();
}

function templateOf(row: Selectable<Tables['templates']>): RecordedTemplate {
  return {
    id: row.id as TemplateId,
    projectId: row.project_id as ProjectId,
    name: row.name,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function buildOf(row: Selectable<Tables['template_builds']>): RecordedBuild {
  return {
    id: row.id as BuildId,
    templateId: row.template_id as TemplateId,
    projectId: row.project_id as ProjectId,
    status: row.status,
    askedSize: row.asked_size,
    size: row.size,
    tags: row.tags,
    recipe: row.recipe,
    state: row.state,
    failure: row.failure,
    snapshotId: row.snapshot_id as SnapshotId | null,
    cachedSteps: row.cached_steps,
    askedBy: row.asked_by as ApiKeyId,
    createdAt: row.created_at,
    endedAt: row.ended_at,
  };
}

function rowOfBuild(build: RecordedBuild) {
  return {
    id: build.id,
    project_id: build.projectId,
    status: build.status,
    asked_size: build.askedSize === null ? null : JSON.stringify(build.askedSize),
    tags: [...build.tags],
    cached_steps: build.cachedSteps,
    asked_by: build.askedBy,
    created_at: build.createdAt,
  };
}
