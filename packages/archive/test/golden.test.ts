/** Archives of earlier versions come back whole. How the files come about: `CONTRIBUTING.md`. */
import { globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ArchivedMove } from '@space/archive';
import { KeyBytes, type OrganisationId, parseArchiveRef, type VaultName } from '@space/core';
import { expect, it } from 'vitest';
import { makeWorld } from './world.ts';

const GOLDEN = join(import.meta.dirname, '../golden');

interface Meaning {
  readonly archive: string;
  /** Of one that is encrypted. */
  readonly key?: string;
  /** What it says of the sandbox itself; left out: it was made as a copy. */
  readonly move?: ArchivedMove;
  /** Digests of the disk that it boots from, and of disk, memory and device state; null: it has its disk alone. */
  readonly points: readonly { readonly point: string; readonly disk: string; readonly all: readonly string[] | null }[];
}

it.each(globSync('format-*', { cwd: GOLDEN }))(
  'an archive of %s is imported with every byte that went in',
  async (format) => {
    const { archive, key, move, points } = JSON.parse(
      readFileSync(join(GOLDEN, format, 'meaning.json'), 'utf8'),
    ) as Meaning;
    const ref = parseArchiveRef(archive);
    if (ref === undefined) throw new Error(`${archive} names no archive`);
    await using world = await makeWorld();
    for (const path of globSync('**/*', { cwd: join(GOLDEN, format) })) {
      const file = join(GOLDEN, format, path);
      if (statSync(file).isFile() && path !== 'meaning.json') world.archive.objects.set(path, readFileSync(file));
    }
    const { names, index } = await world.import(
      ref,
      new Map(),
      key === undefined ? undefined : new KeyBytes(Buffer.from(key, 'hex')),
    );
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

it('there is one of each present format: of what is encrypted, of what names secret bindings, and of all else', async () => {
  await using world = await makeWorld();
  const point = await world.point(await world.boot());
  const grant = { binding: 'api', placeholder: 'space-secret-0123456789abcdefghjk', env: null };
  const move = { number: 1, generation: 1, nonce: '0'.repeat(32), settings: {}, secrets: [] };
  const formats = [];
  const key = new KeyBytes(Buffer.alloc(32, 7));
  const organisationId = 'org_0123456789abcdef' as OrganisationId;
  const reference = { kms: 'cloud', key: 'alias/acme' };
  const wrapped = { organisationId, vault: 'acme' as VaultName, reference, wrapped: Buffer.alloc(90) };
  const secret = { move: { ...move, secrets: [grant] } };
  for (const options of [{}, { move }, secret, { ...secret, seal: { key, wrapped } }]) {
    const { ref } = await world.export([point], null, options);
    formats.push((await world.import(ref, new Map(), 'seal' in options ? key : undefined)).index.format);
  }
  expect(formats).toEqual([1, 1, 2, 3]);
  for (const format of formats) expect(globSync('format-*', { cwd: GOLDEN })).toContain(`format-${format}`);
});
