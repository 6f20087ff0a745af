/**
 * Statements that are sent again and again are prepared: the server parses and plans each once per connection, instead of at each
 * call, which is most of what a small statement costs. For connections that are to one server for as long as they live: behind a
 * pooler, what one has prepared another would not find.
 */
import { createHash } from 'node:crypto';
import type { PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import type { Pool, PoolClient } from 'pg';

/** Of a process. A query whose text depends on how many values it has would add to them for ever. */
const MAX_STATEMENTS = 400;

/** The pool, for Kysely. */
export function preparing(pool: Pool): PostgresPool {
  const names = new Map<string, string>();
  const nameOf = (text: string): string | undefined => {
    const known = names.get(text);
    if (known !== undefined || names.size >= MAX_STATEMENTS) return known;
    const name = createHash('sha256').update(text).digest('base64url');
    names.set(text, name);
    return name;
  };
  return {
    options: pool.options,
    connect: async () => preparingClient(await pool.connect(), nameOf),
    end: () => pool.end(),
  };
}

function preparingClient(client: PoolClient, nameOf: (text: string) => string | undefined): PostgresPoolClient {
  const query = async (text: string, values: readonly unknown[]) => {
    // Without values it may be several statements in one text, as in a migration.
    const name = values.length === 0 ? undefined : nameOf(text);
    return client.query({ text, values: [...values], ...(name === undefined ? {} : { name }) });
  };
  return {
    query: query as <R>(text: string, values: readonly unknown[]) => Promise<PostgresQueryResult<R>>,
    release: (destroy) => client.release(destroy),
  } as PostgresPoolClient;
}
