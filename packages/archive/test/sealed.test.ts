/** Archives that are encrypted: what they show, and that nothing of them opens but where it belongs. */
import { createHash, randomBytes } from 'node:crypto';
import { collectSpace, listArchives, readArchiveKey, readIndex } from '@space/archive';
import {
  type ArchiveRef,
  archivePath,
  type Digest,
  KeyBytes,
  newId,
  type OrganisationId,
  type VaultName,
} from '@space/core';
import { seededChance } from '@space/testkit';
import { describe, expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

const MARKER = 'nobody-reads-this-marker';
const LIMITS = {
  vcpus: { min: 1, max: 2 },
  memoryMib: { min: 1, max: 4, step: 1 },
  diskMib: { min: 1, max: 4, step: 1 },
};
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex') as Digest;

function seal() {
  const organisationId: OrganisationId = newId('organisation', seededChance(5));
  const wrapped = {
    organisationId,
    vault: 'acme' as VaultName,
    reference: { kms: 'cloud', key: 'alias/acme' },
    wrapped: randomBytes(80),
  };
  return { key: new KeyBytes(randomBytes(32)), wrapped };
}

const MOVE = {
  number: 1,
  generation: 1,
  nonce: '0'.repeat(32),
  settings: { env: { TOKEN: MARKER } },
  secrets: [],
};

/** A point of three pieces at least that hold no zeros alone, the marker among them, and a device state with the marker. */
async function sealedWorld() {
  const world = await makeWorld();
  const lifeId = await world.boot(Buffer.alloc(600_000, MARKER));
  await world.write(lifeId, 'memory', 0, randomBytes(300_000));
  await world.write(lifeId, 'memory', 100, Buffer.from(MARKER));
  const point = await world.point(lifeId, { state: MARKER.repeat(3) });
  const own = seal();
  const { ref } = await world.export([point], null, { move: MOVE, seal: own });
  return { world, lifeId, point, seal: own, ref };
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'ok',
    (thrown: { code?: string }) => thrown.code ?? String(thrown),
  );
}

const chunksOf = (world: World) => [...world.archive.objects].filter(([path]) => path.includes('/chunks/'));

/** The objects that tables name: those that are no table themselves open by their plain digest as nothing. */
async function piecesOf(world: World): Promise<readonly (readonly [string, Uint8Array])[]> {
  return chunksOf(world).filter(([, bytes]) => bytes[0] === 1);
}

