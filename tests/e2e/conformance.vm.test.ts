/** The proof of the way out as an admin runs it: on hosts and a platform of its own. Minutes, so only with all else that takes so long. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const FULL = process.env['SPACE_FULL'] === '1';
const MAIN = join(import.meta.dirname, '../../apps/conformance/src/main.ts');

it.runIf(FULL)(
  'proves the way out from within a real guest, with no miss, and leaves nothing',
  { timeout: 1_200_000 },
  async () => {
    const run = promisify(execFile)(process.execPath, [MAIN, 'conformance', 'egress', '--local', '--full', '--json']);
    const { stdout } = await run.catch((failed: { stdout: string }) => failed);
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.filter(({ outcome }) => outcome !== 'ok' && outcome !== undefined)).toEqual([]);
    expect(lines.at(-1)).toEqual({ ok: lines.length - 1, missed: 0, notRun: 0 });
    expect(lines.length).toBeGreaterThan(100);
  },
);
