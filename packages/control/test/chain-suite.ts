/** What every adapter of the records does about the chains of the audit. */
import { DEFAULT_ORGANISATION, newId, type OrganisationId } from '@space/core';
import { seededChance } from '@space/testkit';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Asker } from '../src/audit-records.ts';
import { beginOf, type ChainName, type ChainPlace, follow } from '../src/chain-records.ts';
import type { Records } from '../src/records.ts';
import { egressRecord } from './egress-suite.ts';

const chance = seededChance(Date.now());
const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1_000);
const OTHER = newId('organisation', chance) as OrganisationId;

function asker(organisationId: OrganisationId = DEFAULT_ORGANISATION): Asker {
  return {
    auditId: newId('audit', chance),
    requestId: newId('audit', chance),
    apiKeyId: newId('apiKey', chance),
    organisationId,
    projectId: null,
    action: 'network.manage',
    call: 'setNetwork',
  };
}

export function chainSuite(suite: string, open: () => Promise<Records>): void {
  describe(`chains of the audit: ${suite}`, () => {
    let records: Records;
    beforeEach(async () => {
      records = await open();
    });

    const all = (chain: ChainName, organisationId = DEFAULT_ORGANISATION, after = 0) =>
      records.chain.links({ organisationId, chain, after, limit: 1_000 });
    const stateOf = async (chain: ChainName, organisationId = DEFAULT_ORGANISATION) =>
      (await records.chain.states(organisationId)).find((one) => one.chain === chain);
    const call = (second: number, organisationId = DEFAULT_ORGANISATION) =>
      records.audit.append({ ...asker(organisationId), target: `${second}`, outcome: 'ok', at: at(second) }, 'now');
    const targets = (links: readonly { readonly entry: string }[]) =>
      links.map(({ entry }) => JSON.parse(entry).target);
    async function expectWhole(chain: ChainName, from: ChainPlace, organisationId = DEFAULT_ORGANISATION) {
      const links = await all(chain, organisationId);
      const { last, brokenAt } = follow(from, links);
      expect(brokenAt).toBeNull();
      expect((await stateOf(chain, organisationId))?.head).toMatchObject({ number: last.number, digest: last.digest });
      return links;
    }

    it('link each call once, when it has ended, behind all before it', async () => {
      const running = asker();
      await records.audit.append({ ...running, target: 'late', outcome: null, at: at(0) }, 'now');
      await call(1);
      await call(2);
      expect(await records.chain.unlinkedCalls(DEFAULT_ORGANISATION)).toBe(3);
      expect(await records.chain.linkCalls(1, at(10))).toBe(1);
      expect(await records.chain.linkCalls(10, at(11))).toBe(1);
      expect(await records.chain.linkCalls(10, at(12))).toBe(0);
      expect(await records.chain.unlinkedCalls(DEFAULT_ORGANISATION)).toBe(1);
      await records.audit.complete(running.auditId, { target: null, outcome: 'wrong_state' });
      expect(await records.chain.linkCalls(10, at(13))).toBe(1);
      const links = await expectWhole('calls', beginOf({ organisationId: DEFAULT_ORGANISATION, chain: 'calls' }));
      expect(targets(links)).toEqual(['1', '2', 'late']);
      expect(links.map((link) => [link.number, link.at])).toEqual([
        [1, at(10)],
        [2, at(11)],
        [3, at(13)],
      ]);
      expect(JSON.parse(links[2]?.entry ?? '')).toMatchObject({ outcome: 'wrong_state', call: 'setNetwork' });
    });

    it('are of one organisation each, and nobody else’s links stand in them', async () => {
      await call(1);
      await call(2, OTHER);
      await records.chain.linkCalls(10, at(10));
      const own = await expectWhole('calls', beginOf({ organisationId: DEFAULT_ORGANISATION, chain: 'calls' }));
      expect(targets(own)).toEqual(['1']);
      const theirs = await expectWhole('calls', beginOf({ organisationId: OTHER, chain: 'calls' }), OTHER);
      expect(targets(theirs)).toEqual(['2']);
      expect(follow(beginOf({ organisationId: OTHER, chain: 'calls' }), own).brokenAt).toBe(1);
    });

    it('take what was linked at once by many, one after another', async () => {
      await Promise.all(Array.from({ length: 30 }, (_, second) => call(second)));
      const linked = await Promise.all(
        Array.from({ length: 6 }, () => records.chain.linkCalls(10, at(40)).catch(() => 0)),
      );
      expect(Math.max(...linked)).toBeGreaterThan(0);
      while ((await records.chain.linkCalls(10, at(40))) > 0);
      const links = await expectWhole('calls', beginOf({ organisationId: DEFAULT_ORGANISATION, chain: 'calls' }));
      expect(targets(links).sort()).toEqual(Array.from({ length: 30 }, (_, second) => `${second}`).sort());
    });

    it('lose the oldest together, and the rest still follows from the anchor', async () => {
      for (const second of [1, 2, 3, 4, 5]) {
        await call(second);
        await records.chain.linkCalls(10, at(second));
      }
      const before = await all('calls');
      await records.chain.drop('calls', { before: at(3), kept: 100, limit: 100 });
      expect((await stateOf('calls'))?.anchor).toEqual({ number: 2, digest: before[1]?.digest });
      expect(targets(await expectWhole('calls', (await stateOf('calls'))?.anchor as ChainPlace))).toEqual([
        '3',
        '4',
        '5',
      ]);
      const { items } = await records.audit.list({ organisationId: DEFAULT_ORGANISATION, limit: 10 });
      expect(items.map(({ target }) => target)).toEqual(['5', '4', '3']);
      await records.chain.drop('calls', { before: at(0), kept: 1, limit: 1 });
      expect(targets(await all('calls'))).toEqual(['4', '5']);
      await records.chain.drop('calls', { before: at(0), kept: 1, limit: 100 });
      expect(targets(await all('calls'))).toEqual(['5']);
      // The next goes on where it was.
      await call(6);
      await records.chain.linkCalls(10, at(6));
      expect((await stateOf('calls'))?.head.number).toBe(6);
      await expectWhole('calls', (await stateOf('calls'))?.anchor as ChainPlace);
      await records.chain.drop('calls', { before: at(100), kept: 100, limit: 100 });
      expect(await stateOf('calls')).toMatchObject({ anchor: { number: 6 }, head: { number: 6 } });
    });

    it('are found by time', async () => {
      for (const second of [1, 2, 3]) {
        await call(second);
        await records.chain.linkCalls(10, at(second));
      }
      const behind = (since: Date) =>
        records.chain.before({ organisationId: DEFAULT_ORGANISATION, chain: 'calls', since });
      expect([await behind(at(0)), await behind(at(2)), await behind(at(9))]).toEqual([0, 1, null]);
      expect(targets(await all('calls', DEFAULT_ORGANISATION, 1))).toEqual(['2', '3']);
    });

    it('have what left sandboxes, exactly once, and the gateways that saw it', async () => {
      const sandbox = newId('sandbox', chance);
      const one = { ...egressRecord(sandbox, 1), organisationId: DEFAULT_ORGANISATION };
      const taken = { records: [one], changes: [], linkedAt: at(1), position: { instance: 'a', next: 1 } };
      expect(await records.egress.position()).toBeNull();
      await records.egress.add(taken, null);
      await records.egress.add(taken, null);
      expect(await records.egress.position()).toEqual({ instance: 'a', next: 1 });
      const change = { organisationId: DEFAULT_ORGANISATION, at: at(2), before: 'a', now: 'b' };
      const next = { records: [], changes: [change], linkedAt: at(2), position: { instance: 'b', next: 0 } };
      await records.egress.add(next, taken.position);
      await records.egress.add(next, taken.position);
      const links = await expectWhole('egress', beginOf({ organisationId: DEFAULT_ORGANISATION, chain: 'egress' }));
      expect(links.map(({ entry }) => JSON.parse(entry))).toMatchObject([
        { sandbox, id: one.id, host: '1.example', outcome: 'refused' },
        { event: 'gateway_changed', before: 'a', now: 'b' },
      ]);
      expect((await records.egress.list({ sandboxId: sandbox, limit: 10 })).items).toHaveLength(1);
    });
  });
}
