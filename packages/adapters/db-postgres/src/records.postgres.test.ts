import {
  approvalsSuite,
  archivesSuite,
  callsSuite,
  chainSuite,
  egressSuite,
  historySuite,
  noticesSuite,
  recordsSuite,
  schedulesSuite,
  secretsSuite,
  sharesSuite,
  templatesSuite,
  tenantsSuite,
  vaultsSuite,
} from '@space/control/testing';
import { DEFAULT_ORGANISATION, DEFAULT_PROJECT } from '@space/core';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Database, openDatabase } from './database.ts';
import { createPostgresRecords } from './postgres-records.ts';
import type { PrivateCluster } from './private-cluster.ts';
import { silent, type TestFolder, testFolder } from './test-cluster.ts';

let folder: TestFolder;
let cluster: PrivateCluster;
let database: Database;

beforeAll(async () => {
  folder = await testFolder();
  cluster = await folder.start();
  database = await openDatabase(cluster.address, silent);
}, 60_000);

afterAll(async () => {
  await database?.close();
  await cluster?.close();
  await folder?.remove();
}, 60_000);

const open = async () => {
  // Nobody but who owns the database can do this to the audit.
  await database.db.transaction().execute(async (tx) => {
    await sql`set local session_replication_role = 'replica'`.execute(tx);
    await sql`truncate sandboxes, snapshots, operations, api_keys, calls, audit, events, schedules, schedule_runs, doomed_points, shares, egress, egress_position, audit_chains, audit_links, approvals, webhooks, notices, secrets, secret_bindings, archive_collections, vaults, templates, template_builds, template_logs, template_tags, template_layers, template_files, template_file_parts`.execute(
      tx,
    );
  });
  await sql`update event_floor set tx = 0, number = 0`.execute(database.db);
  await sql`delete from projects where id <> ${DEFAULT_PROJECT}`.execute(database.db);
  await sql`update projects set snapshot_policy = '{}'`.execute(database.db);
  await sql`delete from organisations where id <> ${DEFAULT_ORGANISATION}`.execute(database.db);
  return createPostgresRecords(database);
};

recordsSuite('in PostgreSQL', open);
tenantsSuite('in PostgreSQL', open);
callsSuite('in PostgreSQL', open);
schedulesSuite('in PostgreSQL', open);
historySuite('in PostgreSQL', open);
sharesSuite('in PostgreSQL', open);
egressSuite('in PostgreSQL', open);
approvalsSuite('in PostgreSQL', open);
noticesSuite('in PostgreSQL', open);
secretsSuite('in PostgreSQL', open);
vaultsSuite('in PostgreSQL', open);
archivesSuite('in PostgreSQL', open);
chainSuite('in PostgreSQL', open);
templatesSuite('in PostgreSQL', open);

describe('the audit in PostgreSQL', () => {
  it('is only added to, whoever asks with the rights of the platform', async () => {
    const records = await open();
    const target = 'what';
    const asker = {
      auditId: 'aud_0000000000000001',
      requestId: 'req_1',
      apiKeyId: 'key_0000000000000001',
      organisationId: DEFAULT_ORGANISATION,
      projectId: null,
      action: 'network.manage',
      call: 'setNetwork',
    } as const;
    await records.audit.append({ ...asker, target, outcome: null, at: new Date() } as never, 'next');
    const refused = async (statement: string) =>
      expect(sql.raw(statement).execute(database.db), statement).rejects.toMatchObject({ code: '23001' });
    await refused("update audit set call = 'other'");
    await refused('delete from audit');
    await records.audit.complete(asker.auditId as never, { target, outcome: 'ok' });
    expect(await records.chain.linkCalls(10, new Date())).toBe(1);
    for (const statement of [
      "update audit set outcome = 'forbidden'",
      'update audit set link = null',
      'delete from audit',
      'truncate audit',
      "update audit_links set entry = 'other'",
      'update audit_links set number = 2',
      'delete from audit_links',
      'truncate audit_links',
      'update audit_chains set head_number = 0',
      'update audit_chains set head_number = 2',
      "update audit_chains set head_digest = 'other'",
      "update audit_chains set anchor_number = 1, anchor_digest = 'other'",
      "update audit_chains set organisation_id = 'other'",
      'delete from audit_chains',
      'truncate audit_chains, audit_links',
    ]) {
      await refused(statement);
    }
    expect((await records.audit.list({ organisationId: DEFAULT_ORGANISATION, limit: 10 })).items).toHaveLength(1);
    await records.chain.drop('calls', { before: new Date(Date.now() + 1_000), kept: 10, limit: 10 });
    expect((await records.audit.list({ organisationId: DEFAULT_ORGANISATION, limit: 10 })).items).toEqual([]);
  });
});

describe('statements', () => {
  const prepared = async () => {
    const { rows } = await sql<{
      statement: string;
    }>`select statement from pg_prepared_statements where true = ${true}`.execute(database.db);
    return rows.map(({ statement }) => statement);
  };

  it('are planned once by the server that is ours, however many texts there are', async () => {
    const text = 'select 1 as "seen_before" where true = $1';
    for (let time = 0; time < 3; time++) await sql`select 1 as "seen_before" where true = ${true}`.execute(database.db);
    expect((await prepared()).filter((one) => one === text)).toHaveLength(1);
    for (let width = 1; width <= 500; width++) {
      const { rows } = await sql`select 1 as one where 0 in (${sql.join(Array(width).fill(0))})`.execute(database.db);
      expect(rows).toEqual([{ one: 1 }]);
    }
    expect((await prepared()).length).toBeLessThanOrEqual(400);
  });

  it('are sent whole to a server of others, which may be behind a pooler', async () => {
    const {
      socketDir,
      user,
      database: name,
    } = cluster.address as { socketDir: string; user: string; database: string };
    const url = `postgres://${user}@/${name}?host=${encodeURIComponent(socketDir)}`;
    const other = await openDatabase({ url }, silent);
    try {
      await sql`select 1 where true = ${true}`.execute(other.db);
      const { rows } = await sql`select from pg_prepared_statements`.execute(other.db);
      expect(rows).toEqual([]);
    } finally {
      await other.close();
    }
  });
});
