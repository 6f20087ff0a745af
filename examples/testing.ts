/** A test of a program of yours, without a microVM: the whole platform in memory. */
import assert from 'node:assert';
import { Sandbox } from '@space/sdk';
import { createTestPlatform } from '@space/testing';

/** The program: it runs the tests of a sandbox, and tells whether they pass. */
async function isGreen(sandbox: Sandbox): Promise<boolean> {
  return (await sandbox.run('pytest -q')).exitCode === 0;
}

await using platform = await createTestPlatform({
  programs: {
    // Each program gets its process and its arguments, and returns its exit code.
    pytest: async ({ files, print }) => {
      const isThere = await files.stat({ path: '/home/user/bug' }).then(
        () => true,
        () => false,
      );
      print(isThere ? '1 failed\n' : '1 passed\n');
      return isThere ? 1 : 0;
    },
  },
});

const sandbox = await Sandbox.create(platform.connection);
assert.equal(await isGreen(sandbox), true);
await sandbox.files.write('bug', '');
assert.equal(await isGreen(sandbox), false);
console.log('the program is right');
