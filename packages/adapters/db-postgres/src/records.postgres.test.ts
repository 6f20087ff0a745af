import {
  approvalsSuite,
  callsSuite,
  egressSuite,
  historySuite,
  recordsSuite,
  schedulesSuite,
  sharesSuite,
  tenantsSuite,
} from '@space/control/testing';
import { DEFAULT_ORGANISATION, DEFAULT_PROJECT } from '@space/core';
import { sql } from 'kysely';
import { afterAll, beforeAll } from 'vitest';
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
  await sql`truncate sandboxes, snapshots, operations, api_keys, calls, audit, events, schedules, schedule_runs, doomed_points, shares, egress, approvals`.execute(
    database.db,
  );
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
