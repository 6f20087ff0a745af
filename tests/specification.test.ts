/** SPECIFICATION.md names a test for each promise, or says "not yet": the tests that it names exist. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const rows = readFileSync(join(ROOT, 'SPECIFICATION.md'), 'utf8')
  .split('\n')
  .filter((line) => /^\| (?!promise|-)/.test(line))
  .map((line) => line.split(' | '));

it.each(rows)('%s', (_, proof = '') => {
  if (/^not yet/.test(proof)) return;
  const named = [...proof.matchAll(/`([^`]+)` "([^"]+)"/g)];
  expect(named.length, proof).toBeGreaterThan(0);
  for (const [, file = '', title = ''] of named) {
    expect(existsSync(join(ROOT, file)), file).toBe(true);
    expect(readFileSync(join(ROOT, file), 'utf8'), `${file} has no "${title}"`).toContain(title);
  }
});
