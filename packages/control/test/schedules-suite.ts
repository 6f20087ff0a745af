/** What every adapter of the records does about set times: schedules, their runs, and `wakeAt`. */
import {
  DEFAULT_NETWORK_POLICY,
  DEFAULT_PROJECT,
  DEFAULT_SIZE,
  DEFAULT_VAULT,
  type Expiry,
  newId,
  type SandboxId,
  type Settled,
} from '@space/core';
import { seededChance } from '@space/testkit';
import { beforeEach, describe, expect, it } from 'vitest';
import type { NewSandbox, Records } from '../src/records.ts';
import { KEPT_RUNS, type RecordedRun, type RecordedSchedule } from '../src/schedule-records.ts';

const chance = seededChance(Date.now());
const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1_000);

function newSchedule(sandboxId: SandboxId, changes: Partial<RecordedSchedule> = {}): RecordedSchedule {
  return {
    id: newId('schedule', chance),
    projectId: DEFAULT_PROJECT,
    sandboxId,
    cron: '@daily',
    timeZone: 'Europe/Berlin',
    exec: { argv: ['true', 'ä"'], user: 'root' },
    catchUp: 'once',
    enabled: true,
    nextRunAt: at(10),
    createdAt: at(0),
    updatedAt: at(0),
    ...changes,
  };
}

function newRun({ id: scheduleId, sandboxId, nextRunAt }: RecordedSchedule, seconds = 11): RecordedRun {
  return {
    id: newId('run', chance),
    scheduleId,
    sandboxId,
    dueAt: nextRunAt ?? at(0),
    claimedAt: at(seconds),
    processId: newId('process', chance),
    startedAt: null,
    endedAt: null,
    outcome: null,
    end: null,
    errorCode: null,
  };
}

