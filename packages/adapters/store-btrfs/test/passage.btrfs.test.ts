/** From one Btrfs through an archive into another: the file system says what has changed, and files stay sparse. */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { exportPoints, importPoints, readIndex } from '@space/archive';
import { type ArchiveRef, newId, parseArchiveRef, type SandboxId, SIZE_LIMITS, type SnapshotId } from '@space/core';
import { FakeArchive } from '@space/testkit';
import { bootLife, manifestFor, newLife, newSnapshot } from '@space/testkit/vault-suite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type BtrfsWorld, makeWorld } from './world.ts';

const MIB = 2 ** 20;
const LIMITS = {
  ...SIZE_LIMITS,
  memoryMib: { min: 1, max: 64, step: 1 },
  diskMib: { min: 1, max: 64, step: 1 },
};
const chance = { bytes: (count: number) => randomBytes(count) };

let [source, target]: (BtrfsWorld | undefined)[] = [];
beforeEach(async () => {
  source = await makeWorld();
  target = await makeWorld();
});
afterEach(async () => {
  await source?.dispose();
  await target?.dispose();
});

describe('points of a Btrfs', () => {
  it('go to another one: only what changed is read, sent and written, and what is empty stays so', async () => {
    if (source === undefined || target === undefined) throw new Error('no world');
    const [from, to, archive] = [source.vault, target.vault, new FakeArchive()];
    const lifeId = await bootLife(from);
    const sandboxId = newId('sandbox', chance);
    const state = Buffer.from('device state');
    const point = async (parent: SnapshotId | null) => {
      const snapshotId = newSnapshot();
      const owner = { kind: 'sandbox', sandboxId, lifeId, generation: 1 } as const;
      await from.flush(lifeId);
      await from.capture(lifeId, snapshotId);
      await from.commit({ ...manifestFor(snapshotId, state), owner, parent }, state);
      return snapshotId;
    };
    const write = async (file: 'disk' | 'memory', at: number, bytes: Uint8Array) => {
      await using handle = await open(from.lifeFiles(lifeId)[file], 'r+');
      await handle.write(bytes, 0, bytes.length, at);
    };
    const space = newId('project', chance);
    const send = async (points: readonly SnapshotId[], base: ArchiveRef | null) => {
      const facts = { sandboxId, template: 'base', madeAt: new Date(0).toISOString(), limits: LIMITS, seal: null };
      const plan = { vault: from, archive, space, points, base, ...facts };
      const last = (await Array.fromAsync(exportPoints(plan))).at(-1);
      const ref = last?.kind === 'done' ? parseArchiveRef(last.archive) : undefined;
      return last !== undefined && ref !== undefined ? { ...last, ref } : expect.unreachable('no end');
    };

    await write('memory', 0, randomBytes(MIB));
    const first = await point(null);
    const whole = await send([first], null);
    await write('memory', 4096, randomBytes(4096));
    await write('memory', MIB / 2, Buffer.alloc(MIB / 4));
    await write('disk', 2 * MIB, randomBytes(4096));
    const second = await point(first);
    const changed = await send([first, second], whole.ref);
    // Two pieces of memory, of which one is zeros now, one of the disk, and the device state.
    expect(changed.readBytes).toBe(3 * 256 * 1024 + state.length);
    expect(changed.sentBytes).toBeLessThan(300 * 1024);

    const index = await readIndex(archive, changed.ref, { limits: LIMITS });
    const names = new Map([first, second].map((name) => [name, newSnapshot()]));
    const copy: SandboxId = newId('sandbox', chance);
    const plan = {
      vault: to,
      archive,
      space,
      points: index.points,
      as: { kind: 'copy', names, sandboxId: copy, generation: 1, disksOnly: false } as const,
      chance,
    };
    const events = await Array.fromAsync(importPoints({ ...plan, check: () => undefined }));
    const [afterFirst = 0, afterSecond = 0] = events.map(({ writtenBytes }) => writtenBytes);
    expect(afterSecond - afterFirst).toBe(2 * 256 * 1024);

    for (const [there, here] of names) {
      const [before, after] = [newLife(), newLife()];
      const sourceFiles = await from.createLife(before, { kind: 'point', snapshotId: there });
      const copyFiles = await to.createLife(after, { kind: 'point', snapshotId: here });
      for (const file of ['disk', 'memory'] as const) {
        const [expected, found] = [createReadStream(sourceFiles[file]), createReadStream(copyFiles[file])];
        expect((await buffer(found)).equals(await buffer(expected)), file).toBe(true);
        expect((await stat(copyFiles[file])).mode & 0o777).toBe(0o640);
        expect((await stat(copyFiles[file])).blocks).toBeLessThanOrEqual((await stat(sourceFiles[file])).blocks + 512);
      }
    }
  });
});
