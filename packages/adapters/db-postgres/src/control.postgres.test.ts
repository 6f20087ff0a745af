/** Control on real records: that the two fit, and that nothing which the memory does at once is wrong when it takes time. */
import type { Caller } from '@space/contract';
import { type Control, createControl } from '@space/control';
import { DEFAULT_ORGANISATION, DEFAULT_PROJECT, newId, type Principal, type SandboxId } from '@space/core';
import { FakeGateway, FakeNode, realClock, seededChance } from '@space/testkit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Database, openDatabase } from './database.ts';
import { createPostgresRecords } from './postgres-records.ts';
import type { PrivateCluster } from './private-cluster.ts';
import { silent, type TestFolder, testFolder } from './test-cluster.ts';

const chance = seededChance(Date.now());
const node = new FakeNode();
let folder: TestFolder;
let cluster: PrivateCluster;
let database: Database;
let control: Control;

function newControl(): Control {
  const records = createPostgresRecords(database);
  return createControl({ node, records, clock: realClock(), chance, logger: silent }, new FakeGateway());
}

beforeAll(async () => {
  folder = await testFolder();
  cluster = await folder.start();
  database = await openDatabase(cluster.address, silent);
  control = newControl();
  await control.start();
});

afterAll(async () => {
  await control?.close();
  await database?.close();
  await cluster?.close();
  await folder?.remove();
});

const caller = (): Caller => {
  const principal: Principal = {
    apiKeyId: newId('apiKey', chance),
    organisationId: DEFAULT_ORGANISATION,
    operator: true,
    onlyProject: null,
    roles: ['admin'],
  };
  return { principal, projectId: DEFAULT_PROJECT, requestId: 'req', signal: new AbortController().signal };
};

async function exec(id: SandboxId, command: string): Promise<string> {
  let output = '';
  for await (const event of control.exec(caller(), { id, command })) {
    if (event.kind === 'output') output += Buffer.from(event.data).toString();
  }
  return output.trim();
}

it('carries a sandbox through its whole life', async () => {
  const { id } = await control.createSandbox(caller(), { name: 'one', env: { A: 'ä' } });
  await exec(id, 'increment');
  const point = await control.takeSnapshot(caller(), { id, name: 'point', note: 'n' });
  await exec(id, 'increment');
  expect((await control.pauseSandbox(caller(), { id })).status).toBe('paused');
  expect(await exec(id, 'read')).toBe('2');
  const forks = await control.forkSandbox(caller(), { id, count: 8 });
  expect(forks.every((one) => 'sandbox' in one)).toBe(true);
  const { kept } = await control.rewindSandbox(caller(), { id, to: 'point', keepPresent: true });
  expect(kept?.parent).not.toBeNull();
  expect(await exec(id, 'read')).toBe('1');
  await control.deleteSandbox(caller(), { id });
  await expect(control.getSandbox(caller(), { id: 'one' })).rejects.toMatchObject({ code: 'not_found' });
  expect((await control.getSnapshot(caller(), { id: 'point' })).id).toBe(point.id);
});

it('wakes once for ten callers, and serves commands that race', async () => {
  const { id } = await control.createSandbox(caller(), {});
  await control.pauseSandbox(caller(), { id });
  const starts = () => node.faults.steps.filter((step) => step === 'start').length;
  const before = starts();
  await Promise.all(Array.from({ length: 10 }, () => exec(id, 'read')));
  expect(starts() - before).toBe(1);
  const results = await Promise.allSettled([
    control.pauseSandbox(caller(), { id }),
    control.takeSnapshot(caller(), { id }),
    control.forkSandbox(caller(), { id, count: 2 }),
    exec(id, 'increment'),
    control.pauseSandbox(caller(), { id }),
    control.resumeSandbox(caller(), { id }),
  ]);
  expect(results.filter((result) => result.status === 'rejected')).toEqual([]);
  expect(await exec(id, 'read')).toBe('1');
});

it('goes on when the database dies in the middle of an operation', async () => {
  const { id } = await control.createSandbox(caller(), {});
  const held = node.faults.holdNext('pause done');
  const pausing = control.pauseSandbox(caller(), { id }).catch((err: unknown) => err);
  await held.reached;
  if (cluster.pid !== null) process.kill(cluster.pid, 'SIGKILL');
  held.letGo();
  await pausing;
  const deadline = performance.now() + 20_000;
  for (;;) {
    const read = await exec(id, 'read').catch((err: { code?: string }) => err.code);
    if (read === '0') break;
    expect(read).toBe('unavailable');
    if (performance.now() > deadline) throw new Error('it did not come back');
  }
  await control.close();
  control = newControl();
  expect(await control.start()).toMatchObject({ recovered: 0, corrected: 0, unknown: [] });
});
