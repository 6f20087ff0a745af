/** A vault that is full says so, harms nothing, and can be emptied. */
import { randomFillSync } from 'node:crypto';
import { open } from 'node:fs/promises';
import { type AppError, type LifeId, newId, spaceMarks, type Vault } from '@space/core';
import {
  bootLife,
  manifestFor,
  newLife,
  newSnapshot,
  readLife,
  takePoint,
  writeLife,
} from '@space/testkit/vault-suite';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type BtrfsWorld, makeWorld } from './world.ts';

const MIB = 1024 * 1024;
const IMAGE = 'a'.repeat(64);
const bootable = { kind: 'image', digest: IMAGE, diskBytes: 1024 * MIB, memoryBytes: MIB } as const;
let world: BtrfsWorld;
let vault: Vault;
beforeEach(async () => {
  world = await makeWorld(300 * MIB);
  vault = world.vault;
});
afterEach(() => world?.dispose());

/** A life that takes all the space there is. */
async function fill(): Promise<LifeId> {
  const lifeId = newLife();
  await vault.createLife(lifeId, bootable);
  await using disk = await open(vault.lifeFiles(lifeId).disk, 'r+');
  const chunk = Buffer.alloc(MIB);
  const writeAll = async () => {
    for (let offset = 0; offset < 1024 * MIB; offset += chunk.length) {
      await disk.write(randomFillSync(chunk), 0, chunk.length, offset);
      await disk.datasync();
    }
  };
  await expect(writeAll()).rejects.toMatchObject({ code: 'ENOSPC' });
  return lifeId;
}

/** What a new life may still have as its memory. */
async function roomFor(): Promise<number> {
  const { totalBytes, availableBytes } = await vault.space();
  return Math.floor((availableBytes - spaceMarks(totalBytes).writersBytes - 2 * MIB) / MIB) * MIB;
}

/** Writes beside the disk's own blocks, as a guest does that no limit holds. */
async function fillUp(lifeId: LifeId, bytes: number): Promise<void> {
  await using disk = await open(vault.lifeFiles(lifeId).disk, 'r+');
  await disk.write(randomFillSync(Buffer.alloc(bytes)), 0, bytes, 0);
  await disk.datasync();
}

const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => 'done',
    (thrown: AppError) => thrown.code,
  );

describe('a full vault', () => {
  it('refuses new lives and points by name, and keeps what it has', async () => {
    const lifeId = await bootLife(vault);
    await writeLife(vault, lifeId, 'memory', 'kept');
    const kept = await takePoint(vault, lifeId);
    await fill();
    expect((await vault.space()).availableBytes).toBeLessThan(8 * MIB);
    expect(await codeOf(vault.createLife(newLife(), { kind: 'point', snapshotId: kept }))).toBe('insufficient_space');

    const snapshotId = newSnapshot();
    const captured = await codeOf(vault.capture(lifeId, snapshotId));
    expect(['done', 'insufficient_space']).toContain(captured);
    const committed = await codeOf(vault.commit(manifestFor(snapshotId, Buffer.from('s')), Buffer.from('s')));
    expect(committed).toBe('insufficient_space');
    await vault.abandon(snapshotId);
    expect(await codeOf(vault.requireRoom(lifeId))).toBe('insufficient_space');

    expect(await vault.points()).toEqual([kept]);
    await vault.readPoint(kept);
    expect(await readLife(vault, lifeId, 'memory', 4)).toBe('kept');
  });

  it('can still record sandboxes, delete, and be used again', async () => {
    const lifeId = await bootLife(vault);
    const kept = await takePoint(vault, lifeId);
    const filler = await fill();
    const sandboxId = newId('sandbox', { bytes: (count) => new Uint8Array(count) });
    const size = { vcpus: 1, memoryMib: 2, diskMib: 4 };
    await vault.writeSandbox({
      format: 1,
      sandboxId,
      epoch: 1,
      generation: 1,
      size,
      template: 't',
      head: kept,
      life: null,
    });
    await vault.deletePoint(kept);
    await vault.deleteLife(filler);
    await vi.waitFor(() => vault.createLife(newLife(), bootable), { timeout: 10_000, interval: 50 });
    expect((await vault.space()).availableBytes).toBeGreaterThan(100 * MIB);
    const again = await takePoint(vault, lifeId);
    await vault.createLife(newLife(), { kind: 'point', snapshotId: again });
  });

  it('counts what is dirty in memory at once, before it is written out', async () => {
    await bootLife(vault);
    const lifeId = newLife();
    await vault.createLife(lifeId, { ...bootable, memoryBytes: 64 * MIB });
    const before = (await vault.space()).availableBytes;
    await using memory = await open(vault.lifeFiles(lifeId).memory, 'r+');
    await memory.write(Buffer.alloc(48 * MIB, 1));
    expect(before - (await vault.space()).availableBytes).toBeGreaterThanOrEqual(48 * MIB);
  });

  it('takes the last point of a life that ends where it refuses one of a life that goes on', async () => {
    const lifeId = await bootLife(vault);
    await writeLife(vault, lifeId, 'memory', 'kept');
    // Promised to a guest that has not written to it yet, but to its disk: only what ends may still have a point.
    const other = newLife();
    await vault.createLife(other, { ...bootable, memoryBytes: await roomFor() });
    const taken = newSnapshot();
    await fillUp(other, 8 * MIB);
    const state = Buffer.from('s');
    expect(await codeOf(vault.requireRoom(lifeId))).toBe('insufficient_space');
    await vault.seal(lifeId, manifestFor(taken, state), state);
    await vault.readPoint(taken);
  });

  it('gives the last bytes to one of two who ask at once', async () => {
    await bootLife(vault);
    const { availableBytes } = await vault.space();
    const memoryBytes = Math.floor((availableBytes * 0.6) / MIB) * MIB;
    const asked = [newLife(), newLife()].map((lifeId) =>
      codeOf(vault.createLife(lifeId, { kind: 'image', digest: IMAGE, diskBytes: 4 * MIB, memoryBytes })),
    );
    expect(await Promise.all(asked)).toContain('insufficient_space');
    expect((await vault.lives()).length).toBeLessThanOrEqual(2);
  });
});
