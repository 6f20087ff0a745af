/** The tables as Kysely sees them, and the migrations that make them. A migration that has been released is never edited. */

import type {
  Archiving,
  AuditOutcome,
  BuiltFrom,
  ChainName,
  EventKind,
  OperationInput,
  Outcome,
  PauseFailure,
  RecordedEgress,
  RecordedSnapshot,
  RunOutcome,
  SandboxAccess,
  ScheduledCommand,
  SnapshotBefore,
  SnapshotTimings,
  StartTimings,
  VaultRevocation,
} from '@space/control';
import type {
  Action,
  ApprovalState,
  CatchUp,
  Changed,
  ErrorCode,
  Expiry,
  MovedTo,
  NetworkConstraints,
  NetworkPolicy,
  Operation,
  PolicyChoice,
  ProcessEnd,
  Role,
  RunPolicy,
  SecretBinding,
  SecretGrant,
  SecretSource,
  Settled,
  ShownRequest,
  Size,
} from '@space/core';
import { DEFAULT_ORGANISATION, DEFAULT_PROJECT } from '@space/core';
import type { ColumnType, Generated, Insertable, Kysely, Selectable } from 'kysely';
import { sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { ONLY_ADDED_TO } from './only-added-to.ts';
import { makeTemplateTables, type TemplateTables } from './template-tables.ts';

type Json<T> = ColumnType<T, string, string>;

/** As JSON keeps it. */
type StoredPauseFailure = Omit<PauseFailure, 'since'> & { readonly since: string };

export interface SandboxTable {
  id: string;
  project_id: string;
  name: string | null;
  template: string;
  size: Json<Size>;
  vault: string;
  env: Json<Record<string, string>>;
  metadata: Json<Record<string, string>>;
  content: ColumnType<Buffer | null, Buffer | null | undefined, Buffer | null>;
  pause_after_ms: number | null;
  wake_at: Date | null;
  expires_at: Date | null;
  expiry_action: Expiry['action'] | null;
  runs: ColumnType<RunPolicy, string | undefined, string>;
  started_at: ColumnType<Date | null, Date | null | undefined, Date | null>;
  public_ports: Generated<boolean>;
  built_from: ColumnType<BuiltFrom | null, string | null | undefined, string | null>;
  access: ColumnType<SandboxAccess | null, string | null | undefined, string | null>;
  keepers: ColumnType<string[], string[] | undefined, string[]>;
  snapshot_policy: Json<PolicyChoice>;
  network: Json<NetworkPolicy>;
  secrets: ColumnType<readonly SecretGrant[], string | undefined, string>;
  missing_secrets: ColumnType<readonly SecretGrant[], string | undefined, string>;
  settled: Settled;
  operation: Operation | null;
  operation_id: string | null;
  epoch: number;
  generation: number;
  head: string | null;
  forked_from_sandbox: string | null;
  forked_from_snapshot: string | null;
  origin: string | null;
  crash_detail: string | null;
  crash_at: Date | null;
  pause_failure: ColumnType<StoredPauseFailure | null, string | null | undefined, string | null>;
  moved: ColumnType<MovedTo | null, string | null | undefined, string | null>;
  moves: Generated<number>;
  archiving: ColumnType<Archiving | null, string | null | undefined, string | null>;
  created_at: Date;
  updated_at: Date;
}

interface SnapshotTable {
  id: string;
  sandbox_id: string;
  project_id: string;
  name: string | null;
  note: string | null;
  cause: RecordedSnapshot['cause'];
  kind: RecordedSnapshot['kind'];
  degraded: ErrorCode | null;
  pinned: boolean;
  time_ms: number;
  parent: string | null;
  generation: number;
  template: string;
  size: Json<Size>;
  vault: string;
  state: RecordedSnapshot['state'];
  bad_reason: string | null;
  checked_at: Date | null;
  taken_at: Date;
  timings: ColumnType<SnapshotTimings | null, string | null, string | null>;
  changed: ColumnType<Changed | null, string | null, string | null>;
}

export interface OperationTable {
  id: string;
  sandbox_id: string;
  kind: Operation;
  epoch: number;
  input: Json<OperationInput>;
  project_id: string;
  request_id: string | null;
  api_key_id: string | null;
  started_at: Date;
  ended_at: Date | null;
  outcome: Outcome | null;
  error_code: ErrorCode | null;
  timings: ColumnType<StartTimings | null, string | null | undefined, string | null>;
}

interface ArchiveCollectionTable {
  project_id: string;
  location: string;
  asked_at: Date;
}

interface EgressTable {
  id: string;
  sandbox_id: string;
  at: Date;
  record: Json<Omit<RecordedEgress, 'id' | 'sandboxId' | 'at'>>;
}

interface OrganisationTable {
  id: string;
  name: string;
  operator: boolean;
  max_sandboxes: number | null;
  max_running: number | null;
  max_snapshots: number | null;
  max_memory_mib: number | null;
  network: ColumnType<NetworkConstraints, string | undefined, string>;
  created_at: Date;
}

interface ProjectTable {
  id: string;
  organisation_id: string;
  name: string;
  snapshot_policy: Json<PolicyChoice>;
  created_at: Date;
  /** In order of their making: times can be equal. */
  ordinal: Generated<number>;
  /** Kept, since what was deleted of it keeps its ids. */
  deleted_at: Date | null;
}

interface ApiKeyTable {
  id: string;
  organisation_id: string;
  project_id: string | null;
  name: string | null;
  roles: Role[];
  prefix: string;
  sha256: Buffer;
  created_at: Date;
  revoked_at: Date | null;
}

interface CallTable {
  api_key_id: string;
  idempotency_key: string;
  route: string;
  digest: string;
  request_id: string;
  owner: string;
  answer: string | null;
  at: Date;
}

interface AuditTable {
  id: string;
  request_id: string;
  api_key_id: string;
  organisation_id: string;
  project_id: string | null;
  action: Action;
  call: string;
  target: string | null;
  operation_id: string | null;
  /** Null: that of the operation; or, without one, there is none yet. */
  outcome: AuditOutcome | 'unknown' | null;
  at: Date;
  /** Its number in the chain of calls; null: it is not linked yet. */
  link: Generated<string | null>;
}

interface EventTable {
  tx: Generated<number>;
  number: Generated<number>;
  kind: EventKind;
  at: Date;
  organisation_id: string | null;
  project_id: string | null;
  sandbox_id: string | null;
  snapshot_id: string | null;
  operation_id: string | null;
  api_key_id: string | null;
  share_id: string | null;
  approval_id: string | null;
  operation: Operation | null;
  outcome: Outcome | null;
  error_code: ErrorCode | null;
}

interface ScheduleTable {
  id: string;
  project_id: string;
  sandbox_id: string;
  cron: string;
  time_zone: string;
  exec: ColumnType<ScheduledCommand | null, string | null, string | null>;
  catch_up: CatchUp;
  enabled: boolean;
  next_run_at: Date | null;
  created_at: Date;
  updated_at: Date;
}

interface ScheduleRunTable {
  id: string;
  schedule_id: string;
  sandbox_id: string;
  due_at: Date;
  claimed_at: Date;
  process_id: string | null;
  started_at: Date | null;
  ended_at: Date | null;
  outcome: RunOutcome | null;
  process_end: ColumnType<ProcessEnd | null, string | null, string | null>;
  error_code: ErrorCode | null;
}

interface DoomedPointTable {
  id: string;
  vault: string;
  attempts: Generated<number>;
  since: Date;
  not_before: Date;
}

interface ShareTable {
  id: string;
  project_id: string;
  sandbox_id: string;
  port: number;
  name: string | null;
  sha256: Buffer;
  created_by: string;
  created_at: Date;
  expires_at: Date;
}

interface SecretTable {
  organisation_id: string;
  name: string;
  source: Json<SecretSource>;
  version: number;
  created_at: Date;
  updated_at: Date;
}

interface BindingTable {
  organisation_id: string;
  name: string;
  secret: string;
  binding: Json<Omit<SecretBinding, 'name' | 'secret'>>;
  created_at: Date;
  updated_at: Date;
}

interface ApprovalTable {
  id: string;
  organisation_id: string;
  project_id: string;
  sandbox_id: string;
  generation: number;
  digest: string;
  rule: string;
  request: ColumnType<ShownRequest, string, never>;
  state: ApprovalState;
  requested_at: Date;
  expires_at: Date;
  decided_by: Generated<string | null>;
  decided_at: Generated<Date | null>;
  reason: Generated<string | null>;
  ended_at: Generated<Date | null>;
  used_for: Generated<string | null>;
  snapshot: ColumnType<SnapshotBefore | null, string | null | undefined, string | null>;
}

type BigNumber = ColumnType<string, number | string, number | string>;

interface AuditChainTable {
  organisation_id: string;
  chain: ChainName;
  anchor_number: BigNumber;
  anchor_digest: string;
  head_number: BigNumber;
  head_digest: string;
}

interface AuditLinkTable {
  organisation_id: string;
  chain: ChainName;
  number: BigNumber;
  at: Date;
  entry: string;
  digest: string;
}

interface WebhookTable {
  organisation_id: string;
  url: string;
  set_at: Date;
  failure_code: Generated<string | null>;
  failed_at: Generated<Date | null>;
}

interface NoticeTable {
  approval_id: string;
  organisation_id: string;
  next_at: Date;
  tries: Generated<number>;
}

interface VaultTable {
  name: string;
  organisation_id: string;
  is_default: boolean;
  state: 'making' | 'ready' | 'removing' | 'removed';
  size_bytes: BigNumber;
  /** Which key of the customer's has wrapped the keyring; null, as the keyring is: it is plain, or removed. */
  kms: string | null;
  kms_key: string | null;
  wrapped: Buffer | null;
  header_is_behind: Generated<boolean>;
  revocation: ColumnType<StoredRevocation | null, string | null, string | null>;
  on_revoke: 'pause' | 'kill';
  outage_ms: ColumnType<string | null, number | null, number | null>;
  version: number;
  created_at: Date;
  updated_at: Date;
}

/** As JSON keeps it. */
type StoredRevocation = Omit<VaultRevocation, 'at'> & { readonly at: string };

export interface Tables extends TemplateTables {
  sandboxes: SandboxTable;
  snapshots: SnapshotTable;
  operations: OperationTable;
  api_keys: ApiKeyTable;
  calls: CallTable;
  audit: AuditTable;
  events: EventTable;
  event_floor: { tx: number; number: number };
  doomed_points: DoomedPointTable;
  organisations: OrganisationTable;
  projects: ProjectTable;
  schedules: ScheduleTable;
  schedule_runs: ScheduleRunTable;
  shares: ShareTable;
  egress: EgressTable;
  approvals: ApprovalTable;
  egress_position: { instance: string; next: ColumnType<string, number, number> };
  audit_chains: AuditChainTable;
  audit_links: AuditLinkTable;
  webhooks: WebhookTable;
  notices: NoticeTable;
  secrets: SecretTable;
  secret_bindings: BindingTable;
  archive_collections: ArchiveCollectionTable;
  vaults: VaultTable;
}

export type SandboxRow = Selectable<SandboxTable>;
export type SnapshotRow = Selectable<SnapshotTable>;
export type OrganisationRow = Selectable<OrganisationTable>;
export type ProjectRow = Selectable<ProjectTable>;
export type ApiKeyRow = Selectable<ApiKeyTable>;
export type NewSnapshotRow = Insertable<SnapshotTable>;

export const MIGRATIONS: Record<string, Migration> = {
  '0001_sandboxes': {
    async up(db) {
      // Times are kept to the millisecond, as they leave us: cursors compare them exactly.
      await sql`
        create table sandboxes (
          id text collate "C" primary key,
          name text,
          template text not null,
          size jsonb not null,
          vault text not null,
          env jsonb not null,
          metadata jsonb not null,
          settled text not null check (settled in ('absent', 'running', 'paused', 'crashed', 'deleted')),
          operation text,
          operation_id text,
          epoch bigint not null,
          generation bigint not null,
          head text,
          forked_from_sandbox text,
          forked_from_snapshot text,
          origin text,
          crash_detail text,
          crash_at timestamptz(3),
          created_at timestamptz(3) not null,
          updated_at timestamptz(3) not null,
          check ((operation is null) = (operation_id is null)),
          check (settled <> 'deleted' or operation is null)
        )`.execute(db);
      await sql`create unique index sandboxes_name_unique on sandboxes (name) where settled <> 'deleted'`.execute(db);
      await sql`create index sandboxes_live on sandboxes (created_at desc, id desc) where settled <> 'deleted'`.execute(
        db,
      );
      await sql`create index sandboxes_origin on sandboxes (origin) where origin is not null`.execute(db);
      await sql`create index sandboxes_head on sandboxes (head) where head is not null`.execute(db);
      await sql`
        create table snapshots (
          id text collate "C" primary key,
          sandbox_id text not null references sandboxes (id),
          name text,
          note text,
          cause text not null,
          parent text,
          generation bigint not null,
          template text not null,
          size jsonb not null,
          vault text not null,
          state text not null check (state in ('taking', 'good', 'bad')),
          bad_reason text,
          taken_at timestamptz(3) not null,
          timings jsonb
        )`.execute(db);
      await sql`create unique index snapshots_name_unique on snapshots (name) where name is not null`.execute(db);
      await sql`create index snapshots_timeline on snapshots (sandbox_id, taken_at, id)`.execute(db);
      await sql`create index snapshots_parent on snapshots (parent) where parent is not null`.execute(db);
      await sql`
        create table operations (
          id text primary key,
          sandbox_id text not null references sandboxes (id),
          kind text not null,
          epoch bigint not null,
          input jsonb not null,
          started_at timestamptz(3) not null,
          ended_at timestamptz(3),
          outcome text,
          error_code text,
          check ((ended_at is null) = (outcome is null))
        )`.execute(db);
      await sql`create index operations_sandbox on operations (sandbox_id, started_at)`.execute(db);
      await sql`
        create table api_keys (
          id text primary key,
          prefix text not null,
          sha256 bytea not null,
          created_at timestamptz(3) not null
        )`.execute(db);
    },
  },
  /** What there was before belongs to the default organisation and project, and each key to an admin of it. */
  '0002_tenants': {
    async up(db) {
      await sql`
        create table organisations (
          id text collate "C" primary key,
          name text not null,
          operator boolean not null,
          created_at timestamptz(3) not null,
          constraint organisations_name_unique unique (name)
        )`.execute(db);
      await sql`create unique index organisations_operator on organisations (operator) where operator`.execute(db);
      await sql`
        create table projects (
          id text collate "C" primary key,
          organisation_id text not null references organisations (id),
          name text not null,
          created_at timestamptz(3) not null,
          ordinal bigint generated always as identity,
          constraint projects_name_unique unique (organisation_id, name)
        )`.execute(db);
      await sql`
        insert into organisations (id, name, operator, created_at)
        values (${DEFAULT_ORGANISATION}, 'default', true, now())`.execute(db);
      await sql`
        insert into projects (id, organisation_id, name, created_at)
        values (${DEFAULT_PROJECT}, ${DEFAULT_ORGANISATION}, 'default', now())`.execute(db);
      for (const table of ['sandboxes', 'snapshots']) {
        await sql`alter table ${sql.table(table)} add column project_id text references projects (id)`.execute(db);
        await sql`update ${sql.table(table)} set project_id = ${DEFAULT_PROJECT}`.execute(db);
        await sql`alter table ${sql.table(table)} alter column project_id set not null`.execute(db);
      }
      await sql`drop index sandboxes_name_unique, snapshots_name_unique, sandboxes_live`.execute(db);
      await sql`
        create unique index sandboxes_name_unique on sandboxes (project_id, name) where settled <> 'deleted'`.execute(
        db,
      );
      await sql`
        create unique index snapshots_name_unique on snapshots (project_id, name) where name is not null`.execute(db);
      await sql`
        create index sandboxes_live on sandboxes (project_id, created_at desc, id desc)
        where settled <> 'deleted'`.execute(db);
      await sql`
        alter table api_keys
          add column organisation_id text references organisations (id),
          add column project_id text references projects (id),
          add column name text,
          add column roles text[],
          add column revoked_at timestamptz(3)`.execute(db);
      await sql`update api_keys set organisation_id = ${DEFAULT_ORGANISATION}, roles = ${['admin']}`.execute(db);
      await sql`
        alter table api_keys
          alter column id type text collate "C",
          alter column organisation_id set not null,
          alter column roles set not null`.execute(db);
      await sql`create unique index api_keys_sha256 on api_keys (sha256)`.execute(db);
      await sql`create index api_keys_organisation on api_keys (organisation_id, created_at desc, id desc)`.execute(db);
    },
  },
  '0003_calls': {
    async up(db) {
      await sql`alter table operations add column request_id text, add column api_key_id text`.execute(db);
      await sql`create index operations_request on operations (request_id) where request_id is not null`.execute(db);
      await sql`
        create table calls (
          api_key_id text not null,
          idempotency_key text not null,
          route text not null,
          digest text not null,
          request_id text not null,
          owner text not null,
          answer text,
          at timestamptz(3) not null,
          primary key (api_key_id, idempotency_key)
        )`.execute(db);
      await sql`create index calls_at on calls (at)`.execute(db);
    },
  },
  '0004_operations': {
    async up(db) {
      await sql`alter table operations add column project_id text, alter column id type text collate "C"`.execute(db);
      await sql`
        update operations set project_id = sandboxes.project_id
        from sandboxes where sandboxes.id = operations.sandbox_id`.execute(db);
      await sql`alter table operations alter column project_id set not null`.execute(db);
      await sql`create index operations_project on operations (project_id, started_at desc, id desc)`.execute(db);
    },
  },
  '0005_audit': {
    async up(db) {
      await sql`
        create table audit (
          id text collate "C" primary key,
          request_id text not null unique,
          api_key_id text not null,
          organisation_id text not null,
          project_id text,
          action text not null,
          call text not null,
          target text,
          operation_id text,
          outcome text,
          at timestamptz(3) not null,
          check ((operation_id is null) <> (outcome is null))
        )`.execute(db);
      await sql`create index audit_organisation on audit (organisation_id, at desc, id desc)`.execute(db);
      await sql`create index audit_at on audit (at)`.execute(db);
    },
  },
  '0006_limits': {
    async up(db) {
      await sql`
        alter table organisations
          add column max_sandboxes bigint,
          add column max_running bigint,
          add column max_snapshots bigint,
          add column max_memory_mib bigint`.execute(db);
      await sql`create index snapshots_project on snapshots (project_id)`.execute(db);
    },
  },
  '0007_events': {
    async up(db) {
      await sql`
        create table events (
          tx bigint not null default pg_current_xact_id()::text::bigint,
          number bigint generated always as identity,
          kind text not null,
          at timestamptz(3) not null,
          organisation_id text,
          project_id text,
          sandbox_id text,
          snapshot_id text,
          operation_id text,
          api_key_id text,
          operation text,
          outcome text,
          error_code text,
          primary key (tx, number)
        )`.execute(db);
      await sql`create index events_project on events (project_id, tx, number)`.execute(db);
      await sql`create index events_organisation on events (organisation_id, tx, number)
        where organisation_id is not null`.execute(db);
      await sql`create index events_at on events (at)`.execute(db);
      await sql`create table event_floor (tx bigint not null, number bigint not null)`.execute(db);
      await sql`insert into event_floor (tx, number) values (0, 0)`.execute(db);
    },
  },
  '0008_idle': {
    async up(db) {
      await sql`alter table sandboxes add column pause_after_ms integer default 600000`.execute(db);
    },
  },
  '0009_schedules': {
    async up(db) {
      await sql`alter table sandboxes add column wake_at timestamptz(3)`.execute(db);
      await sql`create index sandboxes_wake on sandboxes (wake_at) where wake_at is not null`.execute(db);
      await sql`
        create table schedules (
          id text collate "C" primary key,
          project_id text not null references projects (id),
          sandbox_id text not null references sandboxes (id),
          cron text not null,
          time_zone text not null,
          exec jsonb,
          catch_up text not null,
          enabled boolean not null,
          next_run_at timestamptz(3),
          created_at timestamptz(3) not null,
          updated_at timestamptz(3) not null
        )`.execute(db);
      await sql`create index schedules_sandbox on schedules (sandbox_id, created_at, id)`.execute(db);
      await sql`create index schedules_due on schedules (next_run_at) where next_run_at is not null`.execute(db);
      await sql`
        create table schedule_runs (
          id text collate "C" primary key,
          schedule_id text not null references schedules (id) on delete cascade,
          sandbox_id text not null,
          due_at timestamptz(3) not null,
          claimed_at timestamptz(3) not null,
          process_id text,
          started_at timestamptz(3),
          ended_at timestamptz(3),
          outcome text,
          process_end jsonb,
          error_code text,
          check ((ended_at is null) = (outcome is null))
        )`.execute(db);
      await sql`create index schedule_runs_schedule on schedule_runs (schedule_id, claimed_at desc, id desc)`.execute(
        db,
      );
      await sql`create index schedule_runs_in_progress on schedule_runs (schedule_id) where ended_at is null`.execute(
        db,
      );
    },
  },
  '0010_start_timings': {
    async up(db) {
      await sql`alter table operations add column timings jsonb`.execute(db);
    },
  },
  '0011_keepers': {
    async up(db) {
      await sql`alter table sandboxes add column keepers text[] not null default '{}'`.execute(db);
    },
  },
  /** Until now each snapshot but the point of a pause stayed: so they do. Their time is told by their order, a minute apart. */
  '0012_timeline': {
    async up(db) {
      await sql`alter table projects add column snapshot_policy jsonb not null default '{}'`.execute(db);
      await sql`alter table sandboxes add column snapshot_policy jsonb not null default '{}'`.execute(db);
      await sql`
        alter table snapshots
          add column pinned boolean not null default false,
          add column time_ms bigint not null default 0,
          add column changed jsonb`.execute(db);
      await sql`update snapshots set pinned = (cause <> 'pause')`.execute(db);
      await sql`
        update snapshots set time_ms = placed.number * 60000
        from (
          select id, row_number() over (partition by sandbox_id order by taken_at, id) as number from snapshots
        ) as placed
        where placed.id = snapshots.id`.execute(db);
      await sql`alter table snapshots alter column time_ms drop default`.execute(db);
      await sql`create index snapshots_time on snapshots (sandbox_id, time_ms desc)`.execute(db);
      await sql`
        create table doomed_points (
          id text collate "C" primary key,
          vault text not null,
          attempts integer not null default 0,
          since timestamptz(3) not null,
          not_before timestamptz(3) not null
        )`.execute(db);
      await sql`create index events_sandbox on events (sandbox_id, at) where kind = 'snapshot.skipped'`.execute(db);
      await sql`create index operations_unasked on operations (ended_at) where request_id is null`.execute(db);
    },
  },
  '0013_out_of_space': {
    async up(db) {
      await sql`
        alter table sandboxes
          drop constraint sandboxes_settled_check,
          add constraint sandboxes_settled_check
            check (settled in ('absent', 'running', 'out_of_space', 'paused', 'crashed', 'deleted'))`.execute(db);
    },
  },
  '0014_shares': {
    async up(db) {
      await sql`
        create table shares (
          id text collate "C" primary key,
          project_id text not null references projects (id),
          sandbox_id text not null references sandboxes (id),
          port integer not null check (port between 1 and 65535),
          name text,
          sha256 bytea not null,
          created_by text not null,
          created_at timestamptz(3) not null,
          expires_at timestamptz(3) not null
        )`.execute(db);
      await sql`create unique index shares_sha256 on shares (sha256)`.execute(db);
      await sql`create index shares_sandbox on shares (sandbox_id, created_at, id)`.execute(db);
      await sql`create index shares_expiry on shares (expires_at)`.execute(db);
      await sql`alter table events add column share_id text`.execute(db);
    },
  },
  '0015_deleted_projects': {
    async up(db) {
      await sql`alter table projects add column deleted_at timestamptz(3)`.execute(db);
      await sql`alter table projects drop constraint projects_name_unique`.execute(db);
      await sql`
        create unique index projects_name_unique on projects (organisation_id, name)
        where deleted_at is null`.execute(db);
    },
  },
  '0016_checked_snapshots': {
    async up(db) {
      await sql`alter table snapshots add column checked_at timestamptz(3)`.execute(db);
      await sql`
        create index snapshots_unchecked on snapshots (coalesce(checked_at, taken_at))
        where state = 'good'`.execute(db);
    },
  },
  '0017_disk_points': {
    async up(db) {
      await sql`
        alter table snapshots
          add column kind text not null default 'memory' check (kind in ('memory', 'disk')),
          add column degraded text`.execute(db);
    },
  },
  '0018_audit_before': {
    async up(db) {
      // A call is recorded before it has an operation or an outcome.
      await sql`
        alter table audit
          drop constraint audit_check,
          add constraint audit_check check (operation_id is null or outcome is null)`.execute(db);
      await sql`create index audit_open on audit (at) where operation_id is null and outcome is null`.execute(db);
    },
  },
  /** What there was until now reached nothing, and goes on so until somebody says otherwise. */
  '0019_network': {
    async up(db) {
      const none = '{"preset": "none", "allow": [], "deny": []}';
      const widest = '{"preset": "internet", "allow": [], "deny": [], "readOnly": [], "privateHosts": []}';
      await sql`alter table sandboxes add column network jsonb not null default ${sql.lit(none)}`.execute(db);
      await sql`alter table sandboxes alter column network drop default`.execute(db);
      await sql`alter table organisations add column network jsonb not null default ${sql.lit(widest)}`.execute(db);
      await sql`
        create table egress (
          id text collate "C" primary key,
          sandbox_id text not null,
          at timestamptz(3) not null,
          record jsonb not null
        )`.execute(db);
      await sql`create index egress_sandbox on egress (sandbox_id, at desc, id desc)`.execute(db);
      await sql`create index egress_at on egress (at)`.execute(db);
    },
  },
  '0020_pause_failures': {
    async up(db) {
      await sql`alter table sandboxes add column pause_failure jsonb`.execute(db);
    },
  },
  '0021_moves': {
    async up(db) {
      await sql`
        alter table sandboxes
          add column moved jsonb,
          add column moves integer not null default 0,
          drop constraint sandboxes_settled_check,
          add constraint sandboxes_settled_check
            check (settled in ('absent', 'running', 'out_of_space', 'paused', 'crashed', 'moved', 'deleted'))`.execute(
        db,
      );
      await sql`create table installation (id uuid primary key)`.execute(db);
      await sql`insert into installation (id) values (gen_random_uuid())`.execute(db);
    },
  },
  '0022_archiving': {
    async up(db) {
      await sql`alter table sandboxes add column archiving jsonb`.execute(db);
    },
  },
  '0023_expiry': {
    async up(db) {
      await sql`
        alter table sandboxes
          add column expires_at timestamptz(3),
          add column expiry_action text check (expiry_action in ('pause', 'delete')),
          add check ((expires_at is null) = (expiry_action is null))`.execute(db);
      await sql`create index sandboxes_expiry on sandboxes (expires_at) where expires_at is not null`.execute(db);
    },
  },
  '0024_archive_collections': {
    async up(db) {
      await sql`
        create table archive_collections (
          project_id text not null,
          location text not null,
          asked_at timestamptz(3) not null,
          primary key (project_id, location)
        )`.execute(db);
    },
  },
  /** No policy asked before. */
  '0026_asks': {
    async up(db) {
      await sql`update sandboxes set network = '{"ask": []}'::jsonb || network`.execute(db);
      await sql`update organisations set network = '{"ask": []}'::jsonb || network`.execute(db);
      const widest = '{"preset": "internet", "allow": [], "ask": [], "deny": [], "readOnly": [], "privateHosts": []}';
      await sql`alter table organisations alter column network set default ${sql.lit(widest)}`.execute(db);
    },
  },
  '0028_approvals': {
    async up(db) {
      await sql`
        create table approvals (
          id text collate "C" primary key,
          organisation_id text not null,
          project_id text not null references projects (id),
          sandbox_id text not null references sandboxes (id),
          generation bigint not null,
          digest text not null,
          rule text not null,
          request jsonb not null,
          state text not null check (state in ('pending', 'approved', 'used', 'denied', 'expired', 'void')),
          requested_at timestamptz(3) not null,
          expires_at timestamptz(3) not null,
          decided_by text,
          decided_at timestamptz(3),
          reason text,
          ended_at timestamptz(3),
          used_for text,
          snapshot jsonb,
          check ((decided_by is null) = (decided_at is null)),
          check ((state = 'used') = (used_for is not null)),
          check (state not in ('approved', 'used', 'denied') or decided_by is not null)
        )`.execute(db);
      // Of one request, at most one waits or may be used.
      await sql`
        create unique index approvals_open on approvals (sandbox_id, generation, digest)
        where state in ('pending', 'approved')`.execute(db);
      await sql`create index approvals_project on approvals (project_id, requested_at desc, id desc)`.execute(db);
      await sql`create index approvals_sandbox on approvals (sandbox_id, digest)`.execute(db);
      await sql`create index approvals_pending on approvals (organisation_id) where state = 'pending'`.execute(db);
      await sql`create index approvals_expiry on approvals (expires_at)`.execute(db);
      await sql`alter table events add column approval_id text`.execute(db);
    },
  },
  /** What there is of calls is linked in the rounds that follow. */
  '0029_chains': {
    async up(db) {
      await sql`alter table audit add column link bigint`.execute(db);
      await sql`create index audit_unlinked on audit (at, id) where link is null`.execute(db);
      await sql`create index audit_link on audit (organisation_id, link)`.execute(db);
      await sql`create table egress_position (instance text not null, next bigint not null)`.execute(db);
      await sql`
        create table audit_chains (
          organisation_id text not null,
          chain text not null check (chain in ('calls', 'egress')),
          anchor_number bigint not null,
          anchor_digest text not null,
          head_number bigint not null,
          head_digest text not null,
          primary key (organisation_id, chain),
          check (anchor_number between 0 and head_number)
        )`.execute(db);
      await sql`
        create table audit_links (
          organisation_id text not null,
          chain text not null,
          number bigint not null,
          at timestamptz(3) not null,
          entry text not null,
          digest text not null,
          primary key (organisation_id, chain, number)
        )`.execute(db);
      await sql`create index audit_links_at on audit_links (organisation_id, chain, at)`.execute(db);
      for (const statement of ONLY_ADDED_TO) await sql.raw(statement).execute(db);
    },
  },
  '0030_webhooks': {
    async up(db) {
      await sql`
        create table webhooks (
          organisation_id text primary key references organisations (id) on delete cascade,
          url text not null,
          set_at timestamptz(3) not null,
          failure_code text,
          failed_at timestamptz(3),
          check ((failure_code is null) = (failed_at is null))
        )`.execute(db);
      await sql`
        create table notices (
          approval_id text primary key references approvals (id) on delete cascade,
          organisation_id text not null references webhooks (organisation_id) on delete cascade,
          next_at timestamptz(3) not null,
          tries integer not null default 0
        )`.execute(db);
      await sql`create index notices_next on notices (next_at)`.execute(db);
    },
  },
  '0031_secrets': {
    async up(db) {
      await sql`alter table sandboxes add column secrets jsonb not null default '[]'`.execute(db);
      await sql`
        create table secrets (
          organisation_id text not null references organisations (id),
          name text collate "C" not null,
          source jsonb not null,
          version integer not null,
          created_at timestamptz(3) not null,
          updated_at timestamptz(3) not null,
          primary key (organisation_id, name)
        )`.execute(db);
      await sql`
        create table secret_bindings (
          organisation_id text not null,
          name text collate "C" not null,
          secret text collate "C" not null,
          binding jsonb not null,
          created_at timestamptz(3) not null,
          updated_at timestamptz(3) not null,
          primary key (organisation_id, name),
          foreign key (organisation_id, secret) references secrets (organisation_id, name) on delete cascade
        )`.execute(db);
      await sql`create index secret_bindings_secret on secret_bindings (organisation_id, secret)`.execute(db);
    },
  },
  '0032_missing_secrets': {
    async up(db) {
      await sql`alter table sandboxes add column missing_secrets jsonb not null default '[]'`.execute(db);
    },
  },
  '0033_runs': {
    async up(db) {
      await sql`
        alter table sandboxes
          add column runs jsonb not null default '{"limitMs": null, "atLimit": "pause", "wakeOnUse": true}',
          add column started_at timestamptz(3),
          add column public_ports boolean not null default false,
          add column access jsonb`.execute(db);
    },
  },
  '0034_vaults': {
    async up(db) {
      // Those that are removed keep their names, so that no name means two vaults.
      await sql`
        create table vaults (
          name text collate "C" primary key,
          organisation_id text not null references organisations (id),
          is_default boolean not null,
          state text not null check (state in ('making', 'ready', 'removed')),
          size_bytes bigint not null,
          kms text,
          kms_key text,
          wrapped bytea,
          revocation jsonb,
          on_revoke text not null check (on_revoke in ('pause', 'kill')),
          outage_ms bigint,
          version integer not null,
          created_at timestamptz(3) not null,
          updated_at timestamptz(3) not null,
          check (num_nulls(kms, kms_key, wrapped) in (0, 3)),
          check (state <> 'removed' or wrapped is null)
        )`.execute(db);
      await sql`create unique index vaults_default on vaults (organisation_id) where is_default`.execute(db);
      await sql`create index vaults_organisation on vaults (organisation_id, name)`.execute(db);
    },
  },
  '0035_templates': {
    async up(db) {
      await makeTemplateTables(db as Kysely<never>);
    },
  },
  '0036_content': {
    async up(db) {
      // Environment and metadata as ciphertext; `env` is empty then, and `metadata` has digests of its pairs.
      await sql`alter table sandboxes add column content bytea`.execute(db);
    },
  },
  '0037_pause_files': {
    async up(db) {
      await sql`
        alter table sandboxes
          drop constraint sandboxes_expiry_action_check,
          add constraint sandboxes_expiry_action_check check (expiry_action in ('pause', 'pause_files', 'delete'))`.execute(
        db,
      );
    },
  },
  '0038_built_from': {
    async up(db) {
      await sql`alter table sandboxes add column built_from jsonb`.execute(db);
    },
  },
  '0039_removing_vaults': {
    async up(db) {
      await sql`
        alter table vaults
          drop constraint vaults_state_check,
          add constraint vaults_state_check check (state in ('making', 'ready', 'removing', 'removed'))`.execute(db);
    },
  },
  '0040_vault_headers': {
    async up(db) {
      // Whether a key was rotated before is not known; to tell a header of the keyring that it has does no harm.
      await sql`alter table vaults add column header_is_behind boolean not null default false`.execute(db);
      await sql`update vaults set header_is_behind = true where wrapped is not null and state = 'ready'`.execute(db);
    },
  },
  '0041_layer_states': {
    async up(db) {
      await sql`alter table template_layers add column state jsonb`.execute(db);
    },
  },
};
