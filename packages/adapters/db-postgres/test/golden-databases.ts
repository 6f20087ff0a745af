/** Databases of earlier versions, for tests: their rows as SQL, and all that the records say of them. */
import { join } from 'node:path';
import type { Page, Records } from '@space/control';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { Migrator } from 'kysely/migration';
import pg from 'pg';
import type { DatabaseAddress } from '../src/database.ts';
import { MIGRATIONS, type Tables } from '../src/schema.ts';

export const GOLDEN = join(import.meta.dirname, '../golden');

type SocketAddress = Exclude<DatabaseAddress, { readonly url: string }>;

function poolOn({ socketDir: host, user, database }: SocketAddress): pg.Pool {
  return new pg.Pool({ host, user, database });
}

export function onSocket(address: DatabaseAddress): SocketAddress {
  if ('url' in address) throw new Error('the test has a cluster of its own');
  return address;
}

/** A database of its own in the cluster. */
export async function newDatabase(cluster: DatabaseAddress, name: string): Promise<SocketAddress> {
  const address = onSocket(cluster);
  const pool = poolOn(address);
  await pool.query(`create database "${name}"`);
  await pool.end();
  return { ...address, database: name };
}

/** As the release with migrations up to `last` left it, after each of which `each` is asked. */
export async function withEarlierDatabase(
  address: SocketAddress,
  last: string,
  work: (db: Kysely<Tables>) => Promise<void>,
  each?: (db: Kysely<Tables>, migration: string) => Promise<void>,
): Promise<void> {
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: poolOn(address) }) });
  try {
    const earlier = Object.fromEntries(Object.entries(MIGRATIONS).filter(([name]) => name <= last));
    const migrator = new Migrator({ db, provider: { getMigrations: async () => earlier } });
    for (const name of Object.keys(earlier)) {
      const { error } = await migrator.migrateTo(name);
      if (error !== undefined) throw error;
      await each?.(db, name);
    }
    await work(db);
  } finally {
    await db.destroy();
  }
}

/** Columns, constraints and indexes, a line each. */
export async function shapeOf(db: Kysely<Tables>): Promise<string[]> {
  const { rows } = await sql<{ line: string }>`
    select format('%s.%s %s%s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
      case when a.attnotnull then ' not null' else '' end, ' ' || pg_get_expr(d.adbin, d.adrelid), ' ' || o.collname) as line
      from pg_attribute a join pg_class c on c.oid = a.attrelid and c.relkind = 'r'
      join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'public'
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      left join pg_collation o on o.oid = a.attcollation
      where a.attnum > 0 and not a.attisdropped and c.relname not like 'kysely%'
    union all
    select format('%s: %s', conname, pg_get_constraintdef(oid)) from pg_constraint
      where connamespace = 'public'::regnamespace and contype <> 'n' and conrelid::regclass::text not like 'kysely%'
    union all
    select indexdef from pg_indexes where schemaname = 'public' and tablename not like 'kysely%'
    order by 1`.execute(db);
  return rows.map(({ line }) => line);
}

/** What `pg_dump --data-only` wrote takes the place of what the migrations put there themselves. */
export async function fill(address: SocketAddress, dump: string): Promise<void> {
  const client = await poolOn(address).connect();
  try {
    const { rows } = await client.query<{ name: string }>(
      `select tablename as name from pg_tables where schemaname = 'public' and tablename not like 'kysely%'`,
    );
    // As who owns the database: the audit is emptied by nobody else.
    await client.query(`set session_replication_role = 'replica'`);
    await client.query(`truncate ${rows.map(({ name }) => `"${name}"`).join(', ')} cascade`);
    await client.query(`set session_replication_role = 'origin'`);
    // The lines for its own client are none for the server.
    await client.query(dump.replaceAll(/^\\.*$/gm, ''));
    await passTransactions(client);
  } finally {
    client.release(true);
  }
}

/** Events are told once no transaction before theirs can be under way: by the counter of the server that they were written on. */
async function passTransactions(client: pg.PoolClient): Promise<void> {
  const asked = await client.query<{ there: boolean }>(`select to_regclass('public.events') is not null as there`);
  if (asked.rows[0]?.there !== true) return;
  for (;;) {
    const { rows } = await client.query<{ passed: boolean }>(
      'select pg_current_xact_id()::text::bigint > coalesce(max(tx), 0) as passed from public.events',
    );
    if (rows[0]?.passed === true) return;
  }
}

/** All that is recorded, by the present records; dates as text, bytes as hex. */
export async function readAll(records: Records): Promise<unknown> {
  const organisations = [];
  for (const organisation of await allOf((page) => records.tenants.listOrganisations(page))) {
    const organisationId = organisation.id;
    const projects = [];
    for (const project of await allOf((page) =>
      records.tenants.listProjects({ ...page, organisationId, only: null }),
    )) {
      projects.push({ ...project, ...(await readProject(records, project.id)) });
    }
    const keys = await allOf((page) => records.tenants.listApiKeys({ ...page, organisationId }));
    const audit = await allOf((page) => records.audit.list({ ...page, organisationId }));
    const usage = await records.tenants.usage(organisationId);
    const secrets = await records.secrets.list(organisationId);
    const bindings = await records.secrets.bindings(organisationId);
    const webhook = await records.notices.findWebhook(organisationId);
    const chains = await readChains(records, organisationId);
    organisations.push({ ...organisation, usage, keys, audit, projects, secrets, bindings, webhook, chains });
  }
  return JSON.parse(JSON.stringify(organisations, asText));
}

type OrganisationId = Parameters<Records['secrets']['list']>[0];

async function readChains(records: Records, organisationId: OrganisationId) {
  const states = await records.chain.states(organisationId);
  return Promise.all(
    states.map(async (state) => {
      const request = { organisationId, chain: state.chain, after: 0, limit: 1000 };
      return { ...state, links: await records.chain.links(request) };
    }),
  );
}

type ProjectId = Parameters<Records['tenants']['organisationOf']>[0];

async function readProject(records: Records, projectId: ProjectId) {
  const sandboxes = [];
  for (const sandbox of await allOf((page) => records.listSandboxes({ ...page, projectId }))) {
    const schedules = await records.schedules.list(sandbox.id);
    sandboxes.push({
      ...sandbox,
      timeline: await records.snapshotsOf(sandbox.id),
      schedules,
      runs: await records.schedules.runsOf(schedules.map(({ id }) => id)),
      egress: await allOf((page) => records.egress.list({ ...page, sandboxId: sandbox.id })),
      shares: await records.shares.list(sandbox.id, new Date(0)),
    });
  }
  return {
    sandboxes,
    named: await allOf((page) => records.listSnapshots({ ...page, projectId })),
    operations: await allOf((page) => records.listOperations({ ...page, projectId })),
    approvals: await allOf((page) => records.approvals.list({ ...page, projectId })),
    events: await records.events.list({ after: null, projectId, organisationId: null, limit: 1000 }),
  };
}

/** All at once: the fixtures are small. */
async function allOf<T>(list: (page: { readonly limit: number }) => Promise<Page<T>>): Promise<readonly T[]> {
  const { items, next } = await list({ limit: 1000 });
  if (next !== null) throw new Error('there is more of it than a fixture may hold');
  return items;
}

function asText(_: string, value: unknown): unknown {
  const isBytes = typeof value === 'object' && value !== null && 'type' in value && value.type === 'Buffer';
  return isBytes ? Buffer.from((value as unknown as { data: number[] }).data).toString('hex') : value;
}
