/**
 * Writes a database as the present version leaves it, into `golden/<newest migration>.sql`: a fixture for all later ones. Run once
 * per migration, by the version that brings it: `node packages/adapters/db-postgres/test/write-golden.ts`. It takes a minute,
 * since a schedule has to come.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from '@space/contract';
import { createApiKey, createControl, type TakenEgress } from '@space/control';
import {
  DEFAULT_ORGANISATION,
  DEFAULT_PROJECT,
  newId,
  type ProjectId,
  type SandboxId,
  type SnapshotId,
} from '@space/core';
import { FakeGateway, FakeNode, realClock } from '@space/testkit';
import { openDatabase } from '../src/database.ts';
import { createPostgresRecords } from '../src/postgres-records.ts';
import { MIGRATIONS } from '../src/schema.ts';
import { silent, testFolder } from '../src/test-cluster.ts';
import { GOLDEN, onSocket } from './golden-databases.ts';

const ARCHIVES = 'default';
const chance = { bytes: (count: number) => crypto.getRandomValues(new Uint8Array(count)) };
const folder = await testFolder();
const cluster = await folder.start();
const database = await openDatabase(cluster.address, silent);
const node = new FakeNode();
const records = createPostgresRecords(database);
const clock = realClock();
const gateway = new FakeGateway();
const control = createControl({ node, records, clock, chance, logger: silent }, gateway);
await control.start();
await createApiKey({ records, clock, chance });

const apiKeyId = newId('apiKey', chance);
let requests = 0;
const caller = (projectId: ProjectId = DEFAULT_PROJECT): Caller => ({
  principal: { apiKeyId, organisationId: DEFAULT_ORGANISATION, operator: true, onlyProject: null, roles: ['admin'] },
  projectId,
  requestId: `req_${++requests}`,
  signal: new AbortController().signal,
});
const run = async (id: string, command: string) =>
  void (await Array.fromAsync(control.exec(caller(), { id, command })));

const main = await control.createSandbox(
  { ...caller(), idempotencyKey: 'make-main' },
  { name: 'main', env: { GREETING: 'grüße' }, metadata: { team: 'blue' }, size: { memoryMib: 256 } },
);
await run(main.id, 'increment');
await control.takeSnapshot(caller(), { id: main.id, name: 'before', note: 'a note' });
await run(main.id, 'increment');
await control.takeSnapshot(caller(), { id: main.id });
await run(main.id, 'increment');
await control.rewindSandbox(caller(), { id: main.id, to: 'before', keepPresent: true });
const [forked] = await control.forkSandbox(caller(), { id: main.id, count: 1 });
if (forked === undefined || !('sandbox' in forked)) throw new Error('it was not forked');
const { id: fork } = forked.sandbox;
await control.pauseSandbox(caller(), { id: main.id });
await control.updateSandbox(caller(), {
  id: fork,
  idle: { pauseAfterMs: null },
  wakeAt: '2031-01-01T08:00:00.000Z',
  expiry: { at: '2031-01-02T08:00:00.000Z', action: 'delete' },
  snapshots: { everyMs: 30_000, retention: [{ forMs: 3_600_000, everyMs: 0 }] },
  network: {
    ...{ preset: 'none', deny: [] },
    allow: [{ protocol: 'http', host: 'api.example.com', ports: [443], access: 'write', path: '/v1' }],
    ask: [{ host: 'mail.example.com', ports: [443], access: 'write', path: '/' }],
  },
});

const moved = await control.createSandbox(caller(), { name: 'moved' });
await control.moveSandbox(caller(), { id: moved.id, location: ARCHIVES, timeline: false });

const archived = await control.createSandbox(caller(), { name: 'archived' });
const { id: last, takenAt } = await control.takeSnapshot(caller(), { id: archived.id });
const archivedId = archived.id as SandboxId;
const now = new Date(clock.now());
await records.history.noteArchiving(
  { id: archivedId, projectId: DEFAULT_PROJECT },
  {
    last: { location: ARCHIVES, archive: `arc_${'0'.repeat(64)}`, snapshotId: last as SnapshotId, takenAt },
    ...{ triedAt: now.toISOString(), tookMs: 1200, failure: { code: 'insufficient_space', count: 2 } },
  },
  now,
);
const failure = { code: 'agent_lost', detail: 'The agent does not answer.', attempts: 3, since: now } as const;
await records.notePauseFailure(archivedId, failure, now);
const request = {
  method: 'GET',
  path: '/v1/items',
  calls: null,
  secret: null,
  approval: null,
  rule: 'allow 1',
  status: 200,
};
const left = {
  protocol: 'http' as const,
  outcome: 'allowed' as const,
  ...{ id: newId('egress', chance), sandboxId: archivedId, lifeId: newId('life', chance), at: now },
  ...{ host: 'api.example.com', port: 443, lostBefore: 0, ...request },
  ...{ sentBytes: 100, receivedBytes: 2000, durationMs: 12, organisationId: DEFAULT_ORGANISATION },
} satisfies TakenEgress['records'][number];
// Behind what control itself has taken from its gateway.
let behind = await records.egress.position();
for (; behind === null; behind = await records.egress.position()) await sleep(100);
const position = { ...behind, next: behind.next + 1 };
await records.egress.add({ records: [left], changes: [], linkedAt: now, position }, behind);

const crashed = await control.createSandbox(caller(), { name: 'crashed' });
await control.takeSnapshot(caller(), { id: crashed.id });
node.crash(crashed.id);

const gone = await control.createSandbox(caller(), { name: 'gone' });
await control.takeSnapshot(caller(), { id: gone.id, name: 'outlives' });
await control.deleteSandbox(caller(), { id: gone.id });
await control.createSandbox(caller(), { template: 'nope' }).catch(() => undefined);

const { id: buildId } = await control.requestTemplateBuild(caller(), { id: 'tools', tags: ['default', 'v1'] });
const steps = [{ type: 'run', command: 'echo made' } as const, { type: 'workdir', path: '/srv' } as const];
await control.startTemplateBuild(caller(), { id: buildId, from: 'base', steps });
while ((await control.getTemplateBuild(caller(), { id: buildId, offset: 0, limit: 0 })).endedAt === null)
  await sleep(100);
await control.createSandbox(caller(), { name: 'of-tools', template: 'tools:v1' });

const second = await control.createProject(caller(), { name: 'second' });
await control.updateProject(caller(), { id: 'second', snapshots: { everyMs: 'off' } });
await control.createSandbox(caller(second.id), { name: 'elsewhere' });
await control.createKey(caller(), { name: 'ci', roles: ['developer', 'viewer'], project: 'second' });
const { id: revoked } = await control.createKey(caller(), { roles: ['auditor'] });
await control.revokeKey(caller(), { id: revoked });
await control.createProject(caller(), { name: 'third' });
await control.deleteProject(caller(), { id: 'third', force: true });
const { organisation } = await control.createOrganisation(caller(), { name: 'acme' });
await control.setLimits(caller(), { id: organisation.id, sandboxes: 10, memoryMib: 4096 });

const timing = { timeZone: 'Europe/Berlin', enabled: true } as const;
await control.createSchedule(caller(), {
  ...{ ...timing, id: fork, cron: '0 8 * * MON-FRI', catchUp: 'skip' },
  exec: { command: './report.sh', timeoutMs: 60_000 },
});
const { id: scheduleId } = await control.createSchedule(caller(), {
  ...{ ...timing, id: fork, cron: '* * * * *', catchUp: 'once' },
  exec: { argv: ['read'] },
});
for (;;) {
  const { lastRuns } = await control.getSchedule(caller(), { id: fork, scheduleId });
  if (lastRuns.some(({ endedAt }) => endedAt !== null)) break;
  await new Promise((resolve) => setTimeout(resolve, 500));
}
await control.updateSchedule(caller(), { id: fork, scheduleId, enabled: false });

await control.setSecret(caller(), { id: 'token', sealed: Buffer.from('sealed').toString('base64') });
const stored = { kind: 'store', store: 'vault', path: 'kv/data/agents/db', field: 'password' } as const;
await control.setSecret(caller(), { id: 'stored', source: stored });
const everywhere = { ports: 'all', methods: 'all', paths: ['/'], projects: 'all' } as const;
const scope = { ...everywhere, paths: ['/'], hosts: ['api.example.com', '*.example.org'] };
await control.setSecretBinding(caller(), {
  ...scope,
  id: 'api',
  secret: 'token',
  place: { in: 'bearer' },
  env: 'API_TOKEN',
});
const narrow = { ports: [8443], methods: ['GET'], projects: ['second'], env: null };
await control.setSecretBinding(caller(), {
  ...{ ...scope, ...narrow, id: 'narrow', secret: 'stored' },
  place: { in: 'header', name: 'X-Key', prefix: 'key ' },
});
const guarded = await control.createSandbox(caller(), { name: 'guarded', secrets: ['api'] });
const guardedId = guarded.id as SandboxId;
const missing = { binding: 'left', placeholder: 'space-secret-0123456789abcdefghjk', env: 'LEFT_TOKEN' };
await records.updateSandbox(guardedId, { missingSecrets: [missing] }, new Date(clock.now()));

await control.setWebhook(caller(), { url: 'https://hooks.example.com/space' });
const reviewer = { ...caller(), principal: { ...caller().principal, roles: ['reviewer' as const] } };
for (const [at, end] of (['approve', 'deny', 'wait'] as const).entries()) {
  gateway.hold({
    ...{ id: `ask ${at}`, sandboxId: guardedId, lifeId: newId('life', chance), rule: 'ask 1: api.example.com' },
    ...{ digest: `${at}`.repeat(64), ticket: null, heldUntil: new Date(clock.now() + 30_000).toISOString() },
    request: {
      ...{ method: 'POST', scheme: 'https', host: 'api.example.com', port: 443, url: '/pay', moreHeaders: 0 },
      headers: [{ name: 'authorization', value: '⟨masked, 40 characters⟩' }],
      body: { sizeBytes: 2, sha256: '0'.repeat(64), text: '{}', isWhole: true },
    },
  });
  const waiting = async () => (await control.listApprovals(reviewer, { limit: 10, state: 'pending' })).approvals[0];
  let asked = await waiting();
  for (; asked === undefined; asked = await waiting()) await sleep(100);
  const { id } = asked;
  if (end === 'approve') await control.approveRequest(reviewer, { id });
  if (end === 'deny') await control.denyRequest(reviewer, { id, reason: 'no' });
  while (end === 'approve' && (await control.getApproval(reviewer, { id })).state === 'approved') await sleep(100);
}
// What has ended is linked.
while ((await control.verifyAudit(caller(), {})).notLinked > 0) await sleep(100);
await control.createShare(caller(), { id: fork, port: 8000, name: 'demo', expiresInMs: 3_600_000 });
await control.close();

const address = onSocket(cluster.address);
const where = ['-h', address.socketDir, '-U', address.user, address.database];
const form = ['--data-only', '--column-inserts', '--no-owner', '--exclude-table-data=kysely*'];
const { user } = folder.options;
if (typeof user !== 'string') throw new Error('the cluster has a user with a name');
const asUser = ['-u', user, '--', 'pg_dump'];
const dump = execFileSync('runuser', [...asUser, ...form, ...where], { encoding: 'utf8', cwd: '/' });
writeFileSync(join(GOLDEN, `${Object.keys(MIGRATIONS).at(-1)}.sql`), dump);
await database.close();
await cluster.close();
await folder.remove();
