/** What lies in vaults of earlier versions is read as it was meant. How these files come about: `CONTRIBUTING.md`. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { MANIFEST_FORMAT } from './manifest.ts';
import { parseManifest, parseRecord } from './parse-manifest.ts';

const GOLDEN = join(import.meta.dirname, '../golden');
const filesOf = (part: string) => globSync(`format-*/${part}/*.json`, { cwd: GOLDEN }).sort();
const textOf = (file: string) => readFileSync(join(GOLDEN, file), 'utf8');

describe('of every format there ever was', () => {
  it('there are fixtures, also of the present one', () => {
    for (let format = 1; format <= MANIFEST_FORMAT; format++) {
      expect(filesOf('points').filter((file) => file.startsWith(`format-${format}/`))).not.toEqual([]);
      expect(filesOf('sandboxes').filter((file) => file.startsWith(`format-${format}/`))).not.toEqual([]);
    }
  });

  // A format after the first needs its meaning in terms of the present one beside it.
  it.each(filesOf('points'))('the manifest %s is read with all that it says', (file) => {
    expect(parseManifest(textOf(file))).toEqual(JSON.parse(textOf(file)));
  });

  it.each(filesOf('sandboxes'))('the record %s is read with all that it says', (file) => {
    expect(parseRecord(textOf(file))).toEqual(JSON.parse(textOf(file)));
  });
});

describe('of a format that comes later', () => {
  const later = (file: string) =>
    JSON.stringify({ ...JSON.parse(textOf(file)), format: MANIFEST_FORMAT + 1, whatever: { it: 'says' } });

  it('a manifest is refused by name, and is not called damaged', () => {
    for (const file of filesOf('points')) {
      expect(() => parseManifest(later(file))).toThrow(
        expect.objectContaining({
          code: 'snapshot_unfit',
          facts: { need: 'format', needed: `${MANIFEST_FORMAT + 1}`, offered: `${MANIFEST_FORMAT}` },
        }),
      );
    }
  });

  it('a record is refused by name', () => {
    for (const file of filesOf('sandboxes')) {
      expect(() => parseRecord(later(file))).toThrow(
        expect.objectContaining({
          code: 'unavailable',
          message: expect.stringContaining(`format ${MANIFEST_FORMAT + 1}`),
        }),
      );
    }
  });
});
