/** What every adapter of the records does about approvals. */
import {
  type ApprovalId,
  DEFAULT_NETWORK_POLICY,
  DEFAULT_ORGANISATION,
  DEFAULT_PROJECT,
  DEFAULT_SIZE,
  DEFAULT_VAULT,
  newId,
  type SandboxId,
} from '@space/core';
import { seededChance } from '@space/testkit';
import { beforeEach, describe, expect, it } from 'vitest';
import type { ApprovalDecision, NewApproval } from '../src/approval-records.ts';
import type { OperationEnd, Records } from '../src/records.ts';

const chance = seededChance(Date.now());
const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1_000);
const LIMITS = { perSandbox: 3, perOrganisation: 5 };
const RACERS = 12;

export function approvalsSuite(suite: string, open: () => Promise<Records>): void {
  describe(`approvals: ${suite}`, () => {
    let records: Records;
    let sandboxId: SandboxId;
    let ends: Map<SandboxId, Pick<OperationEnd, 'sandboxId' | 'operationId' | 'epoch'>>;

    beforeEach(async () => {
      records = await open();
      ends = new Map();
      sandboxId = await newSandbox();
    });

    async function newSandbox(): Promise<SandboxId> {
      const [id, operationId] = [newId('sandbox', chance), newId('operation', chance)];
      const fields = { name: null, template: 'base', size: DEFAULT_SIZE, vault: DEFAULT_VAULT, env: {}, metadata: {} };
      const rest = {
        projectId: DEFAULT_PROJECT,
        pauseAfterMs: null,
        wakeAt: null,
        expiry: null,
        snapshotPolicy: {},
        network: DEFAULT_NETWORK_POLICY,
        forkedFrom: null,
        arrival: null,
        by: null,
      };
      await records.addSandboxes([{ id, ...fields, ...rest, operationId, at: at(0) }]);
      ends.set(id, { sandboxId: id, operationId, epoch: 1 });
      return id;
    }

    /** The create that is in flight ends so. */
    async function end(id: SandboxId, changes: Partial<OperationEnd>) {
      const begun = ends.get(id);
      if (begun === undefined) throw new Error('no such sandbox');
      const plain = {
        settled: 'running',
        outcome: 'ok',
        errorCode: null,
        timings: null,
        changes: {},
        at: at(2),
      } as const;
      return records.endOperation({ ...begun, ...plain, points: [], dropped: [], doomed: [], ...changes });
    }

    const ask = (changes: Partial<NewApproval> = {}) => {
      const fresh: NewApproval = {
        id: newId('approval', chance),
        organisationId: DEFAULT_ORGANISATION,
        projectId: DEFAULT_PROJECT,
        sandboxId,
        digest: 'd1',
        rule: 'ask 1: api.example',
        request: {
          method: 'POST',
          scheme: 'https',
          host: 'api.example',
          port: 443,
          url: '/pay',
          headers: [{ name: 'x', value: '⟨U+202E⟩' }],
          moreHeaders: 0,
          body: { sizeBytes: 1, sha256: 'x', text: 'a', isWhole: true },
        },
        requestedAt: at(0),
        expiresAt: at(60),
        askedBy: 'g/1',
        ...changes,
      };
      return records.approvals.ask(fresh, LIMITS);
    };
    const decision = (step: 'approve' | 'deny', changes: Partial<ApprovalDecision> = {}): ApprovalDecision => {
      return { step, by: newId('apiKey', chance), reason: null, at: at(1), expiresAt: at(61), ...changes };
    };
    const approve = (id: ApprovalId, changes: Partial<ApprovalDecision> = {}) =>
      records.approvals.decide(id, decision('approve', changes));
    const use = (id: ApprovalId, usedFor = 'g/1', seconds = 2) =>
      records.approvals.use(id, { usedFor, snapshot: null, at: at(seconds) });
    const stateOf = async (id: ApprovalId) => (await records.approvals.find(id))?.state;

    it('are one for the same request, and another for another one', async () => {
      const first = await ask();
      expect(await records.approvals.find(first.id)).toEqual(first);
      expect(first).toMatchObject({ state: 'pending', generation: 1, decidedBy: null });
      expect((await ask({ askedBy: 'g/2' })).id).toBe(first.id);
      expect((await ask({ digest: 'd2' })).id).not.toBe(first.id);
      expect((await ask({ sandboxId: await newSandbox() })).id).not.toBe(first.id);
    });

    it('are one however many ask at once', async () => {
      const asked = await Promise.all(Array.from({ length: RACERS }, (_, index) => ask({ askedBy: `g/${index}` })));
      expect(new Set(asked.map(({ id }) => id)).size).toBe(1);
    });

    it('are decided exactly once, however many reviewers decide at once', async () => {
      const { id } = await ask();
      const steps = Array.from({ length: RACERS }, (_, index) =>
        index % 2 === 0 ? ('approve' as const) : ('deny' as const),
      );
      const told = await Promise.all(steps.map((step) => records.approvals.decide(id, decision(step))));
      const [winner, ...more] = told.filter((one) => one !== null);
      expect(more).toEqual([]);
      expect(await records.approvals.find(id)).toEqual(winner);
      const request = { after: null, projectId: DEFAULT_PROJECT, organisationId: null, limit: 100 };
      const kinds = (await records.events.list(request)).filter((one) => one.approvalId === id).map(({ kind }) => kind);
      expect(kinds).toEqual(['approval.requested', `approval.${winner?.state}`]);
    });

    it('are used exactly once, however many ask for it at once', async () => {
      const { id } = await ask();
      expect(await use(id)).toBeNull();
      await approve(id);
      const used = await Promise.all(Array.from({ length: RACERS }, (_, index) => use(id, `g/${index}`)));
      expect(used.filter((one) => one !== null)).toHaveLength(1);
      expect(await stateOf(id)).toBe('used');
    });

    it('that are used and expire at once do one of the two', async () => {
      for (let round = 0; round < 4; round++) {
        const id = (await ask({ digest: `race ${round}`, sandboxId: await newSandbox() })).id;
        await approve(id, { expiresAt: at(10) });
        const [used] = await Promise.all([use(id, 'g/1', 9), records.approvals.expire(at(11), 100)]);
        expect(await stateOf(id)).toBe(used === null ? 'expired' : 'used');
      }
    });

    it('are asked for anew once they were used, but by the one that they were used for', async () => {
      const { id } = await ask();
      await approve(id);
      expect((await ask()).state).toBe('approved');
      await use(id, 'g/1');
      expect(await ask({ askedBy: 'g/1' })).toMatchObject({ id, state: 'used' });
      const other = await ask({ askedBy: 'g/2' });
      expect(other).toMatchObject({ state: 'pending' });
      expect(other.id).not.toBe(id);
    });

    it('are given back only by the one that they were used for', async () => {
      const { id } = await ask();
      await approve(id);
      await use(id, 'g/1');
      expect(await records.approvals.release(id, 'g/2', at(3))).toBe(false);
      expect(await records.approvals.release(id, 'g/1', at(3))).toBe(true);
      expect(await records.approvals.release(id, 'g/1', at(3))).toBe(false);
      expect(await records.approvals.find(id)).toMatchObject({ state: 'approved', usedFor: null, endedAt: null });
      expect(await use(id, 'g/2')).not.toBeNull();
    });

    it('that were denied hold for their time, and are asked for anew after it', async () => {
      const { id } = await ask();
      await records.approvals.decide(id, decision('deny', { reason: 'no' }));
      expect(await ask({ requestedAt: at(60) })).toMatchObject({ id, state: 'denied', reason: 'no' });
      expect(await ask({ requestedAt: at(61), expiresAt: at(100) })).toMatchObject({ state: 'pending' });
    });

    it('expire by themselves, and cannot be decided or used after, written down or not', async () => {
      const { id } = await ask();
      expect(await approve(id, { at: at(60) })).toBeNull();
      const { id: second } = await ask({ requestedAt: at(60), expiresAt: at(100) });
      expect(second).not.toBe(id);
      expect(await stateOf(id)).toBe('expired');
      await approve(second, { at: at(61), expiresAt: at(90) });
      expect(await use(second, 'g/1', 90)).toBeNull();
      expect(await records.approvals.expire(at(89), 10)).toEqual([]);
      expect((await records.approvals.expire(at(90), 10)).map((one) => one.id)).toEqual([second]);
      expect(await stateOf(second)).toBe('expired');
    });

    it('are void with the generation, those that wait and those that were not used, and no others', async () => {
      const [waits, unused, used] = [await ask(), await ask({ digest: 'd2' }), await ask({ digest: 'd3' })];
      await approve(unused.id);
      await approve(used.id);
      await use(used.id);
      const elsewhere = await ask({ sandboxId: await newSandbox() });
      await end(sandboxId, { changes: { generation: 2 } });
      expect(await Promise.all([waits.id, unused.id, used.id, elsewhere.id].map(stateOf))).toEqual([
        'void',
        'void',
        'used',
        'pending',
      ]);
      expect(await approve(waits.id)).toBeNull();
      expect(await use(unused.id)).toBeNull();
      expect(await ask()).toMatchObject({ state: 'pending', generation: 2 });
    });

    it('stay with a new life of the same generation', async () => {
      const { id } = await ask();
      await end(sandboxId, { settled: 'paused' });
      expect(await stateOf(id)).toBe('pending');
    });

    it.each(['deleted', 'moved'] as const)('are void when their sandbox is %s', async (settled) => {
      const { id } = await ask();
      await end(sandboxId, { settled });
      expect(await stateOf(id)).toBe('void');
      if (settled === 'deleted') await expect(ask()).rejects.toMatchObject({ code: 'not_found' });
    });

    it('are void when a sandbox is found to be of another generation', async () => {
      const { id } = await ask();
      await end(sandboxId, {});
      const seen = await records.findSandbox(sandboxId);
      if (seen === null) throw new Error('it is there');
      await records.settle({ seen, settled: 'crashed', changes: { generation: 5 }, at: at(3) });
      expect(await stateOf(id)).toBe('void');
    });

    it('wait in bounded numbers, of a sandbox and of an organisation', async () => {
      for (let count = 0; count < LIMITS.perSandbox; count++) await ask({ digest: `d${count}` });
      await expect(ask({ digest: 'more' })).rejects.toMatchObject({ code: 'limit_reached' });
      expect((await ask({ digest: 'd0' })).state).toBe('pending');
      const other = await newSandbox();
      for (let count = 0; count < 2; count++) await ask({ digest: `d${count}`, sandboxId: other });
      await expect(ask({ digest: 'more', sandboxId: other })).rejects.toMatchObject({ code: 'limit_reached' });
    });

    it('are listed by project, sandbox and state, newest first, and go when they are old', async () => {
      const [first, second] = [await ask(), await ask({ digest: 'd2', requestedAt: at(1), expiresAt: at(30) })];
      await approve(first.id);
      const list = async (more: object) =>
        (await records.approvals.list({ projectId: DEFAULT_PROJECT, limit: 10, ...more })).items.map(({ id }) => id);
      expect(await list({})).toEqual([second.id, first.id]);
      expect(await list({ state: 'approved' })).toEqual([first.id]);
      expect(await list({ sandboxId: await newSandbox() })).toEqual([]);
      expect(await list({ projectId: newId('project', chance) })).toEqual([]);
      const page = await records.approvals.list({ projectId: DEFAULT_PROJECT, limit: 1 });
      expect(await list({ cursor: page.next ?? '' })).toEqual([first.id]);
      await records.approvals.expire(at(40), 10);
      await records.approvals.dropBefore(at(50));
      expect(await list({})).toEqual([first.id]);
    });
  });
}