describe('an encrypted archive', () => {
  it('is imported with every byte that went in, by its key alone', async () => {
    const { world, point, ref, seal } = await sealedWorld();
    await using _ = world;
    expect(await readArchiveKey(world.archive, ref)).toEqual(seal.wrapped);
    const { names, index } = await world.import(ref, new Map(), seal.key);
    expect(index).toMatchObject({ format: 3, template: 'base', move: MOVE });
    const copy = names.get(point) ?? point;
    expect((await world.content(world.to, copy)).digests).toEqual((await world.content(world.from, point)).digests);
    for (const other of [undefined, new KeyBytes(randomBytes(32))]) {
      const before = await world.listing();
      expect(await codeOf(world.import(ref, new Map(), other))).toBe('vault_key_wrong');
      expect(await world.listing()).toEqual(before);
    }
  });

  it('shows nothing of what went in: no content, settings, template or digest of content', async () => {
    const { world, point, ref, seal } = await sealedWorld();
    await using _ = world;
    const { manifest } = await world.content(world.from, point);
    const all = [...world.archive.objects].flatMap(([path, bytes]) => [Buffer.from(path), Buffer.from(bytes)]);
    const found = (text: string) => all.some((bytes) => bytes.includes(text));
    for (const text of [MARKER, 'TOKEN', '"base"', manifest.deviceState?.sha256 ?? '?', 'microvm']) {
      expect(found(text), text).toBe(false);
    }
    // The search finds what is there: the same, not encrypted.
    const { ref: plain } = await world.export([point], null, { move: MOVE });
    const bytes = Buffer.from(world.archive.objects.get(archivePath({ kind: 'index', ...plain })) ?? []);
    expect(bytes.includes(MARKER)).toBe(true);
    expect(seal.wrapped.wrapped.length).toBe(80);
    expect(ref.digest).not.toBe(plain.digest);
  });

  it('names its pieces so that who knows the content cannot tell that it is there', async () => {
    const { world, seal: own, point } = await sealedWorld();
    await using _ = world;
    const image = Buffer.alloc(600_000, MARKER);
    const known = sha256(image.subarray(0, 256 * 1024));
    const names = () => chunksOf(world).map(([path]) => path.split('/').at(-1));
    expect(names()).not.toContain(known);
    const before = new Set(names());
    await world.export([point], null, { seal: { ...own, key: own.key.copy() } });
    expect(new Set(names())).toEqual(before);
    // Under another key, nothing but tables of zeros could be the same.
    await world.export([point], null, { seal: seal() });
    expect(names().length).toBe(2 * before.size);
    await world.export([point]);
    expect(names()).toContain(known);
  });

  it('is read, sent and written but for what has changed, from an archive under the same key alone', async () => {
    const { world, lifeId, point, seal: own } = await sealedWorld();
    await using _ = world;
    const { ref: plain } = await world.export([point]);
    const { ref: base } = await world.export([point], null, { seal: own });
    await world.write(lifeId, 'memory', 0, randomBytes(4096));
    const next = await world.point(lifeId, { parent: point });
    const fromPlain = await world.export([point, next], plain, { seal: own });
    const fromOther = await world.export([point, next], base, { seal: seal() });
    const fromOwn = await world.export([point, next], base, { seal: own });
    expect(fromOwn.readBytes).toBeLessThan(fromPlain.readBytes);
    expect(fromOther.readBytes).toBe(fromPlain.readBytes);
    for (const { ref } of [fromPlain, fromOwn]) {
      const { names } = await world.import(ref, new Map(), own.key);
      const copy = names.get(next) ?? next;
      expect((await world.content(world.to, copy)).digests).toEqual((await world.content(world.from, next)).digests);
    }
  });

  it('is listed and collected without a key, and what is left of it is whole', async () => {
    const { world, point, ref, seal: own } = await sealedWorld();
    await using _ = world;
    const other = await world.point(await world.boot());
    const gone = await world.export([other], null, { seal: own });
    const listed = await listArchives(world.archive, world.space, { sandboxId: null, limit: 10 });
    expect(listed.map(({ fault, isMove, points }) => ({ fault, isMove, points }))).toEqual(
      expect.arrayContaining([
        { fault: null, isMove: true, points: 1 },
        { fault: null, isMove: false, points: 1 },
      ]),
    );
    await world.archive.remove({ kind: 'index', ...gone.ref });
    const chance = seededChance(3);
    const clock = { now: () => Date.now(), monotonicMs: () => performance.now() };
    const collected = await collectSpace({ archive: world.archive, space: world.space, clock, chance });
    expect(collected?.removed).toBeGreaterThan(0);
    const { names } = await world.import(ref, new Map(), own.key);
    expect(names.has(point)).toBe(true);
  });
});

describe('a piece of an encrypted archive', () => {
  const flip = (at: (bytes: Uint8Array) => number) => (bytes: Uint8Array) =>
    bytes.map((byte, index) => (index === at(bytes) ? byte ^ 1 : byte));
  it.each<[string, (bytes: Uint8Array, others: readonly Uint8Array[]) => Uint8Array]>([
    ['another version', flip(() => 0)],
    ['another nonce', flip(() => 5)],
    ['a changed first byte', flip(() => 13)],
    ['a changed middle', flip(({ length }) => length >> 1)],
    ['a changed last byte', flip(({ length }) => length - 17)],
    ['a changed tag', flip(({ length }) => length - 1)],
    ['a byte less', (bytes) => bytes.subarray(0, bytes.length - 1)],
    ['a byte more', (bytes) => Buffer.concat([bytes, Buffer.of(0)])],
    ['nothing', () => Buffer.of()],
    ['half of it', (bytes) => bytes.subarray(0, bytes.length >> 1)],
    ['the bytes of another piece', (bytes, others) => others.find((other) => other !== bytes) ?? Buffer.of()],
  ])('that has %s is refused, and nothing is kept', async (_what, change) => {
    const { world, ref, seal } = await sealedWorld();
    await using _ = world;
    const pieces = await piecesOf(world);
    expect(pieces.length).toBeGreaterThan(3);
    for (const [path, bytes] of pieces) {
      const others = pieces.map(([, other]) => other);
      world.archive.objects.set(path, change(bytes, others));
      const before = await world.listing();
      expect(await codeOf(world.import(ref, new Map(), seal.key)), path).toBe('archive_damaged');
      expect(await world.listing()).toEqual(before);
      world.archive.objects.set(path, bytes);
    }
    await world.import(ref, new Map(), seal.key);
  });

  it('of another key, under its name, is refused', async () => {
    const { world, ref, seal: own, point } = await sealedWorld();
    await using _ = world;
    const pieces = await piecesOf(world);
    await world.export([point], null, { seal: seal() });
    const all = await piecesOf(world);
    const foreign = all.filter(([path]) => !pieces.some(([known]) => known === path));
    const [first] = pieces;
    const [graft] = foreign;
    if (first === undefined || graft === undefined) return expect.unreachable('there are pieces of both');
    world.archive.objects.set(first[0], graft[1]);
    expect(await codeOf(world.import(ref, new Map(), own.key))).toBe('archive_damaged');
  });
});

