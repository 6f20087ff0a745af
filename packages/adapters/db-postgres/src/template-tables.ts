/** The tables of templates that are built here, and what makes them. */
import type { BuildFailure, BuildStatus, LogEntry } from '@space/control';
import type { BuildState, Recipe, Size } from '@space/core';
import type { ColumnType, Generated } from 'kysely';
import { type Kysely, sql } from 'kysely';

type Json<T> = ColumnType<T, string, string>;

interface TemplateTable {
  id: string;
  project_id: string;
  name: string;
  created_at: Date;
  updated_at: Date;
}

interface TemplateBuildTable {
  id: string;
  template_id: string;
  project_id: string;
  status: BuildStatus;
  asked_size: Json<Partial<Size> | null> | null;
  size: Json<Size> | null;
  tags: string[];
  recipe: Json<Recipe> | null;
  state: Json<BuildState> | null;
  failure: Json<BuildFailure> | null;
  snapshot_id: string | null;
  cached_steps: number;
  asked_by: string;
  created_at: Date;
  ended_at: Date | null;
}

export interface TemplateTables {
  templates: TemplateTable;
  template_builds: TemplateBuildTable;
  template_logs: {
    build_id: string;
    number: Generated<number>;
    at: Date;
    level: LogEntry['level'];
    message: string;
    step: string | null;
  };
  template_tags: { template_id: string; tag: string; build_id: string; created_at: Date };
  template_layers: {
    project_id: string;
    key: string;
    template_id: string;
    snapshot_id: string;
    state: Json<BuildState | null> | null;
    used_at: Date;
  };
  template_files: { project_id: string; hash: string; size_bytes: number; upload: string; used_at: Date };
  template_file_parts: { upload: string; number: number; bytes: Buffer; at: Date };
}

export async function makeTemplateTables(db: Kysely<never>): Promise<void> {
  await sql`
    create table templates (
      id text collate "C" primary key,
      project_id text not null references projects (id),
      name text collate "C" not null,
      created_at timestamptz(3) not null,
      updated_at timestamptz(3) not null,
      unique (project_id, name)
    )`.execute(db);
  await sql`
    create table template_builds (
      id text collate "C" primary key,
      template_id text not null references templates (id) on delete cascade,
      project_id text not null,
      status text not null check (status in ('waiting', 'building', 'ready', 'failed')),
      asked_size jsonb,
      size jsonb,
      tags text[] not null,
      recipe jsonb,
      state jsonb,
      failure jsonb,
      snapshot_id text,
      cached_steps integer not null default 0,
      asked_by text not null,
      created_at timestamptz(3) not null,
      ended_at timestamptz(3)
    )`.execute(db);
  await sql`create index template_builds_template on template_builds (template_id, created_at, id)`.execute(db);
  await sql`create index template_builds_snapshot on template_builds (snapshot_id)`.execute(db);
  await sql`
    create table template_logs (
      build_id text not null references template_builds (id) on delete cascade,
      number bigint generated always as identity,
      at timestamptz(3) not null,
      level text not null,
      message text not null,
      step text,
      primary key (build_id, number)
    )`.execute(db);
  await sql`
    create table template_tags (
      template_id text not null references templates (id) on delete cascade,
      tag text collate "C" not null,
      build_id text not null references template_builds (id) on delete cascade,
      created_at timestamptz(3) not null,
      primary key (template_id, tag)
    )`.execute(db);
  await sql`create index template_tags_build on template_tags (build_id)`.execute(db);
  await sql`
    create table template_layers (
      project_id text not null,
      key text collate "C" not null,
      template_id text not null references templates (id) on delete cascade,
      snapshot_id text not null,
      used_at timestamptz(3) not null,
      primary key (project_id, key)
    )`.execute(db);
  await sql`create index template_layers_template on template_layers (template_id)`.execute(db);
  await sql`create index template_layers_snapshot on template_layers (snapshot_id)`.execute(db);
  await sql`
    create table template_files (
      project_id text not null,
      hash text collate "C" not null,
      size_bytes bigint not null,
      upload text not null,
      used_at timestamptz(3) not null,
      primary key (project_id, hash)
    )`.execute(db);
  await sql`create index template_files_upload on template_files (upload)`.execute(db);
  await sql`
    create table template_file_parts (
      upload text collate "C" not null,
      number integer not null,
      bytes bytea not null,
      at timestamptz(3) not null,
      primary key (upload, number)
    )`.execute(db);
}
