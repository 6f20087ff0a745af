/** What every adapter of the records does of history: what is doomed, what was not taken, what was forked. */
import {
  DEFAULT_ORGANISATION,
  DEFAULT_PROJECT,
  DEFAULT_VAULT,
  NO_LIMITS,
  newId,
  type SandboxId,
  type SnapshotId,
} from '@space/core';
import { seededChance } from '@space/testkit';
import { beforeEach, describe, expect, it } from 'vitest';
import type { RecordedSandbox, RecordedSnapshot, Records } from '../src/records.ts';
import { beginOf, endOf, newSandbox, newSnapshot, sure, tick } from './records-suite.ts';

const chance = seededChance(Date.now());

export function historySuite(name: string, open: () => Promise<Records>): void {
  describe(`history: ${name}`, () => {
    let records: Records;
    beforeEach(async () => {
      records = await open();
    });

    async function sandboxWith(...changes: readonly Partial<RecordedSnapshot>[]) {
      const fresh = newSandbox();
      await records.addSandboxes([fresh]);
      const sandbox = sure(await records.findSandbox(fresh.id));
      const points = changes.map((change) => newSnapshot(fresh.id, change));
      return { sandbox: sure(await records.endOperation(endOf(sandbox, { points }))), points };
    }
    const doomed = async (now = tick()) => (await records.history.doomed(10, now)).map(({ id }) => id);

    it('knows the newest point by the time of its sandbox, and the tip of each line', async () => {
      const { sandbox, points } = await sandboxWith(
        { timeMs: 10, generation: 1, takenAt: new Date(5_000) },
        { timeMs: 20, generation: 2, takenAt: new Date(4_000) },
        { timeMs: 30, generation: 2, takenAt: new Date(3_000), state: 'taking' },
      );
      const { history } = records;
      expect(await history.newest(sandbox.id)).toEqual(points[2]);
      expect(await history.tip(sandbox.id, 2)).toEqual(points[1]);
      expect(await history.tip(sandbox.id, 1)).toEqual(points[0]);
      expect(await history.tip(sandbox.id, 3)).toBeNull();
      const aging = await history.aging(sandbox.id);
      expect(aging.map(({ id }) => id)).toEqual(points.map(({ id }) => id));
      for (const [at, point] of points.entries()) expect(point).toMatchObject({ ...aging[at] });
    });

    it('finds what was taken at or before a time on the clock', async () => {
      const { sandbox, points } = await sandboxWith({ takenAt: new Date(1_000) }, { takenAt: new Date(2_000) });
      const at = (ms: number) => records.history.newestAt(sandbox.id, new Date(ms));
      expect(await at(999)).toBeNull();
      expect(await at(1_999)).toEqual(points[0]);
      expect(await at(2_000)).toEqual(points[1]);
    });

    it('finds what was not checked for longest, marks it, and tells of damage once', async () => {
      const at = (seconds: number) => new Date(seconds * 1000);
      const { sandbox, points } = await sandboxWith(
        { takenAt: at(1), checkedAt: at(9) },
        { takenAt: at(3) },
        { takenAt: at(2) },
        { takenAt: at(1), state: 'taking' },
      );
      const [first, second, third] = points as [RecordedSnapshot, RecordedSnapshot, RecordedSnapshot];
      const { history } = records;
      const ours = new Set(points.map(({ id }) => id));
      const unchecked = async (seconds: number) =>
        (await history.unchecked(at(seconds), 100)).map(({ id }) => id).filter((id) => ours.has(id));
      expect(await unchecked(9)).toEqual([third.id, second.id]);
      expect(await unchecked(10)).toEqual([third.id, second.id, first.id]);
      expect(await history.unchecked(at(10), 1)).toHaveLength(1);
      await history.checked(third.id, at(20));
      expect(await records.findSnapshot(third.id)).toEqual({ ...third, checkedAt: at(20) });
      for (const reason of ['rotten', 'again']) await history.spoilt(second.id, reason, tick());
      await history.spoilt('snp_none' as SnapshotId, 'not there', tick());
      expect(await records.findSnapshot(second.id)).toEqual({ ...second, state: 'bad', badReason: 'rotten' });
      expect(await unchecked(20)).toEqual([first.id]);
      const request = { after: null, projectId: sandbox.projectId, organisationId: null, limit: 1000 };
      const told = (await records.events.list(request)).filter(({ kind }) => kind === 'snapshot.bad');
      expect(told.filter(({ sandboxId }) => sandboxId === sandbox.id)).toMatchObject([
        { snapshotId: second.id, errorCode: 'snapshot_bad' },
      ]);
    });

    it('lists nothing of what is doomed, until it is removed', async () => {
      const { sandbox, points } = await sandboxWith({}, {}, {});
      const [first, second, third] = points as [RecordedSnapshot, RecordedSnapshot, RecordedSnapshot];
      await records.history.doom([first.id, second.id], tick());
      await records.history.doom([first.id], tick());
      expect(await records.snapshotsOf(sandbox.id)).toEqual([third]);
      expect(new Set(await doomed())).toEqual(new Set([first.id, second.id]));
      const ids = [first.id, third.id, newId('snapshot', chance)];
      expect(await records.history.known(ids)).toEqual(new Set([first.id, third.id]));
      await records.history.removed(first.id);
      expect(await doomed()).toEqual([second.id]);
    });

    it('comes back to what resisted, and to nothing else before that', async () => {
      const { points } = await sandboxWith({}, {});
      const [bad, good] = points as [RecordedSnapshot, RecordedSnapshot];
      await records.history.doom([bad.id, good.id], tick());
      const again = new Date(tick().getTime() + 1_000_000);
      await records.history.resisted(bad.id, again);
      expect(await doomed()).toEqual([good.id]);
      expect(await records.history.doomed(10, again)).toContainEqual({ id: bad.id, vault: DEFAULT_VAULT, attempts: 1 });
    });

    it('passes by those that something holds, however many they are', async () => {
      const { points } = await sandboxWith({ pinned: false }, { pinned: false }, { pinned: false });
      const [first, second, third] = points as [RecordedSnapshot, RecordedSnapshot, RecordedSnapshot];
      await records.history.doom([first.id, second.id, third.id], tick());
      const free = await records.history.doomed(1, tick(), { except: [first.id, second.id] });
      expect(free.map(({ id }) => id)).toEqual([third.id]);
    });

    it('dooms what an operation leaves in its end, once', async () => {
      const { sandbox, points } = await sandboxWith({}, { name: 'kept' });
      const begun = sure(await records.beginOperation(beginOf(sandbox, 'delete')));
      const end = endOf(begun, { settled: 'deleted', doomed: [points[0]?.id as SnapshotId] });
      await records.endOperation(end);
      await records.endOperation(end);
      expect(await doomed()).toEqual([points[0]?.id]);
      expect((await records.snapshotsOf(sandbox.id)).map((point) => point.name)).toEqual(['kept']);
    });

    it('dooms a point of which nothing is recorded', async () => {
      const id = newId('snapshot', chance);
      await records.history.doomUnknown(DEFAULT_VAULT, id, tick());
      await records.history.doomUnknown(DEFAULT_VAULT, id, tick());
      expect(await doomed()).toEqual([id]);
    });

    it('tells what was asked for and never completed, unless it still may be', async () => {
      const { sandbox, points } = await sandboxWith({ state: 'taking' }, {});
      const old = [points[0]?.id];
      expect(await records.history.abandoned(tick(), 10)).toEqual(old);
      expect(await records.history.abandoned(new Date(0), 10)).toEqual([]);
      await records.beginOperation(beginOf(sandbox, 'snapshot'));
      expect(await records.history.abandoned(tick(), 10)).toEqual([]);
    });

    it('tells when none was taken, and why, and it is an event', async () => {
      const { sandbox } = await sandboxWith();
      const { sandbox: other } = await sandboxWith();
      const [first, second] = [tick(), tick()];
      await records.history.noteSkip(sandbox, { at: first, code: 'over_budget' });
      await records.history.noteSkip(sandbox, { at: second, code: 'insufficient_space' });
      await records.history.noteSkip(other, { at: second, code: 'over_budget' });
      const skips = (after: Date | null, until: Date | null) => records.history.skips(sandbox, { after, until }, 10);
      expect(await skips(null, null)).toEqual([
        { at: second, code: 'insufficient_space' },
        { at: first, code: 'over_budget' },
      ]);
      expect(await skips(first, null)).toEqual([{ at: second, code: 'insufficient_space' }]);
      expect(await skips(null, first)).toEqual([{ at: first, code: 'over_budget' }]);
      const request = { after: null, projectId: DEFAULT_PROJECT, organisationId: null, limit: 100 };
      const told = (await records.events.list(request)).filter(({ kind }) => kind === 'snapshot.skipped');
      expect(told.map(({ errorCode }) => errorCode)).toEqual(['over_budget', 'insufficient_space', 'over_budget']);
    });

    it('knows what was forked from a point, and lives', async () => {
      const { sandbox, points } = await sandboxWith({}, {});
      const [point, bare] = points as [RecordedSnapshot, RecordedSnapshot];
      const forkedFrom = { sandboxId: sandbox.id, snapshotId: point.id };
      const forks = [newSandbox({ name: 'left', forkedFrom }), newSandbox({ forkedFrom })];
      await records.addSandboxes(forks);
      const gone = sure(await records.findSandbox(forks[1]?.id as SandboxId));
      await records.endOperation(endOf(gone, { settled: 'deleted' }));
      expect(await records.history.forksFrom(DEFAULT_PROJECT, [point.id, bare.id])).toEqual([
        { sandboxId: forks[0]?.id, name: 'left', from: point.id },
      ]);
      expect(await records.history.forksFrom(newId('project', chance), [point.id])).toEqual([]);
    });

    it('forgets old operations that nobody asked for', async () => {
      const { sandbox } = await sandboxWith();
      const begun = sure(await records.beginOperation(beginOf(sandbox, 'snapshot')));
      const ended: RecordedSandbox = sure(await records.endOperation(endOf(begun)));
      const inFlight = sure(await records.beginOperation(beginOf(ended, 'snapshot')));
      await records.history.dropUnasked(new Date(0));
      expect(await records.findOperation(sure(begun.operationId))).not.toBeNull();
      await records.history.dropUnasked(tick());
      expect(await records.findOperation(sure(begun.operationId))).toBeNull();
      expect(await records.findOperation(sure(inFlight.operationId))).not.toBeNull();
    });

    it('keeps the policy of a sandbox and of a project', async () => {
      const policy = { everyMs: 'off' as const, retention: [{ forMs: 1_000, everyMs: 0 }] };
      const fresh = newSandbox({ snapshotPolicy: policy });
      await records.addSandboxes([fresh]);
      expect(await records.findSandbox(fresh.id)).toMatchObject({ snapshotPolicy: policy });
      await records.updateSandbox(fresh.id, { snapshotPolicy: { budgetMs: 50 } }, tick());
      expect(await records.findSandbox(fresh.id)).toMatchObject({
        snapshotPolicy: { budgetMs: 50 },
        pauseAfterMs: 600_000,
      });
      const changed = await records.tenants.updateProject(DEFAULT_PROJECT, { snapshotPolicy: policy });
      expect(changed).toMatchObject({ id: DEFAULT_PROJECT, snapshotPolicy: policy });
      expect((await records.tenants.snapshotPolicies()).get(DEFAULT_PROJECT)).toEqual(policy);
      expect(await records.tenants.updateProject(newId('project', chance), { snapshotPolicy: {} })).toBeNull();
    });

    it('counts a snapshot from the time that it is named or pinned', async () => {
      const { points } = await sandboxWith({ pinned: false }, { pinned: false });
      const [one, two] = points as [RecordedSnapshot, RecordedSnapshot];
      await records.tenants.setLimits(DEFAULT_ORGANISATION, { ...NO_LIMITS, snapshots: 1 });
      expect(await records.updateSnapshot(one.id, { pinned: true })).toMatchObject({ pinned: true });
      const refused = { code: 'limit_reached' };
      await expect(records.updateSnapshot(two.id, { name: 'two' })).rejects.toMatchObject(refused);
      expect(await records.findSnapshot(two.id)).toEqual(two);
      expect(await records.updateSnapshot(one.id, { name: 'one', pinned: false })).toMatchObject({ name: 'one' });
      await records.tenants.setLimits(DEFAULT_ORGANISATION, NO_LIMITS);
    });
  });
}
