/**
 * A connection pool to PostgreSQL with our schema in it. The pool and each of its clients have a listener for errors:
 * without one, a server that restarts ends the whole process.
 */
import type { Logger } from '@space/control';
import { Kysely, PostgresDialect } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import pg from 'pg';
import { translate, translated } from './errors.ts';
import { preparing } from './prepared.ts';
import { MIGRATIONS, type Tables } from './schema.ts';

const MAX_CONNECTIONS = 8;
const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 10_000;
/** On our side, for a server that does not even answer with its own timeout. */
const QUERY_TIMEOUT_MS = 15_000;
const IDLE_TRANSACTION_TIMEOUT_MS = 15_000;

export type DatabaseAddress =
  /** `postgres://…`, anybody's server. */
  | { readonly url: string }
  /** A private cluster's socket folder. */
  | { readonly socketDir: string; readonly user: string; readonly database: string };

export interface Database {
  readonly db: Kysely<Tables>;
  /** Of the pool, as it is now. */
  load(): { readonly connections: number; readonly idle: number; readonly waiting: number };
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly migrations?: Readonly<Record<string, Migration>>;
  readonly statementTimeoutMs?: number;
}

/** Connects and migrates (under a lock: several processes may start at once). Throws `unavailable`. */
export async function openDatabase(
  address: DatabaseAddress,
  logger: Logger,
  { migrations = MIGRATIONS, statementTimeoutMs = STATEMENT_TIMEOUT_MS }: DatabaseOptions = {},
): Promise<Database> {
  await migrate(poolOf(address, logger, { max: 1, statement_timeout: 0, keepAlive: true }), migrations);
  const limits = { statement_timeout: statementTimeoutMs, query_timeout: QUERY_TIMEOUT_MS };
  const pool = poolOf(address, logger, { max: MAX_CONNECTIONS, ...limits });
  const isOurs = 'socketDir' in address;
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: isOurs ? preparing(pool) : pool }) });
  const load = () => ({ connections: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount });
  return { db, load, close: () => translated(() => db.destroy()) };
}

function poolOf(address: DatabaseAddress, logger: Logger, limits: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({
    ...connectionOf(address),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_TIMEOUT_MS,
    application_name: 'space',
    types: { getTypeParser },
    ...limits,
  });
  const onError = (err: Error) => logger.warn({ err }, 'a database connection was lost');
  pool.on('error', onError);
  pool.on('connect', (client) => client.on('error', onError));
  return pool;
}

/**
 * Over a connection of its own, whose statements have no limit: how long an index of millions of rows takes nobody knows, and
 * one that is ended half-way would be begun anew at each start. Ends the pool.
 */
async function migrate(pool: pg.Pool, migrations: Readonly<Record<string, Migration>>): Promise<void> {
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  try {
    const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...migrations }) } });
    const { error } = await migrator.migrateToLatest();
    if (error !== undefined) throw error;
  } catch (thrown) {
    throw translate(thrown);
  } finally {
    await db.destroy();
  }
}

function connectionOf(address: DatabaseAddress): pg.PoolConfig {
  if ('url' in address) return { connectionString: address.url };
  return { host: address.socketDir, user: address.user, database: address.database };
}

/** int8 (counts, epochs, generations) as numbers; one that is too large for a number is a bug and says so. */
const INT8 = 20;

function getTypeParser(oid: number, format?: 'text' | 'binary'): (value: string) => unknown {
  return oid === INT8 ? parseInt8 : (pg.types.getTypeParser(oid, format as 'text') as (value: string) => unknown);
}

function parseInt8(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new Error(`the database returned ${text}, which is no safe integer`);
  return value;
}
