/** What every adapter of the records does about shares. */
import {
  DEFAULT_NETWORK_POLICY,
  DEFAULT_PROJECT,
  DEFAULT_SIZE,
  DEFAULT_VAULT,
  newId,
  type SandboxId,
} from '@space/core';
import { seededChance } from '@space/testkit';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Records } from '../src/records.ts';
import type { RecordedShare } from '../src/share-records.ts';

const chance = seededChance(Date.now());
const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1_000);
const MAX = 3;

function newShare(sandboxId: SandboxId, changes: Partial<RecordedShare> = {}): RecordedShare {
  return {
    id: newId('share', chance),
    projectId: DEFAULT_PROJECT,
    sandboxId,
    port: 3000,
    name: null,
    sha256: Buffer.from(chance.bytes(32)),
    createdBy: newId('apiKey', chance),
    createdAt: at(0),
    expiresAt: at(60),
    ...changes,
  };
}

export function sharesSuite(suite: string, open: () => Promise<Records>): void {
  describe(`shares: ${suite}`, () => {
    let records: Records;
    let sandboxId: SandboxId;
    let operationId = newId('operation', chance);

    beforeEach(async () => {
      records = await open();
      sandboxId = newId('sandbox', chance);
      operationId = newId('operation', chance);
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
      await records.addSandboxes([{ id: sandboxId, ...fields, ...rest, operationId, at: at(0) }]);
    });

    const ids = async (now: Date) => (await records.shares.list(sandboxId, now)).map(({ id }) => id);

    it('are found by the digest of their token, and listed until they expire', async () => {
      const [first, second] = [newShare(sandboxId), newShare(sandboxId, { createdAt: at(1), name: 'demo', port: 80 })];
      await records.shares.add(second, MAX);
      await records.shares.add(first, MAX);
      expect(await records.shares.findByDigest(second.sha256)).toEqual(second);
      expect(await records.shares.findByDigest(chance.bytes(32))).toBeNull();
      expect(await ids(at(2))).toEqual([first.id, second.id]);
      expect(await ids(at(60))).toEqual([]);
    });

    it('end when they are removed or expire', async () => {
      const [kept, short] = [newShare(sandboxId), newShare(sandboxId, { expiresAt: at(5) })];
      for (const share of [kept, short]) await records.shares.add(share, MAX);
      const unknown = newId('share', chance);
      expect(await records.shares.endedAmong([kept.id, short.id, unknown], at(4))).toEqual([unknown]);
      expect(await records.shares.endedAmong([kept.id, short.id], at(5))).toEqual([short.id]);
      expect(await records.shares.remove(newId('sandbox', chance), kept.id, at(5))).toBe(false);
      expect(await records.shares.remove(sandboxId, kept.id, at(5))).toBe(true);
      expect(await records.shares.remove(sandboxId, kept.id, at(5))).toBe(false);
      expect(await records.shares.findByDigest(kept.sha256)).toBeNull();
      await records.shares.dropExpired(at(5));
      expect(await records.shares.findByDigest(short.sha256)).toBeNull();
      expect(await records.shares.endedAmong([kept.id], at(5))).toEqual([kept.id]);
    });

    it('are at most so many at a time, and those that have expired do not count', async () => {
      for (let count = 0; count < MAX; count++) {
        await records.shares.add(newShare(sandboxId, { expiresAt: at(5) }), MAX);
      }
      await expect(records.shares.add(newShare(sandboxId), MAX)).rejects.toMatchObject({ code: 'limit_reached' });
      await records.shares.add(newShare(sandboxId, { createdAt: at(5) }), MAX);
    });

    it('go with their sandbox', async () => {
      const share = newShare(sandboxId);
      await records.shares.add(share, MAX);
      const end = {
        sandboxId,
        operationId,
        epoch: 1,
        outcome: 'ok',
        errorCode: null,
        timings: null,
        changes: {},
        at: at(2),
      } as const;
      await records.endOperation({ ...end, settled: 'deleted', points: [], dropped: [], doomed: [] });
      expect(await records.shares.findByDigest(share.sha256)).toBeNull();
      await expect(records.shares.add(newShare(sandboxId), MAX)).rejects.toMatchObject({ code: 'not_found' });
    });

    it('tell of their making and their revocation, in the project', async () => {
      const share = newShare(sandboxId);
      await records.shares.add(share, MAX);
      await records.shares.remove(sandboxId, share.id, at(1));
      const request = { after: null, projectId: DEFAULT_PROJECT, organisationId: null, limit: 10 };
      const events = (await records.events.list(request)).filter(({ shareId }) => shareId === share.id);
      expect(events.map(({ kind }) => kind)).toEqual(['share.created', 'share.revoked']);
      expect(events[0]).toMatchObject({ sandboxId, at: at(0) });
    });
  });
}
