/** What every adapter of the records does about where archives are to be collected. */
import { DEFAULT_PROJECT, newId } from '@space/core';
import { seededChance } from '@space/testkit';
import { describe, expect, it } from 'vitest';
import type { Records } from '../src/records.ts';

const chance = seededChance(Date.now());
const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1_000);

export function archivesSuite(suite: string, open: () => Promise<Records>): void {
  describe(`archives to be collected, ${suite}`, () => {
    it('wait once for each project and place, the longest first, until they were collected after the last time that was asked', async () => {
      const { archives } = await open();
      const [one, two] = [DEFAULT_PROJECT, newId('project', chance)];
      expect(await archives.ask({ projectId: one, location: 'a', askedAt: at(2) })).toBe(true);
      await archives.ask({ projectId: two, location: 'a', askedAt: at(1) });
      await archives.ask({ projectId: one, location: 'b', askedAt: at(3) });
      expect(await archives.asked(2)).toEqual([
        { projectId: two, location: 'a', askedAt: at(1) },
        { projectId: one, location: 'a', askedAt: at(2) },
      ]);
      expect(await archives.ask({ projectId: one, location: 'a', askedAt: at(4) })).toBe(false);
      await archives.ask({ projectId: one, location: 'a', askedAt: at(0) });
      await archives.collected({ projectId: one, location: 'a', askedAt: at(2) });
      await archives.collected({ projectId: two, location: 'a', askedAt: at(1) });
      expect(await archives.asked(9)).toEqual([
        { projectId: one, location: 'b', askedAt: at(3) },
        { projectId: one, location: 'a', askedAt: at(4) },
      ]);
      await archives.collected({ projectId: one, location: 'a', askedAt: at(4) });
      expect((await archives.asked(9)).map(({ location }) => location)).toEqual(['b']);
    });
  });
}