describe('the index of an encrypted archive', () => {
  /** Under the name that its bytes have now, as who writes to the storage can give it. */
  function put(world: World, ref: ArchiveRef, text: string, path: Partial<ArchiveRef> = {}): ArchiveRef {
    const forged = { ...ref, ...path, digest: sha256(Buffer.from(text)) };
    world.archive.objects.set(archivePath({ kind: 'index', ...forged }), Buffer.from(text));
    return forged;
  }
  const textOf = (world: World, ref: ArchiveRef) =>
    Buffer.from(world.archive.objects.get(archivePath({ kind: 'index', ...ref })) ?? []).toString();

  it('whose halves were changed, or are of two archives, does not open', async () => {
    const { world, ref, seal, lifeId, point } = await sealedWorld();
    await using _ = world;
    const one = JSON.parse(textOf(world, ref)) as { header: string; sealed: string };
    const later = await world.point(lifeId, { parent: point });
    const two = JSON.parse(textOf(world, (await world.export([later], null, { seal })).ref)) as typeof one;
    const body = Buffer.from(one.sealed, 'base64');
    const flipped = (at: number) =>
      Buffer.from(body.map((byte, index) => (index === at ? byte ^ 1 : byte))).toString('base64');
    const { sealed, header } = one;
    const changes = [
      { header: two.header, sealed },
      { header, sealed: two.sealed },
      { header: header.replace('"isMove":true', '"isMove":false'), sealed },
      { header: header.replace('"files":[', '"files": ['), sealed },
      ...[0, 5, 13, body.length >> 1, body.length - 17, body.length - 1].map((at) => ({ header, sealed: flipped(at) })),
      { header, sealed: body.subarray(0, body.length - 1).toString('base64') },
      { header, sealed: '' },
    ];
    for (const change of changes) {
      expect(change).not.toEqual({ header, sealed });
      const forged = put(world, ref, JSON.stringify({ ...one, ...change }));
      expect(await codeOf(readIndex(world.archive, forged, { limits: LIMITS, key: seal.key }))).toBe('vault_key_wrong');
    }
  });

  it('does not open as that of another sandbox or project', async () => {
    const { world, ref, seal } = await sealedWorld();
    await using _ = world;
    const chance = seededChance(77);
    const text = textOf(world, ref);
    for (const place of [{ sandboxId: newId('sandbox', chance) }, { space: newId('project', chance) }]) {
      const moved = put(world, ref, text, place);
      expect(await codeOf(readIndex(world.archive, moved, { limits: LIMITS, key: seal.key }))).toBe('vault_key_wrong');
    }
  });

  it('that was changed under its own name is told as damaged', async () => {
    const { world, ref, seal } = await sealedWorld();
    await using _ = world;
    const path = archivePath({ kind: 'index', ...ref });
    world.archive.objects.set(path, Buffer.from(`${textOf(world, ref)} `));
    expect(await codeOf(readIndex(world.archive, ref, { limits: LIMITS, key: seal.key }))).toBe('archive_damaged');
  });
});
