/** An archive that somebody else has had in hand: whatever is in it, nothing of it is believed. */
import { hash, randomBytes } from 'node:crypto';
import { zstdCompressSync } from 'node:zlib';
import {
  type AppError,
  type ArchiveRef,
  archivePath,
  type Digest,
  formatArchiveRef,
  parseArchiveRef,
} from '@space/core';
import { describe, expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

const digestOf = (bytes: Uint8Array) => hash('sha256', bytes, 'hex') as Digest;

async function exported(): Promise<{ world: World; ref: ArchiveRef }> {
  const world = await makeWorld();
  return { world, ref: (await world.export([await world.point(await world.boot())])).ref };
}

/** Nothing may stay of it. */
async function refusalOf(world: World, ref: ArchiveRef): Promise<AppError> {
  const before = await world.listing();
  const refused = await world.import(ref).then(
    () => expect.unreachable('it was imported'),
    (thrown: AppError) => thrown,
  );
  expect(await world.listing()).toEqual(before);
  return refused;
}

/** The index, changed, under the name that its bytes now have: as who has made the archive can. */
function forge(world: World, ref: ArchiveRef, change: (text: string) => string | Uint8Array): ArchiveRef {
  const text = Buffer.from(world.archive.objects.get(archivePath({ kind: 'index', ...ref })) ?? []).toString();
  const bytes = Buffer.from(change(text) as string);
  const forged = { ...ref, digest: digestOf(bytes) };
  world.archive.objects.set(archivePath({ kind: 'index', ...forged }), bytes);
  return forged;
}

describe('a chunk', () => {
  const bomb = zstdCompressSync(Buffer.alloc(2 ** 28));
  it.each<[string, (bytes: Uint8Array) => Uint8Array | null]>([
    ['is missing', () => null],
    ['was cut', (bytes) => bytes.subarray(0, bytes.length - 3)],
    ['is empty', () => new Uint8Array()],
    ['has a flipped bit', (bytes) => bytes.map((byte, at) => (at === bytes.length >> 1 ? byte ^ 1 : byte))],
    ['is another', () => zstdCompressSync(randomBytes(256 * 1024))],
    ['is too long', () => zstdCompressSync(randomBytes(256 * 1024 + 1))],
    ['is larger than any', () => randomBytes(2 ** 20)],
    ['becomes 256 MB when it is unpacked', () => bomb],
  ])('that %s is told, and nothing is kept', async (_, change) => {
    const { world, ref } = await exported();
    await using _world = world;
    for (const [path, bytes] of [...world.archive.objects]) {
      if (!path.includes('/chunks/')) continue;
      const changed = change(bytes);
      if (changed === null) world.archive.objects.delete(path);
      else world.archive.objects.set(path, changed);
      expect(await refusalOf(world, ref)).toMatchObject({
        code: 'archive_damaged',
        message: expect.stringContaining('chunk'),
      });
      world.archive.objects.set(path, bytes);
    }
    await world.import(ref);
  });
});

describe('an index', () => {
  it('that is missing or was changed is told', async () => {
    const { world, ref } = await exported();
    await using _world = world;
    const missing = { ...ref, digest: digestOf(Buffer.of(1)) };
    expect((await refusalOf(world, missing)).code).toBe('not_found');
    const path = archivePath({ kind: 'index', ...ref });
    const bytes = world.archive.objects.get(path) ?? new Uint8Array();
    for (const changed of [bytes.subarray(1), Buffer.concat([bytes, Buffer.from(' ')])]) {
      world.archive.objects.set(path, changed);
      expect((await refusalOf(world, ref)).code).toBe('archive_damaged');
    }
  });

  it.each<[string, (text: string) => string | Uint8Array, string]>([
    ['is no JSON', () => 'no JSON', 'archive_damaged'],
    ['is no UTF-8', () => Buffer.of(0xff, 0xfe), 'archive_damaged'],
    ['has a later format', (text) => text.replace('"format":1', '"format":4'), 'archive_unsupported'],
    ['has a field too many', (text) => text.replace('{"kind"', '{"more":1,"kind"'), 'archive_damaged'],
    ['is one of something else', (text) => text.replace('space archive', 'other archive'), 'archive_damaged'],
    [
      'has pieces of another length',
      (text) => text.replace('"pieceBytes":262144', '"pieceBytes":1'),
      'archive_damaged',
    ],
    ['has a larger size than can be had', (text) => resize(text, 1024), 'size_impossible'],
    [
      'has a size that its files do not have',
      (text) => text.replace('"memoryMib":1', '"memoryMib":2'),
      'archive_damaged',
    ],
    ['has a template that is a path', (text) => text.replace('"base"', '"../../etc"'), 'archive_damaged'],
    ['was taken of running processes', (text) => text.replace('"frozen":true', '"frozen":false'), 'archive_damaged'],
    [
      'has a head of its own',
      (text) => text.replace(/"head":"[^"]*"/, '"head":"snp_0000000000000000"'),
      'archive_damaged',
    ],
    ['names a path for a point', (text) => text.replaceAll(/snp_[^"]*/g, '../../../x'), 'archive_damaged'],
    [
      'names a path for a chunk',
      (text) => text.replace(/"table":\["[^"]*"/, '"table":["../indexes/x"'),
      'archive_damaged',
    ],
    [
      'names a chunk of something else',
      (text) => text.replace(/("disk":.*?"table":\[")[^"]*/, `$1${digestOf(Buffer.of(7))}`),
      'archive_damaged',
    ],
    ['has a table too many', (text) => text.replace(/"table":\["/, '"table":[null,"'), 'archive_damaged'],
    ['has 4 GB of device state', (text) => text.replaceAll(/("sizeBytes":)12\b/g, '$14294967296'), 'archive_damaged'],
    ['holds no point', (text) => text.replace(/"points":\[.*\]/s, '"points":[]'), 'archive_damaged'],
    ['holds a point twice', (text) => text.replace(/"points":\[(.*)\]/s, '"points":[$1,$1]'), 'archive_damaged'],
    ['is that of another sandbox', (text) => text.replaceAll(/sbx_[^"]*/g, 'sbx_0000000000000000'), 'archive_damaged'],
  ])('that %s is refused, though its name fits', async (_, change, code) => {
    const { world, ref } = await exported();
    await using _world = world;
    expect((await refusalOf(world, forge(world, ref, change))).code).toBe(code);
  });

  it('has nothing of another project, also when it names it rightly', async () => {
    const { world, ref } = await exported();
    await using _world = world;
    const elsewhere = { ...ref, space: 'prj_0000000000000000' as ArchiveRef['space'] };
    const bytes = world.archive.objects.get(archivePath({ kind: 'index', ...ref })) ?? new Uint8Array();
    world.archive.objects.set(archivePath({ kind: 'index', ...elsewhere }), bytes);
    expect((await refusalOf(world, elsewhere)).code).toBe('archive_damaged');
  });

  it('whatever stands in any of its places, is refused by name or imported whole', async () => {
    const { world, ref } = await exported();
    await using _world = world;
    const text = Buffer.from(world.archive.objects.get(archivePath({ kind: 'index', ...ref })) ?? []).toString();
    const values = [null, -1, 0, 1.5, 2 ** 53, '', '/', '../..', '\0', 'x'.repeat(10_000), [], {}, true];
    const allowed = ['archive_damaged', 'archive_unsupported', 'size_impossible'];
    for (const path of pathsOf(JSON.parse(text))) {
      for (const value of values) {
        const whole = JSON.parse(text);
        put(whole, path, value);
        if (JSON.stringify(whole) === JSON.stringify(JSON.parse(text))) continue;
        const outcome = await world.import(forge(world, ref, () => JSON.stringify(whole))).then(
          () => 'imported',
          (thrown: AppError) => thrown.code,
        );
        // What a machine must be is compared when it is started; a parent that is not there is none; zeros are content, too.
        const free = /machine\.|\.parent$|generation$|vcpus$|(disk|memory)\.table\.0$/.test(path.join('.'));
        if (!free) expect(allowed, `${path.join('.')} = ${JSON.stringify(value).slice(0, 30)}`).toContain(outcome);
      }
    }
    expect(await world.listing()).not.toContainEqual(expect.stringMatching(/^staging\/.+/));
  });
});

function resize(text: string, factor: number): string {
  const whole = JSON.parse(text);
  const [point] = whole.points;
  for (const [file, field] of [
    ['disk', 'diskMib'],
    ['memory', 'memoryMib'],
  ] as const) {
    point.manifest.size[field] *= factor;
    const { sizeBytes } = point[file];
    point[file].sizeBytes = sizeBytes * factor;
    point[file].table = Array(Math.ceil((sizeBytes * factor) / 2 ** 18 / 8192)).fill(null);
  }
  return JSON.stringify(whole);
}

/** Of every value that is no object, and every object. */
function pathsOf(value: unknown, path: readonly (string | number)[] = []): (readonly (string | number)[])[] {
  if (typeof value !== 'object' || value === null) return [path];
  const inner = Object.entries(value).flatMap(([key, item]) => pathsOf(item, [...path, key]));
  return path.length === 0 ? inner : [path, ...inner];
}

function put(whole: unknown, path: readonly (string | number)[], value: unknown): void {
  let holder = whole as Record<string | number, unknown>;
  for (const key of path.slice(0, -1)) holder = holder[key] as Record<string | number, unknown>;
  holder[path.at(-1) ?? ''] = value;
}

describe('the name of an archive', () => {
  it('is read back as it was written, and nothing else is one', async () => {
    const { world, ref } = await exported();
    await using _world = world;
    const name = formatArchiveRef(ref);
    expect(parseArchiveRef(name)).toEqual(ref);
    for (const no of [
      '',
      '/',
      `${name}/`,
      `/${name}`,
      `${name}/x`,
      name.replace('prj', 'org'),
      '../..',
      name.toUpperCase(),
    ]) {
      expect(parseArchiveRef(no)).toBe(undefined);
    }
  });
});
