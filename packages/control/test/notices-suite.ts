/** What every adapter of the records does about webhooks and their notices. */
import {
  APPROVAL_LIMITS,
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
import type { Records } from '../src/records.ts';

const chance = seededChance(Date.now());
const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1_000);
const URL = 'https://hooks.example/space';

export function noticesSuite(suite: string, open: () => Promise<Records>): void {
  describe(`notices: ${suite}`, () => {
    let records: Records;
    let sandboxId: SandboxId;

    beforeEach(async () => {
      records = await open();
      sandboxId = newId('sandbox', chance);
      const fields = { name: null, template: 'base', size: DEFAULT_SIZE, vault: DEFAULT_VAULT, env: {}, metadata: {} };
      const rest = {
        projectId: DEFAULT_PROJECT,
        pauseAfterMs: null,
        wakeAt: null,
        snapshotPolicy: {},
        expiry: null,
        network: DEFAULT_NETWORK_POLICY,
        forkedFrom: null,
        arrival: null,
        by: null,
        operationId: newId('operation', chance),
      };
      await records.addSandboxes([{ id: sandboxId, ...fields, ...rest, at: at(0) }]);
    });

    const ask = (digest: string, seconds = 0) => {
      const body = { sizeBytes: 0, sha256: '', text: '', isWhole: true };
      const to = { method: 'GET', scheme: 'https', host: 'api.example', port: 443, url: '/' } as const;
      const fresh = {
        id: newId('approval', chance),
        organisationId: DEFAULT_ORGANISATION,
        projectId: DEFAULT_PROJECT,
        sandboxId,
        digest,
        rule: 'ask 1: api.example',
        request: { ...to, headers: [], moreHeaders: 0, body },
        requestedAt: at(seconds),
        expiresAt: at(seconds + 600),
        askedBy: 'g/1',
      };
      return records.approvals.ask(fresh, APPROVAL_LIMITS);
    };
    const due = async (seconds: number) =>
      (await records.notices.due(at(seconds), 10)).map(({ approval, url, tries }) => [approval.id, url, tries]);

    it('are due for what is asked for once an address was set, each once', async () => {
      await ask('before');
      expect(await records.notices.findWebhook(DEFAULT_ORGANISATION)).toBeNull();
      await records.notices.setWebhook(DEFAULT_ORGANISATION, URL, at(1));
      const { id } = await ask('after', 2);
      await ask('after', 3);
      expect(await due(1)).toEqual([]);
      expect(await due(2)).toEqual([[id, URL, 0]]);
      await records.notices.sent({ id, organisationId: DEFAULT_ORGANISATION });
      expect(await due(9)).toEqual([]);
    });

    it('come again later when they fail, and the address says why', async () => {
      await records.notices.setWebhook(DEFAULT_ORGANISATION, URL, at(0));
      const approval = await ask('one');
      await records.notices.failed(approval, { code: 'egress_failed', at: at(1), nextAt: at(5) });
      expect(await due(4)).toEqual([]);
      expect(await due(5)).toEqual([[approval.id, URL, 1]]);
      const failure = { code: 'egress_failed', at: at(1) };
      expect(await records.notices.findWebhook(DEFAULT_ORGANISATION)).toMatchObject({ url: URL, failure });
      await records.notices.sent(approval);
      expect(await records.notices.findWebhook(DEFAULT_ORGANISATION)).toMatchObject({ failure: null });
    });

    it('end with what they tell of, and with their address', async () => {
      await records.notices.setWebhook(DEFAULT_ORGANISATION, URL, at(0));
      const [decided, late, left] = [await ask('decided'), await ask('late', -590), await ask('left')];
      const by = newId('apiKey', chance);
      const decision = { step: 'deny', by, reason: null, at: at(1), expiresAt: at(9) } as const;
      await records.approvals.decide(decided.id, decision);
      await records.approvals.expire(at(10), 10);
      expect((await due(10)).map(([id]) => id)).toEqual([left.id]);
      expect(late.id).not.toBe(left.id);
      await records.notices.setWebhook(DEFAULT_ORGANISATION, `${URL}/2`, at(2));
      expect(await due(10)).toEqual([]);
      await records.notices.setWebhook(DEFAULT_ORGANISATION, null, at(3));
      expect(await records.notices.findWebhook(DEFAULT_ORGANISATION)).toBeNull();
    });
  });
}
