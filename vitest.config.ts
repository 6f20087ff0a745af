import { defineConfig } from 'vitest/config';

/** Tests that start microVMs, mount file systems or start servers: one file at a time, after all others. */
const HEAVY = ['**/*.vm.test.ts', '**/*.btrfs.test.ts', '**/*.agent.test.ts', '**/*.postgres.test.ts'];
const NEVER = ['**/node_modules/**', '**/target/**'];

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['**/*.test.ts'],
          exclude: [...NEVER, ...HEAVY],
          // Many wait more than they compute, and a core that is left idle is half of a small machine.
          maxWorkers: '100%',
          testTimeout: 20_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'machine',
          include: HEAVY,
          exclude: NEVER,
          maxWorkers: 1,
          testTimeout: 180_000,
          hookTimeout: 180_000,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
