import { describe, expect, it } from 'vitest';
import { hunt, MUTANTS, sourceOf } from './mutants.ts';

describe('a fault that is put into control or node', () => {
  it.each(MUTANTS)('$name: its line is there, once', (mutant) => {
    expect(sourceOf(mutant).split(mutant.line)).toHaveLength(2);
  });

  it.runIf(process.env['SPACE_FULL'] === '1').each(MUTANTS)(
    '$name: some seed sees it',
    { timeout: 600_000 },
    async (mutant) => {
      expect(await hunt(mutant)).not.toBeNull();
    },
  );
});
