/** What every archive keeps to. */
import { createHash, randomBytes } from 'node:crypto';
import {
  type AppError,
  type Archive,
  type ArchiveKey,
  archivePath,
  type Digest,
  LISTED_FOLDERS,
  type ListedFolder,
  newId,
  type ProjectId,
} from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

export interface ArchiveUnderTest {
  readonly archive: Archive;
  dispose(): Promise<void>;
}

const chance = { bytes: (count: number) => randomBytes(count) };
const MAX_BYTES = 1024 * 1024;

export const digestOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex') as Digest;

export function chunkKey(bytes: Uint8Array, space = newId('project', chance)): ArchiveKey {
  return { kind: 'chunk', space, digest: digestOf(bytes) };
}

export function archiveSuite(name: string, makeArchive: () => Promise<ArchiveUnderTest>): void {
  describe(`${name} as an archive`, () => {
    let world: ArchiveUnderTest;
    let archive: Archive;
    beforeEach(async () => {
      world = await makeArchive();
      archive = world.archive;
    });
    afterEach(() => world?.dispose());

    const listed = (space: ProjectId, folder: ListedFolder) => Array.fromAsync(archive.list(space, folder));

    it('gives back what was put, byte for byte, whatever its size', async () => {
      for (const size of [0, 1, 70_000, MAX_BYTES]) {
        const bytes = randomBytes(size);
        const key = chunkKey(bytes);
        expect(await archive.has(key)).toBe(false);
        await archive.put(key, bytes);
        expect(await archive.has(key)).toBe(true);
        expect(Buffer.from((await archive.get(key, MAX_BYTES)) ?? []).equals(bytes)).toBe(true);
      }
    });

    it('has nothing of what was not put, and says so', async () => {
      const key = chunkKey(randomBytes(8));
      expect(await archive.get(key, MAX_BYTES)).toBe(null);
      expect(await archive.has(key)).toBe(false);
      for (const folder of LISTED_FOLDERS) expect(await listed(newId('project', chance), folder)).toEqual([]);
      await archive.remove(key);
    });

    it('reads no more than it is told to', async () => {
      const bytes = randomBytes(1000);
      const key = chunkKey(bytes);
      await archive.put(key, bytes);
      expect(await archive.get(key, 1000)).toHaveLength(1000);
      const refused = await archive.get(key, 999).then(
        () => 'read',
        (thrown: AppError) => thrown.code,
      );
      expect(refused).toBe('archive_damaged');
    });

    it('replaces what is damaged there, also when many do so at once', async () => {
      const bytes = randomBytes(100_000);
      const key = chunkKey(bytes);
      await archive.put(key, bytes.subarray(0, 10));
      await Promise.all(Array.from({ length: 4 }, () => archive.put(key, bytes)));
      expect(Buffer.from((await archive.get(key, MAX_BYTES)) ?? []).equals(bytes)).toBe(true);
    });

    it('keeps projects, sandboxes and kinds apart, lists what there is of each, and removes what it is told to', async () => {
      const [space, other] = [newId('project', chance), newId('project', chance)];
      const ids = [newId('sandbox', chance), newId('sandbox', chance)];
      const digests = [1, 2, 3].map((byte) => digestOf(Buffer.of(byte)));
      const [digest = digestOf(Buffer.of(1))] = digests;
      const indexes = ids.flatMap((sandboxId) =>
        digests.map((one) => ({ kind: 'index', space, sandboxId, digest: one }) as const),
      );
      const chunks = digests.slice(1).map((one) => ({ kind: 'chunk', space, digest: one }) as const);
      const marks = [{ kind: 'mark', space, name: 'use-1' } as const];
      for (const key of [...indexes, ...chunks, ...marks]) await archive.put(key, Buffer.of(1));
      const paths = (keys: readonly ArchiveKey[]) => keys.map(archivePath).sort();
      expect(paths(await listed(space, 'indexes'))).toEqual(paths(indexes));
      expect(paths(await listed(space, 'chunks'))).toEqual(paths(chunks));
      expect(paths(await listed(space, 'marks'))).toEqual(paths(marks));
      for (const folder of LISTED_FOLDERS) expect(await listed(other, folder)).toEqual([]);
      expect(await archive.has({ kind: 'chunk', space, digest })).toBe(false);
      const [going, ...staying] = indexes;
      for (let times = 0; times < 2; times++) await archive.remove(going as ArchiveKey);
      expect(paths(await listed(space, 'indexes'))).toEqual(paths(staying));
      expect(paths(await listed(space, 'chunks'))).toEqual(paths(chunks));
    });

    it('makes what may be made once for one of those who ask, and keeps it as it was made', async () => {
      const [space, sandboxId] = [newId('project', chance), newId('sandbox', chance)];
      const key: ArchiveKey = { kind: 'claim', space, sandboxId, digest: digestOf(randomBytes(8)) };
      const names = Array.from({ length: 8 }, (_, at) => Buffer.from(`claimant ${at}`));
      const made = await Promise.all(names.map((name) => archive.create(key, name)));
      expect(made.filter((one) => one)).toHaveLength(1);
      const winner = names[made.indexOf(true)] as Buffer;
      expect(Buffer.from((await archive.get(key, 100)) ?? [])).toEqual(winner);
      expect(await archive.create(key, Buffer.from('late'))).toBe(false);
      expect(Buffer.from((await archive.get(key, 100)) ?? [])).toEqual(winner);
      expect(await listed(space, 'indexes')).toEqual([]);
    });

    it('does nothing once it is told to stop', async () => {
      const key = chunkKey(randomBytes(8));
      const stopped = AbortSignal.abort(new Error('enough'));
      await expect(archive.put(key, Buffer.of(1), stopped)).rejects.toThrow('enough');
      await expect(archive.get(key, MAX_BYTES, stopped)).rejects.toThrow('enough');
      await expect(archive.has(key, stopped)).rejects.toThrow('enough');
      expect(await archive.has(key)).toBe(false);
    });
  });
}
