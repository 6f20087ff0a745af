/** A database of an earlier release is carried over with all that is in it. */
import { DEFAULT_ORGANISATION, DEFAULT_PROJECT, type SandboxId, type SnapshotId } from '@space/core';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { Migrator } from 'kysely/migration';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type DatabaseAddress, openDatabase } from './database.ts';
import { createPostgresRecords } from './postgres-records.ts';
import type { PrivateCluster } from './private-cluster.ts';
import { MIGRATIONS, type Tables } from './schema.ts';
import { silent, type TestFolder, testFolder } from './test-cluster.ts';

let folder: TestFolder;
let cluster: PrivateCluster;

beforeAll(async () => {
  folder = await testFolder();
  cluster = await folder.start();
});

afterAll(async () => {
  await cluster?.close();
  await folder?.remove();
});

/** As the release with migrations up to `last` left it. */
async function withEarlierDatabase(
  address: DatabaseAddress,
  last: string,
  work: (db: Kysely<Tables>) => Promise<void>,
) {
  if ('url' in address) throw new Error('the test has a cluster of its own');
  const { socketDir: host, user, database } = address;
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: new pg.Pool({ host, user, database }) }) });
  const earlier = Object.fromEntries(Object.entries(MIGRATIONS).filter(([name]) => name <= last));
  const { error } = await new Migrator({ db, provider: { getMigrations: async () => earlier } }).migrateToLatest();
  if (error !== undefined) throw error;
  await work(db);
  await db.destroy();
}

it('keys of the first release are admins of the default organisation, and what there was is in its project', async () => {
  const [sandbox, point] = ['sbx_0123456789abcdef' as SandboxId, 'snp_0123456789abcdef' as SnapshotId];
  await withEarlierDatabase(cluster.address, '0001_sandboxes', async (db) => {
    await sql`
      insert into sandboxes (id, name, template, size, vault, env, metadata, settled, epoch, generation, created_at, updated_at)
      values (${sandbox}, 'one', 'base', '{}', 'default', '{}', '{}', 'running', 1, 1, now(), now())`.execute(db);
    await sql`
      insert into snapshots (id, sandbox_id, name, cause, generation, template, size, vault, state, taken_at)
      values (${point}, ${sandbox}, 'point', 'snapshot', 1, 'base', '{}', 'default', 'good', now())`.execute(db);
    await sql`
      insert into api_keys (id, prefix, sha256, created_at)
      values ('key_0123456789abcdef', 'space_ab', ${Buffer.alloc(32, 7)}, now())`.execute(db);
  });
  const database = await openDatabase(cluster.address, silent);
  const records = createPostgresRecords(database);
  expect(await records.findSandboxByName(DEFAULT_PROJECT, 'one')).toMatchObject({ id: sandbox });
  expect(await records.findSnapshotByName(DEFAULT_PROJECT, 'point')).toMatchObject({ id: point, pinned: true });
  const key = { organisationId: DEFAULT_ORGANISATION, projectId: null, roles: ['admin'], revokedAt: null };
  expect(await records.tenants.findApiKeyByDigest(Buffer.alloc(32, 7))).toMatchObject(key);
  await database.close();
});