export function schedulesSuite(suite: string, open: () => Promise<Records>): void {
  describe(`set times: ${suite}`, () => {
    let records: Records;
    let sandboxId: SandboxId;
    beforeEach(async () => {
      records = await open();
      sandboxId = await sandbox(null);
    });

    async function sandbox(
      wakeAt: Date | null,
      expiry: Expiry | null = null,
      more: Partial<NewSandbox> = {},
    ): Promise<SandboxId> {
      const id = newId('sandbox', chance);
      const fields = { name: null, template: 'base', size: DEFAULT_SIZE, vault: DEFAULT_VAULT, env: {}, metadata: {} };
      const operationId = newId('operation', chance);
      const policies = { pauseAfterMs: null, wakeAt, expiry, snapshotPolicy: {}, network: DEFAULT_NETWORK_POLICY };
      const rest = { projectId: DEFAULT_PROJECT, ...policies, forkedFrom: null, arrival: null, by: null, at: at(0) };
      await records.addSandboxes([{ id, ...fields, ...rest, operationId, ...more }]);
      return id;
    }

    async function end(id: SandboxId, settled: Settled, when: Date) {
      const now = await records.findSandbox(id);
      if (now?.operationId == null) throw new Error('nothing is in flight');
      const rest = { errorCode: null, timings: null, changes: {}, points: [], dropped: [], doomed: [], at: when };
      return records.endOperation({
        sandboxId: id,
        operationId: now.operationId,
        epoch: now.epoch,
        settled,
        outcome: 'ok',
        ...rest,
      });
    }

    async function add(changes: Partial<RecordedSchedule> = {}): Promise<RecordedSchedule> {
      const schedule = newSchedule(sandboxId, changes);
      await records.schedules.add(schedule, 100);
      return schedule;
    }

    it('keeps a schedule as it was given, and as it was changed', async () => {
      const schedule = await add();
      expect(await records.schedules.find(sandboxId, schedule.id)).toEqual(schedule);
      expect(await records.schedules.find(newId('sandbox', chance), schedule.id)).toBeNull();
      const changes = { exec: null, enabled: false, nextRunAt: null, catchUp: 'skip' as const };
      const after = { ...schedule, ...changes, updatedAt: at(5) };
      expect(await records.schedules.update(schedule.id, changes, at(5))).toEqual(after);
      expect(await records.schedules.list(sandboxId)).toEqual([after]);
      expect(await records.schedules.remove(schedule.id)).toBe(true);
      expect(await records.schedules.remove(schedule.id)).toBe(false);
      expect(await records.schedules.update(schedule.id, changes, at(6))).toBeNull();
    });

    it('adds no more than so many, whoever adds at the same time, and none to what is deleted', async () => {
      const tries = Array.from({ length: 6 }, () => records.schedules.add(newSchedule(sandboxId), 4));
      const ends = await Promise.allSettled(tries);
      expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(4);
      expect(ends.filter((one) => one.status === 'rejected' && one.reason.code === 'limit_reached')).toHaveLength(2);
      await end(sandboxId, 'deleted', at(1));
      await expect(records.schedules.add(newSchedule(sandboxId), 100)).rejects.toMatchObject({ code: 'not_found' });
    });

    it('finds what is due, those that wait longest first', async () => {
      const late = await add({ nextRunAt: at(20) });
      const early = await add({ nextRunAt: at(10) });
      await add({ enabled: false, nextRunAt: null });
      const due = async (seconds: number) => (await records.schedules.due(at(seconds), 10)).map(({ id }) => id);
      expect(await due(9)).toEqual([]);
      expect(await due(10)).toEqual([early.id]);
      expect(await due(20)).toEqual([early.id, late.id]);
      expect(await records.schedules.due(at(20), 1)).toHaveLength(1);
    });

    it('lets one run claim a time, whoever tries at the same moment', async () => {
      const schedule = await add();
      const runs = Array.from({ length: 8 }, () => newRun(schedule));
      const claims = await Promise.all(runs.map((run) => records.schedules.claim(run, at(100))));
      expect(claims.filter(Boolean)).toHaveLength(1);
      const winner = runs[claims.indexOf(true)];
      expect(await records.schedules.inProgress()).toEqual([
        { run: winner, schedule: { ...schedule, nextRunAt: at(100) } },
      ]);
      expect(await records.schedules.claim(newRun(schedule), at(200))).toBe(false);
    });

    it('lets none claim a time that was changed meanwhile', async () => {
      const schedule = await add();
      await records.schedules.update(schedule.id, { enabled: false, nextRunAt: null }, at(1));
      expect(await records.schedules.claim(newRun(schedule), at(100))).toBe(false);
      expect(await records.schedules.runsOf([schedule.id])).toEqual([]);
    });

    it('ends a run once, and keeps the newest that have ended', async () => {
      let schedule = await add();
      const runs: RecordedRun[] = [];
      for (let i = 0; i < KEPT_RUNS + 3; i++) {
        const run = newRun(schedule, 20 + i);
        runs.unshift(run);
        const next = at(100 + i);
        expect(await records.schedules.claim(run, next)).toBe(true);
        schedule = { ...schedule, nextRunAt: next };
        const result = { exit: { code: i }, timedOut: false, oom: i === 1 };
        expect(await records.schedules.updateRun(run.id, { startedAt: at(30 + i) })).toBe(true);
        const ended = { endedAt: at(40 + i), outcome: 'failed' as const, end: result, errorCode: 'vm_lost' as const };
        if (i > 0) expect(await records.schedules.updateRun(run.id, ended)).toBe(true);
        if (i > 0) expect(await records.schedules.updateRun(run.id, { outcome: 'succeeded' })).toBe(false);
      }
      // The first is in progress, so it stays, however many come after it.
      const kept = await records.schedules.runsOf([schedule.id]);
      const expected = [...runs.slice(0, KEPT_RUNS + 1), runs.at(-1)].map((run) => run?.id);
      expect(kept.map(({ id }) => id)).toEqual(expected);
      expect(kept[0]).toMatchObject({
        outcome: 'failed',
        end: { exit: { code: KEPT_RUNS + 2 } },
        errorCode: 'vm_lost',
      });
      expect(kept.at(-1)).toEqual({ ...runs.at(-1), startedAt: at(30) });
    });

    it('lets schedules and runs go with their sandbox', async () => {
      const schedule = await add();
      await records.schedules.claim(newRun(schedule), at(100));
      await end(sandboxId, 'deleted', at(50));
      expect(await records.schedules.due(at(1000), 10)).toEqual([]);
      expect(await records.schedules.inProgress()).toEqual([]);
      expect(await records.schedules.runsOf([schedule.id])).toEqual([]);
    });

    it('clears a time to wake with the operation that ends with it running, and no other', async () => {
      const ids = await Promise.all([sandbox(at(10)), sandbox(at(10)), sandbox(at(10)), sandbox(at(10))]);
      const [early, met, paused, deleted] = ids as [SandboxId, SandboxId, SandboxId, SandboxId];
      await end(early, 'running', at(9));
      await end(met, 'running', at(10));
      await end(paused, 'paused', at(11));
      await end(deleted, 'deleted', at(9));
      const due = async (seconds: number) =>
        new Set((await records.sandboxesToWake(at(seconds), 10)).map(({ id }) => id));
      expect(await due(9)).toEqual(new Set());
      expect(await due(10)).toEqual(new Set([early, paused]));
      expect((await records.findSandbox(met))?.wakeAt).toBeNull();
    });

    it('clears an expiry with the operation that ends with it paused at or after it, or deleted, and no other', async () => {
      const expiry = { at: at(10), action: 'pause' } as const;
      const [early, met] = [await sandbox(null, expiry), await sandbox(null, expiry)];
      const [running, deleted] = [await sandbox(null, expiry), await sandbox(null, expiry)];
      const doomed = await sandbox(null, { ...expiry, action: 'delete' });
      await end(doomed, 'paused', at(11));
      await end(early, 'paused', at(9));
      await end(met, 'paused', at(10));
      await end(running, 'running', at(11));
      await end(deleted, 'deleted', at(9));
      const due = async (seconds: number) =>
        new Set((await records.sandboxesToExpire(at(seconds), 10)).map(({ id }) => id));
      expect(await due(9)).toEqual(new Set());
      expect(await due(10)).toEqual(new Set([early, running, doomed]));
      expect((await records.findSandbox(met))?.expiry).toBeNull();
      expect((await records.findSandbox(running))?.expiry).toEqual(expiry);
      await records.expiryMet(running, at(9));
      expect((await records.findSandbox(running))?.expiry).toEqual(expiry);
      await records.expiryMet(running, at(10));
      expect((await records.findSandbox(running))?.expiry).toBeNull();
      await records.updateSandbox(running, { expiry: { at: at(20), action: 'delete' } }, at(11));
      expect((await records.findSandbox(running))?.expiry).toEqual({ at: at(20), action: 'delete' });
    });

    it('gives each run with a limit an expiry, takes it away with the pause, and tells when the run began', async () => {
      const runs = { limitMs: 5_000, atLimit: 'delete', wakeOnUse: false } as const;
      const id = await sandbox(null, null, { runs });
      expect(await records.findSandbox(id)).toMatchObject({ runs, startedAt: null, expiry: null });
      const first = { expiry: { at: at(15), action: 'delete' }, startedAt: at(10) };
      expect(await end(id, 'running', at(10))).toMatchObject(first);
      const begin = async (operation: 'pause' | 'resume', seconds: number) => {
        const seen = await records.findSandbox(id);
        if (seen === null) throw new Error('it is gone');
        const operationId = newId('operation', chance);
        await records.beginOperation({
          seen,
          operationId,
          operation,
          input: {},
          taking: null,
          by: null,
          at: at(seconds),
        });
      };
      await begin('pause', 11);
      expect(await end(id, 'paused', at(12))).toMatchObject({ expiry: null, startedAt: at(10) });
      await begin('resume', 13);
      const second = { expiry: { at: at(25), action: 'delete' }, startedAt: at(20) };
      expect(await end(id, 'running', at(20))).toMatchObject(second);
      const none = { limitMs: null, atLimit: 'pause', wakeOnUse: true } as const;
      expect(await records.updateSandbox(id, { runs: none, publicPorts: true }, at(21))).toMatchObject({ runs: none });
      const access = { token: 'spacebox_x', keyId: newId('apiKey', chance) };
      await records.updateSandbox(id, { access }, at(22));
      expect(await records.findSandbox(id)).toMatchObject({ access, publicPorts: true });
      await begin('pause', 23);
      await end(id, 'deleted', at(24));
      expect(await records.findSandbox(id)).toMatchObject({ access: null, expiry: null });
    });

    it('clears a time to wake only while it is that one', async () => {
      const id = await sandbox(at(10));
      await records.updateSandbox(id, { wakeAt: at(20) }, at(1));
      await records.wakeMet(id, at(10));
      expect((await records.findSandbox(id))?.wakeAt).toEqual(at(20));
      expect((await records.updateSandbox(id, { pauseAfterMs: 10_000 }, at(1)))?.wakeAt).toEqual(at(20));
      await records.wakeMet(id, at(20));
      expect((await records.findSandbox(id))?.wakeAt).toBeNull();
    });
  });
}
