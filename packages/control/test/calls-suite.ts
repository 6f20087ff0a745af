/** What every adapter of the records does about calls and their answers. */
import { newId } from '@space/core';
import { seededChance } from '@space/testkit';
import { beforeEach, describe, expect, it } from 'vitest';
import type { CallRecords, RecordedCall } from '../src/call-records.ts';
import type { Records } from '../src/records.ts';

const chance = seededChance(Date.now());
let count = 0;

function newCall(changes: Partial<RecordedCall> = {}): RecordedCall {
  count++;
  return {
    apiKeyId: newId('apiKey', chance),
    idempotencyKey: `key-${count}`,
    route: 'createSandbox',
    digest: 'd',
    requestId: `req_${count}`,
    owner: 'one',
    answer: null,
    at: new Date(1_700_000_000_000 + count),
    ...changes,
  };
}

export function callsSuite(suite: string, open: () => Promise<Records>): void {
  describe(`calls: ${suite}`, () => {
    let calls: CallRecords;
    beforeEach(async () => {
      ({ calls } = await open());
    });

    it('are claimed once, whoever tries at the same time', async () => {
      const call = newCall();
      const rivals = Array.from({ length: 8 }, (_, index) => ({ ...call, requestId: `req_rival_${index}` }));
      const tries = await Promise.all(rivals.map((rival) => calls.claim(rival, 'now')));
      expect(tries.filter((one) => one === null)).toHaveLength(1);
      const winner = rivals[tries.indexOf(null)];
      for (const present of tries.filter((one) => one !== null)) expect(present).toEqual(winner);
      expect(await calls.claim({ ...call, apiKeyId: newId('apiKey', chance) }, 'now')).toBeNull();
    });

    it.each(['now', 'next'] as const)(
      'keep the first answer of the request that holds them, and of no other (on the disk: %s)',
      async (settles) => {
        const call = newCall();
        expect(await calls.claim(call, settles)).toBeNull();
        await calls.keepAnswer({ ...call, requestId: 'req_other' }, '"wrong"', settles);
        expect((await calls.claim(call, settles))?.answer).toBeNull();
        await calls.keepAnswer(call, '"first"', settles);
        await calls.keepAnswer(call, '"second"', settles);
        expect((await calls.claim(call, settles))?.answer).toBe('"first"');
      },
    );

    it('are taken over once, and not when they were answered', async () => {
      const call = newCall();
      await calls.claim(call, 'now');
      const by = { requestId: 'req_next', owner: 'two' };
      expect(await calls.takeOver(call, by)).toBe(true);
      expect(await calls.takeOver(call, { requestId: 'req_late', owner: 'three' })).toBe(false);
      await calls.keepAnswer(call, '"late"', 'now');
      const taken = { ...call, ...by };
      expect(await calls.claim(call, 'now')).toEqual(taken);
      await calls.keepAnswer(taken, '"good"', 'now');
      expect(await calls.takeOver(taken, { requestId: 'req_last', owner: 'four' })).toBe(false);
    });

    it('can be made again once they are let go of', async () => {
      const call = newCall();
      await calls.claim(call, 'now');
      await calls.release({ ...call, requestId: 'req_other' });
      expect(await calls.claim(call, 'now')).not.toBeNull();
      await calls.release(call);
      expect(await calls.claim(call, 'now')).toBeNull();
    });

    it('are dropped by age, and by number of each caller', async () => {
      const { apiKeyId } = newCall();
      const own = [newCall({ apiKeyId }), newCall({ apiKeyId }), newCall({ apiKeyId })] as const;
      const other = newCall();
      for (const call of [...own, other]) await calls.claim(call, 'now');
      await calls.dropBefore(own[1].at);
      expect(await calls.claim(own[0], 'now')).toBeNull();
      expect(await calls.claim(own[1], 'now')).not.toBeNull();
      await calls.dropSurplus(1);
      expect(await calls.claim(own[2], 'now')).not.toBeNull();
      expect(await calls.claim(other, 'now')).not.toBeNull();
      expect(await calls.claim(own[1], 'now')).toBeNull();
    });
  });
}
