/** The platform in memory does what clients rely on, as microVMs do; and what is its own. */
import { Sandbox } from '@space/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clientCases } from '../../../tests/e2e/client-cases.ts';
import { createTestPlatform, type TestPlatform } from '../src/index.ts';

describe('the platform in memory', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());
  clientCases(() => platform);
});

describe('a test of a program that uses sandboxes', () => {
  it('hands in programs, which see their arguments, files, input and environment', async () => {
    await using platform = await createTestPlatform({
      programs: {
        async pytest({ command, files, input, print }, args) {
          const given = Buffer.concat(await Array.fromAsync(input)).toString();
          await files.writeFile({ path: '/report' }, one(`${args.join(',')} ${command.env['CI']} ${given}`));
          print('1 failed\n', 'stderr');
          return 1;
        },
      },
    });
    const sandbox = await Sandbox.create(platform.connection);
    const result = await sandbox.run('pytest -q "a b" || echo "failed with $?"', { stdin: 'in', env: { CI: '1' } });
    expect(result).toMatchObject({ exitCode: 0, stdout: 'failed with 1\n', stderr: '1 failed\n' });
    expect(await sandbox.files.read('/report')).toBe('-q,a b 1 in');
    expect((await sandbox.run(['pytest', 'x'])).exitCode).toBe(1);
  });

  it('can let a microVM crash', async () => {
    await using platform = await createTestPlatform();
    const sandbox = await Sandbox.create(platform.connection);
    await sandbox.files.write('f', 'on disk');
    platform.crash(sandbox.id);
    await expect.poll(async () => (await sandbox.refresh()).status).toBe('crashed');
    await expect(sandbox.run('true')).rejects.toMatchObject({ code: 'vm_lost' });
    await sandbox.resume();
    expect(await sandbox.files.read('f')).toBe('on disk');
  });
});

async function* one(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
