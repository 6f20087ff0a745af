/** What every adapter of the records does about what sandboxes may reach, and about what left them. */
import {
  DEFAULT_NETWORK_POLICY,
  DEFAULT_ORGANISATION,
  type LifeId,
  type NetworkPolicy,
  NO_CONSTRAINTS,
  newId,
  type SandboxId,
} from '@space/core';
import { seededChance } from '@space/testkit';
import { beforeEach, describe, expect, it } from 'vitest';
import type { RecordedEgress } from '../src/egress-records.ts';
import type { Records } from '../src/records.ts';
import { newSandbox, tick } from './records-suite.ts';

const chance = seededChance(Date.now());
const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1_000);

export function egressRecord(sandboxId: SandboxId, second: number): RecordedEgress {
  return {
    id: newId('egress', chance),
    sandboxId,
    lifeId: newId('life', chance) as LifeId,
    at: at(second),
    protocol: 'http',
    host: `${second}.example`,
    port: 443,
    method: 'GET',
    path: '/ä"\\',
    calls: null,
    secret: null,
    approval: null,
    rule: null,
    outcome: 'refused',
    status: null,
    sentBytes: 5_000_000_000,
    receivedBytes: 0,
    durationMs: 1,
    lostBefore: 2,
  };
}

export function egressSuite(suite: string, open: () => Promise<Records>): void {
  describe(`egress: ${suite}`, () => {
    let records: Records;
    const [a, b] = [newId('sandbox', chance), newId('sandbox', chance)];
    beforeEach(async () => {
      records = await open();
      taken = 0;
    });

    let taken = 0;
    const add = (all: readonly RecordedEgress[]) => {
      const position = (next: number) => ({ instance: 'gateway', next });
      const behind = taken === 0 ? null : position(taken);
      const owned = all.map((one) => ({ ...one, organisationId: DEFAULT_ORGANISATION }));
      return records.egress.add({ records: owned, changes: [], linkedAt: at(0), position: position(++taken) }, behind);
    };

    const seconds = async (sandboxId: SandboxId, limit = 100) => {
      const { items } = await records.egress.list({ sandboxId, limit });
      return items.map((one) => (one.at.getTime() - at(0).getTime()) / 1000);
    };

    it('is kept as it was, of each sandbox for itself, newest first, page by page', async () => {
      const all = [1, 2, 3].map((second) => egressRecord(a, second));
      await add([...all, egressRecord(b, 9)]);
      await add([]);
      const first = await records.egress.list({ sandboxId: a, limit: 2 });
      expect(first.items).toEqual([all[2], all[1]]);
      const next = await records.egress.list({ sandboxId: a, limit: 2, cursor: first.next ?? '' });
      expect(next).toEqual({ items: [all[0]], next: null });
    });

    it('goes when it is old, and beyond a number', async () => {
      await add([1, 2, 3, 4, 5].map((second) => egressRecord(a, second)));
      await add([egressRecord(b, 1), egressRecord(b, 6)]);
      await records.egress.trim(a, 5);
      expect(await seconds(a)).toEqual([5, 4, 3, 2, 1]);
      await records.egress.trim(a, 2);
      expect(await seconds(a)).toEqual([5, 4]);
      expect(await seconds(b)).toEqual([6, 1]);
      await records.egress.dropBefore(at(5));
      expect(await seconds(a)).toEqual([5]);
      expect(await seconds(b)).toEqual([6]);
    });

    it('is allowed by a policy that is kept with its sandbox, and changed as a whole', async () => {
      const network: NetworkPolicy = {
        preset: 'internet',
        allow: [{ host: '*', protocol: 'http', ports: 'all', access: 'read', path: '/' }],
        ask: [{ host: 'pay.example', ports: [443], access: 'write', path: '/' }],
        deny: ['evil.example'],
      };
      const fresh = newSandbox({ network });
      await records.addSandboxes([fresh]);
      expect(await records.findSandbox(fresh.id)).toMatchObject({ network });
      await records.updateSandbox(fresh.id, { pauseAfterMs: 1_000 }, tick());
      expect(await records.findSandbox(fresh.id)).toMatchObject({ network });
      await records.updateSandbox(fresh.id, { network: DEFAULT_NETWORK_POLICY }, tick());
      expect((await records.findSandbox(fresh.id))?.network).toEqual(DEFAULT_NETWORK_POLICY);
    });

    it('is limited by constraints of its organisation, of which each change leaves the rest', async () => {
      const { tenants } = records;
      expect((await tenants.findOrganisation(DEFAULT_ORGANISATION))?.network).toEqual(NO_CONSTRAINTS);
      await tenants.setNetwork(DEFAULT_ORGANISATION, { privateHosts: ['a.example'] });
      const set = await tenants.setNetwork(DEFAULT_ORGANISATION, { preset: 'none', deny: ['*'] });
      expect(set).toEqual({ ...NO_CONSTRAINTS, preset: 'none', deny: ['*'], privateHosts: ['a.example'] });
      expect((await tenants.findOrganisation(DEFAULT_ORGANISATION))?.network).toEqual(set);
      expect(await tenants.setNetwork(newId('organisation', chance), {})).toBeNull();
      await tenants.setNetwork(DEFAULT_ORGANISATION, NO_CONSTRAINTS);
    });
  });
}
