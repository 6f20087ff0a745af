/**
 * A connection pool to PostgreSQL with our schema in it. The pool and each of its clients have a listener for errors:
 * without one, a server that restarts ends the whole process.
 */
import type { Logger } from '@space/control';
import { Kysely, PostgresDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
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

/** Connects and migrates (under a lock: several processes may start at once). Throws `unavailable`. */
export async function openDatabase(address: DatabaseAddress, logger: Logger): Promise<Database> {
  const pool = new pg.Pool({
    ...connectionOf(address),
    max: MAX_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_TIMEOUT_MS,
    application_name: 'space',
    types: { getTypeParser },
  });
  const onError = (err: Error) => logger.warn({ err }, 'a database connection was lost');
  pool.on('error', onError);
  pool.on('connect', (client) => client.on('error', onError));
  const isOurs = 'socketDir' in address;
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: isOurs ? preparing(pool) : pool }) });
  try {
    await migrate(db);
  } catch (thrown) {
    await db.destroy();
    throw translate(thrown);
  }
  const load = () => ({ connections: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount });
  return { db, load, close: () => translated(() => db.destroy()) };
}

async function migrate(db: Kysely<Tables>): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => MIGRATIONS } });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
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
