import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..');

function filesIn(folder: string): Record<string, string> {
  return Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
}

it('gen/ is what proto/ generates now', () => {
  const fresh = mkdtempSync(join(tmpdir(), 'space-e2b-proto-'));
  try {
    execFileSync(join(ROOT, 'proto/generate.sh'), [fresh], { stdio: 'pipe' });
    expect(filesIn(join(ROOT, 'gen')), 'run packages/e2b/proto/generate.sh').toEqual(filesIn(fresh));
  } finally {
    rmSync(fresh, { recursive: true });
  }
}, 60_000);
