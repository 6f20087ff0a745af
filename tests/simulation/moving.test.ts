/**
 * Moves and copies between two installations under a seed. As in `simulation.test.ts`, `SPACE_FULL=1` runs many more, and
 * `node tests/simulation/main.ts moves SEED` runs one step by step.
 */
import { describe, expect, it } from 'vitest';
import { runMoves } from './moving.ts';

const COUNT = process.env['SPACE_FULL'] === '1' ? 10_000 : 200;
const FIRST = Number(process.env['SPACE_SEED'] ?? 1);

describe('sandboxes that move under any schedule', () => {
  it('the same seed gives the same schedule, to the last step', async () => {
    for (const seed of [5, 7]) {
      const [once, again] = [await runMoves(seed), await runMoves(seed, { traced: true })];
      expect([again.digest, again.steps]).toEqual([once.digest, once.steps]);
    }
  });

  it('live once, can be had from one installation, hold what they held, and leave nothing', {
    timeout: 3_600_000,
  }, async () => {
    for (let seed = FIRST; seed < FIRST + COUNT; seed++) {
      const { violation } = await runMoves(seed);
      expect(violation, `node tests/simulation/main.ts moves ${seed}: ${violation?.message}`).toBeNull();
    }
  });
});
