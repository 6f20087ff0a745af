import { defineConfig } from 'vitest/config';

/** Tests that start microVMs, mount file systems or start servers: after all others. */
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
          // What is waited for comes late on a busy machine.
          expect: { poll: { timeout: 10_000 } },
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'machine',
          include: HEAVY,
          exclude: NEVER,
          // Each file has a platform in folders of its own, with its own limits, and while one waits another computes.
          // More at once would only wait for processors: a guest without KVM is an emulator that takes one whole.
          maxWorkers: 2,
          testTimeout: 180_000,
          expect: { poll: { timeout: 30_000 } },
          hookTimeout: 180_000,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
