/** Archives of earlier versions come back whole. How the files come about: `CONTRIBUTING.md`. */
import { globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ArchivedMove } from '@space/archive';
import { parseArchiveRef } from '@space/core';
import { expect, it } from 'vitest';
import { makeWorld } from './world.ts';

const GOLDEN = join(import.meta.dirname, '../golden');

interface Meaning {
  readonly archive: string;
  /** What it says of the sandbox itself; left out: it was made as a copy. */
  readonly move?: ArchivedMove;
  /** Digests of the disk that it boots from, and of disk, memory and device state; null: it has its disk alone. */
  readonly points: readonly { readonly point: string; readonly disk: string; readonly all: readonly string[] | null }[];
}

it.each(globSync('format-*', { cwd: GOLDEN }))(
  'an archive of %s is imported with every byte that went in',
  async (format) => {
    const { archive, move, points } = JSON.parse(readFileSync(join(GOLDEN, format, 'meaning.json'), 'utf8')) as Meaning;
    const ref = parseArchiveRef(archive);
    if (ref === undefined) throw new Error(`${archive} names no archive`);
    await using world = await makeWorld();
    for (const path of globSync('**/*', { cwd: join(GOLDEN, format) })) {
      const file = join(GOLDEN, format, path);
      if (statSync(file).isFile() && path !== 'meaning.json') world.archive.objects.set(path, readFileSync(file));
    }
    const { names, index } = await world.import(ref);
    expect(index.move).toEqual(move);
    expect([...names.keys()]).toEqual(points.map(({ point }) => point));
    for (const { point, disk, all } of points) {
      const copy = [...names].find(([source]) => source === point)?.[1];
      if (copy === undefined) return expect.unreachable(`${point} was not imported`);
      expect(await world.diskOf(world.to, copy)).toBe(disk);
      if (all !== null) expect((await world.content(world.to, copy)).digests).toEqual(all);
    }
  },
);

it('there is one of each present format: of what names secret bindings, and of all else, which earlier versions read', async () => {
  await using world = await makeWorld();
  const point = await world.point(await world.boot());
  const grant = { binding: 'api', placeholder: 'space-secret-0123456789abcdefghjk', env: null };
  const move = { number: 1, generation: 1, nonce: '0'.repeat(32), settings: {}, secrets: [] };
  const formats = [];
  for (const options of [{}, { move }, { move: { ...move, secrets: [grant] } }]) {
    const { ref } = await world.export([point], null, options);
    formats.push((await world.import(ref)).index.format);
  }
  expect(formats).toEqual([1, 1, 2]);
  for (const format of formats) expect(globSync('format-*', { cwd: GOLDEN })).toContain(`format-${format}`);
});
