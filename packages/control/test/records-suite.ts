/** What every adapter of the records port does. `open` gives empty records; it is called once per test. */
import {
  DEFAULT_NETWORK_POLICY,
  DEFAULT_ORGANISATION,
  DEFAULT_PROJECT,
  DEFAULT_SIZE,
  DEFAULT_VAULT,
  type Limits,
  NO_CONSTRAINTS,
  NO_LIMITS,
  newId,
  type Operation,
  type OperationId,
  type SandboxId,
  type SnapshotId,
} from '@space/core';
import { seededChance } from '@space/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Asker } from '../src/audit-records.ts';
import type {
  NewSandbox,
  OperationBegin,
  OperationEnd,
  RecordedSandbox,
  RecordedSnapshot,
  Records,
} from '../src/records.ts';

const chance = seededChance(Date.now());
const sandboxId = () => newId('sandbox', chance);
const snapshotId = () => newId('snapshot', chance);
const operationId = () => newId('operation', chance);
let clockMs = 1_700_000_000_000;
export const tick = () => new Date(clockMs++);

export function newSandbox(changes: Partial<NewSandbox> = {}): NewSandbox {
  return {
    id: sandboxId(),
    projectId: DEFAULT_PROJECT,
    name: null,
    template: 'base',
    size: DEFAULT_SIZE,
    vault: DEFAULT_VAULT,
    env: { A: 'ä"\\' },
    metadata: { team: 'x' },
    pauseAfterMs: 600_000,
    wakeAt: null,
    expiry: null,
    snapshotPolicy: {},
    network: DEFAULT_NETWORK_POLICY,
    forkedFrom: null,
    arrival: null,
    operationId: operationId(),
    by: null,
    at: tick(),
    ...changes,
  };
}

function asker(requestId: string): Asker {
  return {
    auditId: newId('audit', chance),
    requestId,
    apiKeyId: newId('apiKey', chance),
    organisationId: DEFAULT_ORGANISATION,
    projectId: DEFAULT_PROJECT,
    action: 'sandbox.change',
    call: 'pauseSandbox',
  };
}

export function newSnapshot(owner: SandboxId, changes: Partial<RecordedSnapshot> = {}): RecordedSnapshot {
  return {
    id: snapshotId(),
    sandboxId: owner,
    projectId: DEFAULT_PROJECT,
    name: null,
    note: null,
    cause: 'snapshot',
    kind: 'memory',
    degraded: null,
    pinned: true,
    timeMs: clockMs,
    parent: null,
    generation: 1,
    template: 'base',
    size: DEFAULT_SIZE,
    vault: DEFAULT_VAULT,
    state: 'good',
    badReason: null,
    checkedAt: null,
    takenAt: tick(),
    timings: { stoppedMs: 1.5, frozenMs: 2, totalMs: 3 },
    changed: { diskBytes: 4096, memoryBytes: 8192 },
    ...changes,
  };
}

export function beginOf(
  seen: RecordedSandbox,
  operation: Operation,
  changes: Partial<OperationBegin> = {},
): OperationBegin {
  return { seen, operation, operationId: operationId(), input: {}, taking: null, by: null, at: tick(), ...changes };
}

export function endOf(begun: RecordedSandbox, changes: Partial<OperationEnd> = {}): OperationEnd {
  if (begun.operationId === null) throw new Error('nothing is in flight');
  return {
    sandboxId: begun.id,
    operationId: begun.operationId,
    epoch: begun.epoch,
    settled: 'running',
    outcome: 'ok',
    errorCode: null,
    timings: null,
    changes: {},
    points: [],
    dropped: [],
    doomed: [],
    at: tick(),
    ...changes,
  };
}

export function sure<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error('expected a value');
  return value;
}

