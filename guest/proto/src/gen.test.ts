import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');

/** Path within the folder → text, of every file under it. */
function filesUnder(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    names.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [path.slice(folder.length), readFileSync(path, 'utf8')];
    }),
  );
}

test('gen/ is what the contract generates now', () => {
  const fresh = mkdtempSync(join(tmpdir(), 'space-proto-'));
  try {
    execFileSync(join(root, 'generate.sh'), [fresh], { stdio: 'pipe' });
    expect(filesUnder(join(root, 'gen')), 'run guest/proto/generate.sh').toEqual(filesUnder(fresh));
  } finally {
    rmSync(fresh, { recursive: true });
  }
}, 60_000);
