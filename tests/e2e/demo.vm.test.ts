/** README's first command, on a machine that is set up: every claim that it prints holds, and nothing is left behind. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const run = promisify(execFile);
const DEMO = new URL('../../apps/demo/src/main.ts', import.meta.url).pathname;

it('the demo goes through to its end', async () => {
  const { stdout } = await run(process.execPath, [DEMO], { timeout: 170_000 });
  expect(stdout).not.toContain('✗');
  expect(stdout).toContain('Nothing is left behind');
}, 180_000);