export function recordsSuite(name: string, open: () => Promise<Records>): void {
  describe(`records: ${name}`, () => {
    let records: Records;
    beforeEach(async () => {
      records = await open();
    });

    async function running(changes: Partial<NewSandbox> = {}): Promise<RecordedSandbox> {
      const fresh = newSandbox(changes);
      await records.addSandboxes([fresh]);
      return sure(await records.endOperation(endOf(sure(await records.findSandbox(fresh.id)))));
    }

    /** As an operation that takes points leaves them. */
    async function withPoints(sandbox: RecordedSandbox, points: readonly RecordedSnapshot[], head?: SnapshotId) {
      const begun = sure(await records.beginOperation(beginOf(sandbox, 'snapshot')));
      const changes = head === undefined ? {} : { head };
      return sure(await records.endOperation(endOf(begun, { points, changes })));
    }

    it('keeps how the regular archives of a sandbox go, and tells it', async () => {
      const fresh = newSandbox();
      await records.addSandboxes([fresh]);
      expect(await records.findSandbox(fresh.id)).toMatchObject({ archiving: null });
      const at = tick();
      const last = { archive: 'a', location: 'default', snapshotId: snapshotId(), takenAt: at.toISOString() };
      const made = { last, triedAt: at.toISOString(), tookMs: 5, failure: null };
      const before = await records.events.latest();
      await records.history.noteArchiving(fresh, made, at);
      const failed = { ...made, failure: { code: 'archive_unavailable', count: 2 } as const };
      await records.history.noteArchiving(fresh, failed, at);
      expect((await records.findSandbox(fresh.id))?.archiving).toEqual(failed);
      const range = { after: before, projectId: DEFAULT_PROJECT, organisationId: null, limit: 100 };
      const told = (await records.events.list(range)).filter((one) => one.sandboxId === fresh.id);
      expect(told.map(({ kind, snapshotId: point, errorCode }) => [kind, point, errorCode])).toEqual([
        ['archive.made', last.snapshotId, null],
        ['archive.failed', null, 'archive_unavailable'],
      ]);
      await records.history.noteArchiving({ id: sandboxId(), projectId: DEFAULT_PROJECT }, made, at);
    });

    it('lets a sandbox arrive by a move where its id is not, or a tombstone of fewer moves; and names itself as no other', async () => {
      const source = { location: 'default', archive: 'a' };
      const arriving = (id: SandboxId, number: number) =>
        newSandbox({ id, arrival: { number, generation: 3, source } });
      const arrived = (begun: RecordedSandbox, moves: number) =>
        endOf(begun, { settled: 'paused', changes: { moves, moved: null } });
      const find = async (id: SandboxId) => (await records.findSandbox(id)) as RecordedSandbox;
      const first = arriving(sandboxId(), 2);
      await records.addSandboxes([first]);
      const begun = await find(first.id);
      expect(begun).toMatchObject({ settled: 'absent', operation: 'arrive', generation: 3, moves: 0, moved: null });
      expect(await records.findOperation(first.operationId)).toMatchObject({ input: { move: 2, source } });
      await expect(records.addSandboxes([arriving(first.id, 9)])).rejects.toMatchObject({ code: 'wrong_state' });
      await records.endOperation(arrived(begun, 2));
      const leaving = await records.beginOperation(beginOf(await find(first.id), 'move'));
      const moved = endOf(leaving as RecordedSandbox, { settled: 'moved', changes: { moves: 3, moved: source } });
      expect(await records.endOperation(moved)).toMatchObject({ settled: 'moved', moved: source, moves: 3 });
      const deleting = await records.beginOperation(beginOf(await find(first.id), 'delete'));
      await records.endOperation(endOf(deleting as RecordedSandbox, { settled: 'deleted' }));
      await expect(records.addSandboxes([arriving(first.id, 3)])).rejects.toMatchObject({ code: 'wrong_state' });
      await records.addSandboxes([arriving(first.id, 4)]);
      const again = await find(first.id);
      expect(again).toMatchObject({ settled: 'absent', operation: 'arrive', moves: 3, moved: null });
      expect(again.epoch).toBeGreaterThan((deleting as RecordedSandbox).epoch);
      await expect(records.addSandboxes([newSandbox({ id: first.id })])).rejects.toBeInstanceOf(Error);
      expect(await records.installation()).toMatch(/^[0-9a-f-]{36}$/);
      expect(await records.installation()).toBe(await records.installation());
    });

    it('records a sandbox with its create in flight and gives it back as it was', async () => {
      const fresh = newSandbox({ name: 'first' });
      await records.addSandboxes([fresh]);
      const found = sure(await records.findSandbox(fresh.id));
      expect(found).toMatchObject({ settled: 'absent', operation: 'create', epoch: 1, generation: 1, head: null });
      expect(found).toMatchObject({ name: 'first', env: fresh.env, metadata: fresh.metadata, size: fresh.size });
      expect(found.createdAt).toEqual(fresh.at);
      expect(await records.findOperation(fresh.operationId)).toMatchObject({ kind: 'create', epoch: 1, endedAt: null });
      expect((await records.findSandboxByName(DEFAULT_PROJECT, 'first'))?.id).toBe(fresh.id);
    });

    it('records several sandboxes or none', async () => {
      await running({ name: 'taken' });
      const batch = [newSandbox(), newSandbox({ name: 'taken' })];
      await expect(records.addSandboxes(batch)).rejects.toMatchObject({
        code: 'name_taken',
        facts: { name: expect.any(String) },
      });
      for (const { id } of batch) expect(await records.findSandbox(id)).toBeNull();
    });

    it('begins an operation once, whoever tries at the same time', async () => {
      const seen = await running();
      const tries = await Promise.all(Array.from({ length: 8 }, () => records.beginOperation(beginOf(seen, 'pause'))));
      const winners = tries.filter((one) => one !== null);
      expect(winners).toHaveLength(1);
      expect(winners[0]).toMatchObject({ operation: 'pause', epoch: seen.epoch + 1, settled: 'running' });
    });

    it('does not begin what was decided on an old state', async () => {
      const seen = await running();
      const begun = sure(await records.beginOperation(beginOf(seen, 'pause')));
      await records.endOperation(endOf(begun, { settled: 'paused' }));
      expect(await records.beginOperation(beginOf(seen, 'rewind'))).toBeNull();
      const crashed = await running();
      await records.settle({ seen: crashed, settled: 'crashed', changes: {}, at: tick() });
      expect(await records.beginOperation(beginOf(crashed, 'pause'))).toBeNull();
    });

    it('keeps how long the microVM that an operation started took to start', async () => {
      const paused = sure(
        await records.endOperation(
          endOf(sure(await records.beginOperation(beginOf(await running(), 'pause'))), { settled: 'paused' }),
        ),
      );
      const begun = sure(await records.beginOperation(beginOf(paused, 'resume')));
      const id = sure(begun.operationId);
      expect(await records.findOperation(id)).toMatchObject({ timings: null });
      const timings = { runningMs: 20.5, readyMs: 100 };
      await records.endOperation(endOf(begun, { timings }));
      expect(await records.findOperation(id)).toMatchObject({ timings, outcome: 'ok' });
    });

    it('ends an operation with what it changed, and forgets nothing of it', async () => {
      const seen = await running();
      const point = newSnapshot(seen.id, { state: 'taking', timings: null, cause: 'pause' });
      const begin = beginOf(seen, 'pause', { taking: point, input: { takes: point.id } });
      const begun = sure(await records.beginOperation(begin));
      expect(await records.findSnapshot(point.id)).toEqual(point);
      const done = { ...point, state: 'good' as const, timings: { stoppedMs: 0.25, frozenMs: 1, totalMs: 9 } };
      const after = await records.endOperation(
        endOf(begun, { settled: 'paused', changes: { head: point.id, generation: 2 }, points: [done] }),
      );
      expect(after).toMatchObject({
        settled: 'paused',
        operation: null,
        operationId: null,
        head: point.id,
        generation: 2,
      });
      expect(await records.findSnapshot(point.id)).toEqual(done);
      const journal = sure(await records.findOperation(begin.operationId));
      expect(journal).toMatchObject({ kind: 'pause', input: { takes: point.id }, outcome: 'ok', epoch: begun.epoch });
      expect(journal.endedAt).not.toBeNull();
    });

    it('refuses the end of what was superseded', async () => {
      const begun = sure(await records.beginOperation(beginOf(await running(), 'pause')));
      const deleting = sure(await records.beginOperation(beginOf(begun, 'delete')));
      expect(deleting.epoch).toBe(begun.epoch + 1);
      expect(await records.endOperation(endOf(begun, { settled: 'paused' }))).toBeNull();
      expect(await records.findOperation(sure(begun.operationId))).toMatchObject({ outcome: 'superseded' });
      expect(await records.findSandbox(begun.id)).toMatchObject({ operation: 'delete', settled: 'running' });
    });

    it('takes the repetition of an end that took place', async () => {
      const begun = sure(await records.beginOperation(beginOf(await running(), 'pause')));
      const end = endOf(begun, { settled: 'paused' });
      const first = sure(await records.endOperation(end));
      expect(await records.endOperation(end)).toEqual(first);
      // Once another operation has begun, it is none of the first's business.
      await records.beginOperation(beginOf(first, 'resume'));
      expect(await records.endOperation(end)).toBeNull();
    });

    it('keeps a tombstone without content, and frees the name', async () => {
      const seen = await running({ name: 'ghost' });
      const begun = sure(await records.beginOperation(beginOf(seen, 'delete')));
      await records.endOperation(endOf(begun, { settled: 'deleted' }));
      expect(await records.findSandbox(seen.id)).toMatchObject({
        settled: 'deleted',
        env: {},
        metadata: {},
        sealed: null,
      });
      expect(await records.findSandboxByName(DEFAULT_PROJECT, 'ghost')).toBeNull();
      expect((await records.allSandboxes()).map(({ id }) => id)).not.toContain(seen.id);
      expect((await running({ name: 'ghost' })).name).toBe('ghost');
    });

    it('changes when a sandbox is paused as idle, whatever is in flight, and of a deleted one nothing', async () => {
      const fresh = newSandbox();
      await records.addSandboxes([fresh]);
      expect(await records.findSandbox(fresh.id)).toMatchObject({ pauseAfterMs: 600_000 });
      const at = tick();
      const changed = await records.updateSandbox(fresh.id, { pauseAfterMs: null }, at);
      expect(changed).toMatchObject({ pauseAfterMs: null, operation: 'create', updatedAt: at });
      expect(await records.findSandbox(fresh.id)).toEqual(changed);
      const gone = { ...endOf(sure(changed)), settled: 'deleted' as const };
      await records.endOperation(gone);
      expect(await records.updateSandbox(fresh.id, { pauseAfterMs: 10_000 }, tick())).toBeNull();
      expect(await records.updateSandbox(sandboxId(), { pauseAfterMs: 10_000 }, tick())).toBeNull();
    });

    it('keeps which processes keep a sandbox awake, each once, until they are dropped or it is deleted', async () => {
      const { id } = await running();
      const [one, two] = [newId('process', chance), newId('process', chance)];
      await Promise.all([one, two, one].map((processId) => records.addKeeper(id, processId)));
      const keepers = async () => new Set((await records.findSandbox(id))?.keepers);
      expect(await keepers()).toEqual(new Set([one, two]));
      expect((await records.findSandbox(id))?.keepers).toHaveLength(2);
      await records.dropKeepers(id, [one, newId('process', chance)]);
      expect(await keepers()).toEqual(new Set([two]));
      await records.addKeeper(sandboxId(), one);
    });

    it('keeps why what runs cannot be paused, tells it once, and forgets it with the life or by a rewind', async () => {
      const failure = { code: 'agent_lost' as const, detail: 'silent', attempts: 3, since: tick() };
      const from = await records.events.latest();
      const { id } = await running();
      const noted = async () => sure(await records.findSandbox(id)).pauseFailure;
      expect(await noted()).toBeNull();
      const end = async (operation: Operation, changes: Partial<OperationEnd>) => {
        const begun = sure(await records.beginOperation(beginOf(sure(await records.findSandbox(id)), operation)));
        await records.endOperation(endOf(begun, changes));
      };
      await records.notePauseFailure(id, failure, tick());
      await records.notePauseFailure(id, { ...failure, attempts: 4 }, tick());
      await end('pause', { outcome: 'failed', errorCode: 'agent_lost' });
      await end('rewind', { outcome: 'failed', errorCode: 'agent_lost' });
      expect(await noted()).toEqual({ ...failure, attempts: 4 });
      await end('rewind', { settled: 'running' });
      expect(await noted()).toBeNull();
      await records.notePauseFailure(id, failure, tick());
      await end('pause', { settled: 'paused' });
      expect(await noted()).toBeNull();
      await records.notePauseFailure(id, failure, tick());
      expect(await noted()).toBeNull();
      await end('resume', { settled: 'running' });
      await records.notePauseFailure(id, failure, tick());
      const seen = sure(await records.findSandbox(id));
      await records.settle({ seen, settled: 'crashed', changes: {}, at: tick() });
      expect(await noted()).toBeNull();
      const request = { after: from, projectId: DEFAULT_PROJECT, organisationId: null, limit: 100 };
      const told = (await records.events.list(request)).filter(({ kind }) => kind === 'sandbox.not_paused');
      expect(told).toMatchObject([...Array(3)].map(() => ({ sandboxId: id, errorCode: 'agent_lost' })));
    });

    it('keeps a project that holds something unless it is forced, and then says that it is to be emptied', async () => {
      const projectId = newId('project', chance);
      const project = {
        id: projectId,
        organisationId: DEFAULT_ORGANISATION,
        name: 'full',
        snapshotPolicy: {},
        createdAt: tick(),
      };
      await records.tenants.addProject(project);
      const { id } = await running({ projectId });
      const remove = (force: boolean) =>
        records.tenants.deleteProject(DEFAULT_ORGANISATION, projectId, { force, at: tick() });
      expect(await remove(false)).toBe('not_empty');
      expect(await records.tenants.projectsToPurge()).toEqual([]);
      expect(await remove(true)).toBe('deleted');
      expect(await records.tenants.projectsToPurge()).toEqual([projectId]);
      const seen = sure(await records.findSandbox(id));
      const begun = sure(await records.beginOperation(beginOf(seen, 'delete')));
      await records.endOperation({ ...endOf(begun), settled: 'deleted' });
      expect(await records.tenants.projectsToPurge()).toEqual([]);
    });

    it('settles only what is at rest and as it was seen', async () => {
      const seen = await running();
      const crash = { detail: 'gone', at: tick() };
      const finding = { seen, settled: 'crashed' as const, changes: { crash }, at: tick() };
      expect(await records.settle(finding)).toBe(true);
      expect(await records.findSandbox(seen.id)).toMatchObject({ settled: 'crashed', crash });
      expect(await records.settle(finding)).toBe(false);
      const busy = await running();
      await records.beginOperation(beginOf(busy, 'pause'));
      expect(await records.settle({ ...finding, seen: busy })).toBe(false);
    });

    it('lists sandboxes newest first, in pages that survive changes', async () => {
      const made: RecordedSandbox[] = [];
      const at = tick();
      for (let i = 0; i < 5; i++) made.push(await running(i % 2 === 0 ? { at } : {}));
      const ours = new Set(made.map(({ id }) => id));
      const seen: SandboxId[] = [];
      let cursor: string | null = null;
      do {
        const page = await records.listSandboxes({
          projectId: DEFAULT_PROJECT,
          limit: 2,
          ...(cursor === null ? {} : { cursor }),
        });
        expect(page.items.length).toBeLessThanOrEqual(2);
        seen.push(...page.items.map(({ id }) => id));
        await running();
        cursor = page.next;
      } while (cursor !== null);
      expect(seen.filter((id) => ours.has(id))).toHaveLength(5);
      expect(new Set(seen).size).toBe(seen.length);
    });

    it('lists by status, as users see it', async () => {
      const pausing = sure(await records.beginOperation(beginOf(await running(), 'pause')));
      const snapshotting = sure(await records.beginOperation(beginOf(await running(), 'snapshot')));
      const idsOf = async (status: 'pausing' | 'running') =>
        (await records.listSandboxes({ projectId: DEFAULT_PROJECT, limit: 100, status })).items.map(({ id }) => id);
      expect(await idsOf('pausing')).toEqual([pausing.id]);
      expect(await idsOf('running')).toEqual([snapshotting.id]);
    });

    it('lists by when runs began, either way, by what is said of them, from wherever the last page ended', async () => {
      const [early, late] = [tick(), tick()];
      const made: RecordedSandbox[] = [];
      for (const [at, team] of [
        [early, 'a'],
        [late, 'a'],
        [late, 'b'],
        [early, 'a'],
      ] as const) {
        made.push(await running({ at, metadata: { team, 'with "quotes"': `it's ${team}` } }));
      }
      const idle = sure(await records.beginOperation(beginOf(await running({ at: late }), 'pause')));
      const asked = { projectId: DEFAULT_PROJECT, statuses: ['running'] as const, metadata: {} };
      const ids = (found: readonly RecordedSandbox[]) => found.map(({ id }) => id);
      for (const order of ['asc', 'desc'] as const) {
        const whole = ids(await records.faces.listByRun({ ...asked, order, limit: 100 }));
        expect(whole).not.toContain(idle.id);
        expect(new Set(whole)).toEqual(new Set(ids(made)));
        const seen: SandboxId[] = [];
        let after: { readonly at: Date; readonly id: SandboxId } | undefined;
        for (;;) {
          const page = await records.faces.listByRun({ ...asked, order, limit: 1, ...(after && { after }) });
          const [one] = page;
          if (one === undefined) break;
          seen.push(one.id);
          after = { at: one.startedAt ?? one.createdAt, id: one.id };
        }
        expect(seen).toEqual(whole);
        const began = whole.map((id) => sure(made.find((one) => one.id === id)).startedAt?.getTime() ?? 0);
        expect(began).toEqual(began.toSorted((a, b) => (order === 'asc' ? a - b : b - a)));
      }
      const some = { ...asked, metadata: { team: 'a', 'with "quotes"': "it's a" } };
      expect(await records.faces.countByRun(some)).toBe(3);
      expect(await records.faces.countByRun({ ...some, template: 'other' })).toBe(0);
      expect(await records.faces.countByRun({ ...asked, statuses: ['pausing', 'running'] })).toBe(5);
      const latest = made.map(({ startedAt }) => startedAt?.getTime() ?? 0).toSorted((a, b) => b - a)[0] ?? 0;
      const from = { ...asked, startedFrom: new Date(latest) };
      expect(await records.faces.countByRun(from)).toBe(
        made.filter((one) => one.startedAt?.getTime() === latest).length,
      );
    });

    it('says in one go who may come into a sandbox by its token, and whose tokens there are', async () => {
      const sandbox = await running();
      expect(await records.faces.findReach(sandbox.id)).toEqual({
        sandbox,
        holder: null,
        headKind: null,
        organisationId: DEFAULT_ORGANISATION,
      });
      expect(await records.faces.findReach(sandboxId())).toBeNull();
      const key = {
        id: newId('apiKey', chance),
        organisationId: DEFAULT_ORGANISATION,
        projectId: null,
        name: null,
        roles: ['developer' as const],
        prefix: 'space_x',
        sha256: chance.bytes(32),
        createdAt: tick(),
        revokedAt: null,
      };
      await records.tenants.addApiKey(key);
      const access = { token: 'spacebox_x', keyId: key.id };
      await records.updateSandbox(sandbox.id, { access }, tick());
      const { id, organisationId, projectId, roles } = key;
      expect(await records.faces.findReach(sandbox.id)).toMatchObject({
        sandbox: { id: sandbox.id, access },
        holder: { operator: true, key: { id, organisationId, projectId, roles } },
      });
      await running();
      expect(await records.faces.listTokens(10)).toEqual([{ id: sandbox.id, token: 'spacebox_x' }]);
      expect(await records.faces.listTokens(0)).toEqual([]);
      const another = { ...key, id: newId('apiKey', chance), sha256: chance.bytes(32), roles: ['admin' as const] };
      await records.tenants.addApiKey(another);
      await records.tenants.revokeApiKey(DEFAULT_ORGANISATION, key.id, tick());
      expect(await records.faces.findReach(sandbox.id)).toMatchObject({ holder: null });
    });

    it('refuses a cursor that is none', async () => {
      for (const cursor of ['', 'nonsense', Buffer.from('1 ; drop').toString('base64url')]) {
        await expect(records.listSandboxes({ projectId: DEFAULT_PROJECT, limit: 1, cursor })).rejects.toMatchObject({
          code: 'bad_request',
        });
      }
    });

    it('lists a timeline without what is being taken, and the named snapshots of all', async () => {
      const sandbox = await running();
      const [a, b, taking] = [
        newSnapshot(sandbox.id),
        newSnapshot(sandbox.id, { name: 'kept' }),
        newSnapshot(sandbox.id, { state: 'taking' }),
      ] as const;
      await withPoints(sandbox, [a, b, taking]);
      const timeline = await records.listSnapshots({ limit: 10, sandboxId: sandbox.id });
      expect(timeline.items).toEqual([b, a]);
      expect((await records.listSnapshots({ limit: 10, projectId: DEFAULT_PROJECT })).items).toEqual([b]);
      expect(await records.snapshotsOf(sandbox.id)).toEqual([a, b, taking]);
      expect(await records.findSnapshotByName(DEFAULT_PROJECT, 'kept')).toEqual(b);
    });

    it('gives a snapshot name once', async () => {
      const sandbox = await running();
      const [named, other] = [newSnapshot(sandbox.id, { name: 'one' }), newSnapshot(sandbox.id)] as const;
      const after = await withPoints(sandbox, [named, other]);
      await expect(records.updateSnapshot(other.id, { name: 'one' })).rejects.toMatchObject({
        code: 'name_taken',
        facts: { name: expect.any(String) },
      });
      const begin = beginOf(after, 'snapshot', { taking: newSnapshot(sandbox.id, { name: 'one', state: 'taking' }) });
      await expect(records.beginOperation(begin)).rejects.toMatchObject({
        code: 'name_taken',
        facts: { name: expect.any(String) },
      });
      expect(await records.findSandbox(sandbox.id)).toMatchObject({ operation: null, epoch: after.epoch });
      expect(await records.updateSnapshot(other.id, { name: 'two', note: 'n', state: 'bad', badReason: 'r' })).toEqual(
        await records.findSnapshot(other.id),
      );
      expect(await records.findSnapshot(other.id)).toMatchObject({
        name: 'two',
        note: 'n',
        state: 'bad',
        badReason: 'r',
      });
      expect(await records.updateSnapshot(snapshotId(), { note: 'n' })).toBeNull();
    });

    it('keeps the timeline connected when points go', async () => {
      const sandbox = await running();
      const a = newSnapshot(sandbox.id);
      const b = newSnapshot(sandbox.id, { parent: a.id });
      const c = newSnapshot(sandbox.id, { parent: b.id });
      const d = newSnapshot(sandbox.id, { parent: c.id });
      await withPoints(sandbox, [a, b, c, d], c.id);
      const fork = await running({ forkedFrom: { sandboxId: sandbox.id, snapshotId: c.id } });
      expect(fork).toMatchObject({ origin: c.id, head: c.id });
      await records.history.doom([c.id, b.id], tick());
      await records.history.doom([c.id], tick());
      expect(await records.findSnapshot(d.id)).toMatchObject({ parent: a.id });
      const forkedFrom = { sandboxId: sandbox.id, snapshotId: c.id };
      expect(await records.findSandbox(fork.id)).toMatchObject({ origin: a.id, head: a.id, forkedFrom });
      expect(await records.findSandbox(sandbox.id)).toMatchObject({ head: a.id });
    });

    it('answers a ping', async () => {
      await expect(records.ping()).resolves.toBeUndefined();
    });

    it('gives a name once in a project, and again in another', async () => {
      const other = newId('project', chance);
      await records.tenants.addProject({
        id: other,
        organisationId: DEFAULT_ORGANISATION,
        name: 'other',
        snapshotPolicy: {},
        createdAt: tick(),
      });
      const here = await running({ name: 'one' });
      const there = await running({ name: 'one', projectId: other });
      await expect(running({ name: 'one', projectId: other })).rejects.toMatchObject({
        code: 'name_taken',
        facts: { name: expect.any(String) },
      });
      expect((await records.findSandboxByName(other, 'one'))?.id).toBe(there.id);
      expect((await records.findSandboxByName(DEFAULT_PROJECT, 'one'))?.id).toBe(here.id);
      const [a, b] = [
        newSnapshot(here.id, { name: 'point' }),
        newSnapshot(there.id, { name: 'point', projectId: other }),
      ] as const;
      await withPoints(here, [a]);
      await withPoints(there, [b]);
      expect(await records.findSnapshotByName(other, 'point')).toEqual(b);
      expect((await records.listSandboxes({ projectId: other, limit: 10 })).items.map(({ id }) => id)).toEqual([
        there.id,
      ]);
      expect((await records.listSnapshots({ projectId: other, limit: 10 })).items).toEqual([b]);
    });

    it('knows which operations a request began', async () => {
      const by = asker('req_1');
      const fresh = await running({ by });
      const begun = sure(await records.beginOperation(beginOf(fresh, 'pause', { by })));
      await records.endOperation(endOf(begun, { settled: 'paused' }));
      await running({ by: asker('req_2') });
      const shown = { requestId: by.requestId, apiKeyId: by.apiKeyId };
      const found = await records.operationsOf('req_1');
      expect(found).toMatchObject([
        { kind: 'create', sandboxId: fresh.id, by: shown, outcome: 'ok' },
        { kind: 'pause', sandboxId: fresh.id, by: shown, outcome: 'ok' },
      ]);
    });

    it('lists operations of a project, of a sandbox and of a request, newest first', async () => {
      const by = asker('req_3');
      const one = await running({ by });
      const two = await running();
      await records.beginOperation(beginOf(one, 'pause'));
      const list = async (narrow: { sandboxId?: SandboxId; requestId?: string }) =>
        (await records.listOperations({ projectId: DEFAULT_PROJECT, limit: 10, ...narrow })).items;
      expect((await list({})).map(({ kind, sandboxId }) => [kind, sandboxId])).toEqual([
        ['pause', one.id],
        ['create', two.id],
        ['create', one.id],
      ]);
      expect((await list({ sandboxId: one.id })).map(({ kind }) => kind)).toEqual(['pause', 'create']);
      expect((await list({ requestId: 'req_3' })).map(({ sandboxId }) => sandboxId)).toEqual([one.id]);
      const other = newId('project', chance);
      expect((await records.listOperations({ projectId: other, limit: 10 })).items).toEqual([]);
    });

    it('records who asked together with the operation, once for a request, with its outcome', async () => {
      const list = async () =>
        (await records.audit.list({ organisationId: DEFAULT_ORGANISATION, limit: 10 })).items.map(
          ({ requestId, operationId, outcome, target }) => ({ requestId, operationId, outcome, target }),
        );
      const sandbox = await running();
      const by = asker('req_4');
      const begun = sure(await records.beginOperation(beginOf(sandbox, 'pause', { by })));
      const target = sandbox.id;
      const entry = { requestId: 'req_4', operationId: begun.operationId, target };
      expect(await list()).toEqual([{ ...entry, outcome: 'running' }]);
      await records.audit.append({ ...by, target: 'other', outcome: 'ok', at: tick() }, 'now');
      await records.endOperation(endOf(begun, { outcome: 'failed', errorCode: 'snapshot_failed' }));
      expect(await list()).toEqual([{ ...entry, outcome: 'snapshot_failed' }]);
      await records.audit.append({ ...asker('req_5'), target: null, outcome: 'forbidden', at: tick() }, 'now');
      expect((await list())[0]).toEqual({ requestId: 'req_5', operationId: null, outcome: 'forbidden', target: null });
      // An operation that did not begin leaves no trace.
      expect(await records.beginOperation(beginOf(sandbox, 'pause', { by: asker('req_6') }))).toBeNull();
      expect(await list()).toHaveLength(2);
      while ((await records.chain.linkCalls(100, tick())) > 0);
      await records.chain.drop('calls', { before: tick(), kept: 100, limit: 100 });
      expect(await list()).toEqual([]);
    });

    it('records a call before its end, whoever tells that: itself, its operation, or the next process', async () => {
      const list = async () =>
        (await records.audit.list({ organisationId: DEFAULT_ORGANISATION, limit: 10 })).items.map(
          ({ requestId, operationId, outcome, target }) => ({ requestId, operationId, outcome, target }),
        );
      const [ends, operates, dies, works] = ['req_a', 'req_b', 'req_c', 'req_d'].map(asker) as [
        Asker,
        Asker,
        Asker,
        Asker,
      ];
      for (const by of [ends, operates, dies, works]) {
        await records.audit.append({ ...by, target: null, outcome: null, at: tick() }, 'next');
      }
      expect((await list()).map(({ outcome }) => outcome)).toEqual(Array(4).fill('running'));
      await records.audit.complete(ends.auditId, { target: 'what', outcome: 'ok' });
      const sandbox = await running();
      const begun = sure(await records.beginOperation(beginOf(sandbox, 'pause', { by: operates })));
      // What the operation tells is not told again.
      await records.audit.complete(operates.auditId, { target: 'other', outcome: 'internal' });
      await records.audit.closeLeft(tick(), [works.auditId]);
      const expected = [
        { requestId: 'req_d', operationId: null, outcome: 'running', target: null },
        { requestId: 'req_c', operationId: null, outcome: 'unknown', target: null },
        { requestId: 'req_b', operationId: begun.operationId, outcome: 'running', target: sandbox.id },
        { requestId: 'req_a', operationId: null, outcome: 'ok', target: 'what' },
      ];
      expect(await list()).toEqual(expected);
      // One that was taken for dead and was not tells its end all the same.
      await records.audit.complete(dies.auditId, { target: 'it', outcome: 'ok' });
      expect((await list())[1]).toEqual({ requestId: 'req_c', operationId: null, outcome: 'ok', target: 'it' });
      await records.audit.closeLeft(new Date(0), []);
      expect((await list())[0]).toEqual(expected[0]);
    });

    describe('limits of an organisation', () => {
      const limited = (limits: Partial<Limits>) =>
        records.tenants.setLimits(DEFAULT_ORGANISATION, { ...NO_LIMITS, ...limits });
      const usage = () => records.tenants.usage(DEFAULT_ORGANISATION);
      const refused = (limit: string, max: number, wouldBe: number) => ({
        code: 'limit_reached',
        facts: { limit, max, wouldBe },
      });
      const memory = DEFAULT_SIZE.memoryMib;
      afterEach(() => limited({}));

      it('count what is there, and what is about to be', async () => {
        expect(await usage()).toEqual({ sandboxes: 0, running: 0, snapshots: 0, memoryMib: 0 });
        const fresh = newSandbox();
        await records.addSandboxes([fresh]);
        expect(await usage()).toEqual({ sandboxes: 1, running: 1, snapshots: 0, memoryMib: memory });
        const begun = sure(await records.findSandbox(fresh.id));
        const sandbox = await withPoints(sure(await records.endOperation(endOf(begun))), [
          newSnapshot(fresh.id),
          newSnapshot(fresh.id, { pinned: false }),
        ]);
        const pausing = sure(await records.beginOperation(beginOf(sandbox, 'pause')));
        expect(await usage()).toMatchObject({ running: 1, snapshots: 1 });
        const paused = sure(await records.endOperation(endOf(pausing, { settled: 'paused' })));
        expect(await usage()).toEqual({ sandboxes: 1, running: 0, snapshots: 1, memoryMib: 0 });
        const deleting = sure(await records.beginOperation(beginOf(paused, 'delete')));
        await records.endOperation(endOf(deleting, { settled: 'deleted' }));
        expect(await usage()).toMatchObject({ sandboxes: 0, running: 0 });
      });

      it('hold for several at once, all or none, and for whoever comes at the same time', async () => {
        await limited({ sandboxes: 3 });
        await expect(records.addSandboxes([1, 2, 3, 4].map(() => newSandbox()))).rejects.toMatchObject(
          refused('sandboxes', 3, 4),
        );
        expect((await usage()).sandboxes).toBe(0);
        const tries = await Promise.allSettled(Array.from({ length: 8 }, () => records.addSandboxes([newSandbox()])));
        expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
        expect((await usage()).sandboxes).toBe(3);
      });

      it('refuse a start and a snapshot, and change nothing by it', async () => {
        const one = await running();
        const paused = sure(
          await records.endOperation(
            endOf(sure(await records.beginOperation(beginOf(await running(), 'pause'))), { settled: 'paused' }),
          ),
        );
        await limited({ running: 1 });
        await expect(records.beginOperation(beginOf(paused, 'resume'))).rejects.toMatchObject(refused('running', 1, 2));
        await limited({ memoryMib: memory });
        await expect(records.beginOperation(beginOf(paused, 'rewind'))).rejects.toMatchObject(
          refused('memoryMib', memory, 2 * memory),
        );
        await limited({ snapshots: 0 });
        const taking = newSnapshot(one.id, { state: 'taking' });
        await expect(records.beginOperation(beginOf(one, 'snapshot', { taking }))).rejects.toMatchObject(
          refused('snapshots', 0, 1),
        );
        expect(await records.findSandbox(paused.id)).toEqual(paused);
        expect(await records.findSandbox(one.id)).toEqual(one);
      });

      it('below what is held stop neither a pause nor a delete nor a rewind of what runs', async () => {
        const [one, two, three] = [await running(), await running(), await running()] as const;
        await limited({ sandboxes: 0, running: 0, snapshots: 0, memoryMib: 0 });
        const taking = newSnapshot(one.id, { state: 'taking', pinned: false });
        expect(await records.beginOperation(beginOf(one, 'pause', { taking }))).not.toBeNull();
        expect(await records.beginOperation(beginOf(two, 'delete'))).not.toBeNull();
        expect(await records.beginOperation(beginOf(three, 'rewind'))).not.toBeNull();
      });

      it('are those of one organisation', async () => {
        const organisationId = newId('organisation', chance);
        const project = {
          id: newId('project', chance),
          organisationId,
          name: 'default',
          snapshotPolicy: {},
          createdAt: tick(),
        };
        const key = {
          id: newId('apiKey', chance),
          organisationId,
          projectId: null,
          name: null,
          roles: ['admin' as const],
        };
        const rest = { prefix: 'space_ab', sha256: chance.bytes(32), createdAt: tick(), revokedAt: null };
        const organisation = {
          id: organisationId,
          name: 'o',
          operator: false,
          limits: NO_LIMITS,
          network: NO_CONSTRAINTS,
          createdAt: tick(),
        };
        await records.tenants.addOrganisation(organisation, project, { ...key, ...rest });
        await records.tenants.setLimits(organisationId, { ...NO_LIMITS, sandboxes: 1 });
        await running();
        await running();
        await running({ projectId: project.id });
        await expect(running({ projectId: project.id })).rejects.toMatchObject(refused('sandboxes', 1, 2));
        expect((await records.tenants.findOrganisation(organisationId))?.limits.sandboxes).toBe(1);
      });
    });

    describe('events', () => {
      const list = (after: string | null = null, projectId = DEFAULT_PROJECT, limit = 100) =>
        records.events.list({ after, projectId, organisationId: DEFAULT_ORGANISATION, limit });
      /** All that becomes visible: what was committed may be shown a moment later, while other transactions run. */
      const kinds = async (after: string | null = null) => (await list(after)).map(({ kind }) => kind);

      it('tell what happened, in order, once, from any cursor on', async () => {
        const sandbox = await running();
        const taking = newSnapshot(sandbox.id, { state: 'taking' });
        const begun = sure(await records.beginOperation(beginOf(sandbox, 'pause', { taking })));
        const good = { ...taking, state: 'good' as const };
        const paused = sure(await records.endOperation(endOf(begun, { settled: 'paused', points: [good] })));
        await records.history.doom([taking.id], tick());
        await records.settle({ seen: paused, settled: 'crashed', changes: {}, at: tick() });
        const key = { id: newId('apiKey', chance), organisationId: DEFAULT_ORGANISATION, projectId: null, name: null };
        const rest = {
          roles: ['viewer' as const],
          prefix: 'p',
          sha256: chance.bytes(32),
          createdAt: tick(),
          revokedAt: null,
        };
        await records.tenants.addApiKey({ ...key, ...rest });
        await records.tenants.revokeApiKey(DEFAULT_ORGANISATION, key.id, tick());
        const all = [
          'sandbox.created',
          'sandbox.running',
          'operation.ended',
          'snapshot.taken',
          'sandbox.paused',
          'operation.ended',
          'snapshot.deleted',
          'sandbox.crashed',
          'key.revoked',
        ];
        expect(await kinds()).toEqual(all);
        const events = await list();
        for (const [index, { cursor }] of events.entries()) expect(await kinds(cursor)).toEqual(all.slice(index + 1));
        expect((await list(null, DEFAULT_PROJECT, 2)).map(({ cursor }) => cursor)).toEqual(
          events.slice(0, 2).map(({ cursor }) => cursor),
        );
        expect(events[5]).toMatchObject({ operationId: begun.operationId, operation: 'pause', outcome: 'ok' });
        // A project sees its own; who may not see keys is told of none.
        expect((await list(null, newId('project', chance))).map(({ kind }) => kind)).toEqual(['key.revoked']);
        const project = { after: null, projectId: DEFAULT_PROJECT, organisationId: null, limit: 100 };
        expect((await records.events.list(project)).map(({ kind }) => kind)).toEqual(all.slice(0, -1));
      });

      it('from now on are those that nobody has written yet', async () => {
        const sandbox = await running();
        const now = await records.events.latest();
        expect(await kinds(now)).toEqual([]);
        const begun = sure(await records.beginOperation(beginOf(sandbox, 'pause')));
        await records.endOperation(endOf(begun, { settled: 'paused' }));
        expect(await kinds(now)).toEqual(['sandbox.paused', 'operation.ended']);
        await records.events.dropBefore(tick());
        await expect(list(now)).rejects.toMatchObject({ code: 'events_lost' });
        expect(await kinds(await records.events.latest())).toEqual([]);
      });

      it('say nothing of what did not happen', async () => {
        const fresh = newSandbox();
        await records.addSandboxes([fresh]);
        const begun = sure(await records.findSandbox(fresh.id));
        await records.endOperation(
          endOf(begun, { settled: 'deleted', outcome: 'failed', errorCode: 'restore_failed' }),
        );
        await records.endOperation(
          endOf(begun, { settled: 'deleted', outcome: 'failed', errorCode: 'restore_failed' }),
        );
        expect(await kinds()).toEqual(['operation.ended']);
      });

      it('are dropped by age, and then an old cursor is refused and not passed over in silence', async () => {
        await running();
        const [first, , third] = await list();
        await records.events.dropBefore(tick());
        expect(await list()).toEqual([]);
        await expect(list(sure(first).cursor)).rejects.toMatchObject({ code: 'events_lost' });
        await running();
        expect(await kinds(sure(third).cursor)).toHaveLength(3);
      });

      it('a cursor ahead of all that was ever written is refused, and not waited on in silence', async () => {
        await running();
        for (const ahead of ['999999999999999999-5', `${'9'.repeat(18)}-${'9'.repeat(18)}`])
          await expect(list(ahead)).rejects.toMatchObject({ code: 'events_lost' });
        // The newest place of all is none of those, also while others write.
        const writing = Array.from({ length: 8 }, () => running());
        for (let times = 0; times < 8; times++) expect(await list(await records.events.latest())).toBeInstanceOf(Array);
        await Promise.all(writing);
        expect(await kinds(sure((await list()).at(-1)).cursor)).toEqual([]);
      });

      it('are missed by nobody who follows while many write', async () => {
        const made: string[] = [];
        let writing = true;
        const seen: string[] = [];
        const follow = async () => {
          let after: string | null = null;
          for (let last = false; ; ) {
            const piece: Awaited<ReturnType<typeof list>> = await list(after, DEFAULT_PROJECT, 7);
            after = piece.at(-1)?.cursor ?? after;
            seen.push(...piece.filter(({ kind }) => kind === 'sandbox.created').map(({ sandboxId: id }) => `${id}`));
            if (piece.length > 0) continue;
            if (last) return;
            last = !writing;
          }
        };
        const write = async () => {
          for (let i = 0; i < 12; i++) made.push((await running()).id);
        };
        const following = follow();
        await Promise.all(Array.from({ length: 5 }, write));
        writing = false;
        await following;
        expect(seen.toSorted()).toEqual(made.toSorted());
      });
    });

    it('finds nothing by ids that were never used', async () => {
      expect(await records.findSandbox(sandboxId())).toBeNull();
      expect(await records.findSnapshot(snapshotId())).toBeNull();
      expect(await records.findOperation(operationId() as OperationId)).toBeNull();
      expect(await records.findSandboxByName(DEFAULT_PROJECT, 'nobody')).toBeNull();
    });
  });
}
