/**
 * What every vault promises, as tests that the fake and the real adapters both pass. It sees a vault only through its
 * port and the files of its lives, which it keeps small.
 */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, open, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  AppError,
  kindOf,
  type LifeId,
  newId,
  PIECE,
  type PointManifest,
  type SandboxRecord,
  type SnapshotId,
  type Vault,
} from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

/** One vault in a world of its own. */
export interface VaultUnderTest {
  readonly vault: Vault;
  /** Closes the vault and opens the same storage again. */
  reopen(): Promise<Vault>;
  /** Leaves nothing behind, also after a failed test. */
  dispose(): Promise<void>;
}

const MIB = 1024 * 1024;
const SIZE = { vcpus: 1, memoryMib: 2, diskMib: 4 };
const IMAGE = 'a'.repeat(64);
const IMAGE_TEXT = 'the root disk of a template';
const DEVICE_STATE = Buffer.from('device state of one instant');
const chance = { bytes: (count: number) => randomBytes(count) };

export const newLife = (): LifeId => newId('life', chance);
export const newSnapshot = (): SnapshotId => newId('snapshot', chance);

/** A manifest that fits lives made by `bootLife`. */
export function manifestFor(snapshotId: SnapshotId, deviceState: Uint8Array = DEVICE_STATE): PointManifest {
  const sha256 = createHash('sha256').update(deviceState).digest('hex');
  return {
    format: 1,
    snapshotId,
    owner: { kind: 'sandbox', sandboxId: newId('sandbox', chance), lifeId: newLife(), generation: 1 },
    parent: null,
    size: SIZE,
    machine: {
      runtime: 'fake',
      vmmBuild: 'build',
      machine: 'microvm',
      cpuModel: 'max',
      accelerator: 'tcg',
      kernelDigest: 'kernel',
      initramfsDigest: 'initramfs',
    },
    deviceState: { sha256, sizeBytes: deviceState.byteLength },
    frozen: true,
    takenAt: '2026-11-29T17:00:00.000Z',
  };
}

/** A new life from an image that is imported if need be. */
export async function bootLife(vault: Vault): Promise<LifeId> {
  if (!(await vault.hasImage(IMAGE))) {
    const folder = await mkdtemp(join(tmpdir(), 'space-image-'));
    try {
      await writeFile(join(folder, 'root.img'), IMAGE_TEXT.padEnd(MIB, '.'));
      await vault.importImage(IMAGE, join(folder, 'root.img'));
    } finally {
      await rm(folder, { recursive: true });
    }
  }
  const lifeId = newLife();
  const [diskBytes, memoryBytes] = [SIZE.diskMib * MIB, SIZE.memoryMib * MIB];
  await vault.createLife(lifeId, { kind: 'image', digest: IMAGE, diskBytes, memoryBytes });
  return lifeId;
}

/** Writes at the start of a life's file, as its VM would. */
export async function writeLife(vault: Vault, lifeId: LifeId, file: 'disk' | 'memory', text: string): Promise<void> {
  await using handle = await open(vault.lifeFiles(lifeId)[file], 'r+');
  await handle.write(text, 0);
}

export async function readLife(vault: Vault, lifeId: LifeId, file: 'disk' | 'memory', length: number): Promise<string> {
  return (await readFile(vault.lifeFiles(lifeId)[file])).toString('utf8', 0, length);
}

/** The whole way to a point, as a node takes it. */
export async function takePoint(vault: Vault, lifeId: LifeId, deviceState = DEVICE_STATE): Promise<SnapshotId> {
  const snapshotId = newSnapshot();
  await vault.requireRoom(lifeId);
  await vault.flush(lifeId);
  await vault.seal(lifeId, manifestFor(snapshotId, deviceState), deviceState);
  return snapshotId;
}

async function fork(vault: Vault, snapshotId: SnapshotId): Promise<LifeId> {
  const lifeId = newLife();
  await vault.createLife(lifeId, { kind: 'point', snapshotId });
  return lifeId;
}

/** The code of the `AppError` that the call must fail with. */
async function codeOf(call: Promise<unknown>): Promise<string> {
  return await call.then(
    () => 'no error',
    (thrown: AppError) => thrown.code,
  );
}

export function vaultSuite(name: string, makeVault: () => Promise<VaultUnderTest>): void {
  describe(`${name} as a vault`, () => {
    let world: VaultUnderTest;
    let vault: Vault;
    beforeEach(async () => {
      world = await makeVault();
      vault = world.vault;
    });
    afterEach(() => world?.dispose());

    lifeCases(() => vault);
    keptLifeCases(
      () => vault,
      () => world.reopen(),
    );
    pointCases(() => vault);
    diskPointCases(() => vault);
    forkCases(() => vault);
    passageCases(() => vault);
    reopenCases(
      () => vault,
      () => world.reopen(),
    );
  });
}

function lifeCases(vaultOf: () => Vault): void {
  it('boots a life from an image: its disk grown, its memory empty', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    const { disk, memory } = vault.lifeFiles(lifeId);
    expect(await readLife(vault, lifeId, 'disk', IMAGE_TEXT.length)).toBe(IMAGE_TEXT);
    expect((await stat(disk)).size).toBe(SIZE.diskMib * MIB);
    expect(await readFile(memory)).toEqual(Buffer.alloc(SIZE.memoryMib * MIB));
    expect(await vault.lives()).toEqual([lifeId]);
  });

  it('says how much was rewritten since the last point, and no more', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    await writeLife(vault, lifeId, 'memory', 'x'.repeat(MIB));
    await writeLife(vault, lifeId, 'disk', 'x'.repeat(MIB));
    const first = await takePoint(vault, lifeId);
    expect(await vault.changed(lifeId)).toMatchObject({ diskBytes: 0, memoryBytes: 0 });
    await writeLife(vault, lifeId, 'memory', 'y'.repeat(64 * 1024));
    await vault.flush(lifeId);
    expect(await vault.changed(lifeId)).toMatchObject({ diskBytes: 0, memoryBytes: 64 * 1024 });
    await takePoint(vault, lifeId);
    await writeLife(vault, lifeId, 'disk', 'z'.repeat(4096));
    await vault.flush(lifeId);
    expect(await vault.changed(lifeId)).toMatchObject({ diskBytes: 4096, memoryBytes: 0 });
    const fork = newLife();
    await vault.createLife(fork, { kind: 'point', snapshotId: first });
    expect(await vault.changed(fork)).toMatchObject({ diskBytes: 0, memoryBytes: 0 });
  });

  it('says what the disk of a life has allocated, not how long it is', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    const { disk } = vault.lifeFiles(lifeId);
    expect(await vault.diskBytes(lifeId)).toBe((await stat(disk)).blocks * 512);
  });

  it('keeps an image unchanged by the lives that boot from it', async () => {
    const vault = vaultOf();
    await writeLife(vault, await bootLife(vault), 'disk', 'overwritten by the first life');
    expect(await readLife(vault, await bootLife(vault), 'disk', IMAGE_TEXT.length)).toBe(IMAGE_TEXT);
  });

  it('imports an image once', async () => {
    const vault = vaultOf();
    expect(await vault.hasImage(IMAGE)).toBe(false);
    await bootLife(vault);
    expect(await vault.hasImage(IMAGE)).toBe(true);
    await vault.importImage(IMAGE, '/nonexistent');
    expect(await readLife(vault, await bootLife(vault), 'disk', IMAGE_TEXT.length)).toBe(IMAGE_TEXT);
  });

  it('lists its images, and forgets one without harm to what came from it', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    const snapshotId = await takePoint(vault, lifeId);
    expect(await vault.images()).toEqual([IMAGE]);
    await vault.deleteImage(IMAGE);
    await vault.deleteImage(IMAGE);
    expect(await vault.images()).toEqual([]);
    expect(await vault.hasImage(IMAGE)).toBe(false);
    expect(await readLife(vault, lifeId, 'disk', IMAGE_TEXT.length)).toBe(IMAGE_TEXT);
    const copy = newLife();
    await vault.createLife(copy, { kind: 'point', snapshotId });
    expect(await readLife(vault, copy, 'disk', IMAGE_TEXT.length)).toBe(IMAGE_TEXT);
    await bootLife(vault);
    expect(await vault.images()).toEqual([IMAGE]);
  });

  it('leaves no image behind when its source cannot be read', async () => {
    const vault = vaultOf();
    await expect(vault.importImage(IMAGE, '/nonexistent')).rejects.toThrow();
    expect(await vault.hasImage(IMAGE)).toBe(false);
    await bootLife(vault);
  });

  it('makes a life once: the second claim of its id fails and changes nothing', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    await writeLife(vault, lifeId, 'memory', 'mine');
    const snapshotId = await takePoint(vault, await bootLife(vault));
    await expect(vault.createLife(lifeId, { kind: 'point', snapshotId })).rejects.toThrow();
    expect(await readLife(vault, lifeId, 'memory', 4)).toBe('mine');
  });

  it('boots again from the disk of a crashed life, with empty memory', async () => {
    const vault = vaultOf();
    const crashed = await bootLife(vault);
    await writeLife(vault, crashed, 'disk', 'kept');
    await writeLife(vault, crashed, 'memory', 'lost');
    const lifeId = newLife();
    await vault.createLife(lifeId, { kind: 'crashed', lifeId: crashed, memoryBytes: SIZE.memoryMib * MIB });
    expect(await readLife(vault, lifeId, 'disk', 4)).toBe('kept');
    expect(await readFile(vault.lifeFiles(lifeId).memory)).toEqual(Buffer.alloc(SIZE.memoryMib * MIB));
    expect(await readLife(vault, crashed, 'memory', 4)).toBe('lost');
  });

  it('boots from the disk of a point, with empty memory', async () => {
    const vault = vaultOf();
    const source = await bootLife(vault);
    await writeLife(vault, source, 'disk', 'kept');
    await writeLife(vault, source, 'memory', 'lost');
    const from = { kind: 'disk', snapshotId: await takePoint(vault, source), memoryBytes: 1024 * 1024 } as const;
    const lifeId = newLife();
    await vault.createLife(lifeId, from);
    expect(await readLife(vault, lifeId, 'disk', 4)).toBe('kept');
    expect(await readFile(vault.lifeFiles(lifeId).memory)).toEqual(Buffer.alloc(1024 * 1024));
    expect(await codeOf(vault.createLife(newLife(), { ...from, snapshotId: newSnapshot() }))).toBe('snapshot_bad');
  });

  it('deletes a life, and again', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    await vault.deleteLife(lifeId);
    await vault.deleteLife(lifeId);
    expect(await vault.lives()).toEqual([]);
  });

  it('says how much space there is', async () => {
    const { totalBytes, availableBytes } = await vaultOf().space();
    expect(availableBytes).toBeGreaterThan(0);
    expect(availableBytes).toBeLessThanOrEqual(totalBytes);
  });
}

function keptLifeCases(vaultOf: () => Vault, reopen: () => Promise<Vault>): void {
  async function pausedWith(text: string, later?: string): Promise<SnapshotId> {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    for (const file of ['memory', 'disk'] as const) await writeLife(vault, lifeId, file, text);
    const snapshotId = await takePoint(vault, lifeId);
    if (later !== undefined) await writeLife(vault, lifeId, 'memory', later);
    await vault.keepLife(lifeId, snapshotId);
    return snapshotId;
  }

  it('lists no life that is kept for its point, and starts the next ones from there apart from each other', async () => {
    const vault = vaultOf();
    const snapshotId = await pausedWith('then');
    expect(await vault.lives()).toEqual([]);
    const first = await fork(vault, snapshotId);
    await writeLife(vault, first, 'memory', 'mine');
    expect(await vault.changed(first)).toMatchObject({ diskBytes: 0 });
    const second = await fork(vault, snapshotId);
    for (const file of ['memory', 'disk'] as const) expect(await readLife(vault, second, file, 4)).toBe('then');
    expect(await readLife(vault, first, 'memory', 4)).toBe('mine');
    expect(await readLife(vault, first, 'disk', 4)).toBe('then');
    expect((await vault.lives()).toSorted()).toEqual([first, second].toSorted());
  });

  it('starts no life from what was written to after the point', async () => {
    const vault = vaultOf();
    const snapshotId = await pausedWith('then', 'late');
    for (const lifeId of [await fork(vault, snapshotId), await fork(vault, snapshotId)])
      expect(await readLife(vault, lifeId, 'memory', 4)).toBe('then');
  });

  it('forgets a life that is kept with its point, and is as good without it', async () => {
    const vault = vaultOf();
    const [deleted, stays] = [await pausedWith('gone'), await pausedWith('then')];
    await vault.deletePoint(deleted);
    expect(await codeOf(fork(vault, deleted))).toBe('snapshot_bad');
    const again = await reopen();
    expect(await again.lives()).toEqual([]);
    expect(await readLife(again, await fork(again, stays), 'memory', 4)).toBe('then');
  });

  it('leaves a life that could not be kept as it is', async () => {
    const vault = vaultOf();
    await expect(vault.keepLife(newLife(), newSnapshot())).rejects.toThrow();
    const snapshotId = await pausedWith('then');
    const taken = await bootLife(vault);
    await expect(vault.createLife(taken, { kind: 'point', snapshotId })).rejects.toThrow();
    expect(await readLife(vault, await fork(vault, snapshotId), 'memory', 4)).toBe('then');
  });
}

function pointCases(vaultOf: () => Vault): void {
  it.each(['sealed', 'committed'])('gives a point that was %s back with its manifest and device state', async (how) => {
    const vault = vaultOf();
    const snapshotId = newSnapshot();
    const manifest = manifestFor(snapshotId);
    const lifeId = await bootLife(vault);
    if (how === 'committed') {
      await vault.capture(lifeId, snapshotId);
      await vault.commit(manifest, DEVICE_STATE);
    } else await vault.seal(lifeId, manifest, DEVICE_STATE);
    expect(await vault.points()).toEqual([snapshotId]);
    const point = await vault.readPoint(snapshotId);
    expect(await vault.readManifest(snapshotId)).toEqual(point.manifest);
    expect(point.manifest).toEqual(manifest);
    expect(Buffer.from(point.deviceState ?? [])).toEqual(DEVICE_STATE);
  });

  it('checks a point, also one that shares all with another, and refuses one that does not exist', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    for (const snapshotId of [await takePoint(vault, lifeId), await takePoint(vault, lifeId)]) {
      await vault.checkPoint(snapshotId);
    }
    expect(await codeOf(vault.checkPoint(newSnapshot()))).toBe('snapshot_bad');
  });

  it('holds the instant of the seal, and each seal of a life its own device state', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    const sealed: SnapshotId[] = [];
    for (const text of ['one', 'two']) {
      for (const file of ['memory', 'disk'] as const) await writeLife(vault, lifeId, file, text);
      const snapshotId = newSnapshot();
      // What is dirty when it comes is no less in it.
      await vault.seal(lifeId, manifestFor(snapshotId, Buffer.from(text)), Buffer.from(text));
      sealed.push(snapshotId);
    }
    await writeLife(vault, lifeId, 'memory', 'end');
    for (const [index, text] of ['one', 'two'].entries()) {
      const snapshotId = sealed[index] ?? newSnapshot();
      expect(Buffer.from((await vault.readPoint(snapshotId)).deviceState ?? []).toString()).toBe(text);
      const child = await fork(vault, snapshotId);
      for (const file of ['memory', 'disk'] as const) expect(await readLife(vault, child, file, 3)).toBe(text);
    }
  });

  it('seals no point with a device state that is another, and none twice', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    const snapshotId = newSnapshot();
    const other = Buffer.from('another');
    expect(await codeOf(vault.seal(lifeId, manifestFor(snapshotId), other))).toBe('snapshot_failed');
    expect(await vault.points()).toEqual([]);
    await vault.seal(lifeId, manifestFor(snapshotId), DEVICE_STATE);
    await expect(vault.seal(lifeId, manifestFor(snapshotId, other), other)).rejects.toThrow();
    expect(Buffer.from((await vault.readPoint(snapshotId)).deviceState ?? [])).toEqual(DEVICE_STATE);
  });

  it('holds what was written until all was ready for the seal, and makes no point when that fails', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    await writeLife(vault, lifeId, 'memory', 'early');
    const snapshotId = newSnapshot();
    const never = vault.seal(lifeId, manifestFor(snapshotId), DEVICE_STATE, async () => {
      throw new AppError('superseded', 'A later order took over.');
    });
    expect(await codeOf(never)).toBe('superseded');
    expect(await vault.points()).toEqual([]);
    const writeLate = () => writeLife(vault, lifeId, 'memory', 'late!');
    await vault.seal(lifeId, manifestFor(snapshotId), DEVICE_STATE, writeLate);
    expect(await readLife(vault, await fork(vault, snapshotId), 'memory', 5)).toBe('late!');
  });

  it('lists no point that is only staged, and drops it when abandoned', async () => {
    const vault = vaultOf();
    const snapshotId = newSnapshot();
    await vault.capture(await bootLife(vault), snapshotId);
    expect(await vault.points()).toEqual([]);
    expect(await codeOf(vault.readPoint(snapshotId))).toBe('snapshot_bad');
    await vault.abandon(snapshotId);
    await vault.abandon(snapshotId);
    await expect(vault.commit(manifestFor(snapshotId), DEVICE_STATE)).rejects.toThrow();
    expect(await vault.points()).toEqual([]);
  });

  it('refuses a point that does not exist, and leaves no life behind', async () => {
    const vault = vaultOf();
    const snapshotId = newSnapshot();
    expect(await codeOf(vault.readPoint(snapshotId))).toBe('snapshot_bad');
    expect(await codeOf(vault.createLife(newLife(), { kind: 'point', snapshotId }))).toBe('snapshot_bad');
    expect(await vault.lives()).toEqual([]);
  });

  it('deletes a point, and again', async () => {
    const vault = vaultOf();
    const snapshotId = await takePoint(vault, await bootLife(vault));
    await vault.deletePoint(snapshotId);
    await vault.deletePoint(snapshotId);
    expect(await vault.points()).toEqual([]);
    expect(await codeOf(vault.readPoint(snapshotId))).toBe('snapshot_bad');
  });

  it('holds the instant of the capture, whatever the life writes before the commit', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    const snapshotId = newSnapshot();
    await writeLife(vault, lifeId, 'memory', 'then');
    await writeLife(vault, lifeId, 'disk', 'then');
    await vault.capture(lifeId, snapshotId);
    await writeLife(vault, lifeId, 'memory', 'late');
    await writeLife(vault, lifeId, 'disk', 'late');
    await vault.commit(manifestFor(snapshotId), DEVICE_STATE);
    const child = await fork(vault, snapshotId);
    expect(await readLife(vault, child, 'memory', 4)).toBe('then');
    expect(await readLife(vault, child, 'disk', 4)).toBe('then');
    expect(await readLife(vault, lifeId, 'memory', 4)).toBe('late');
  });
}

function diskPointCases(vaultOf: () => Vault): void {
  it('keeps a point of the disk alone: no memory, no device state, and the disk of the instant', async () => {
    const vault = vaultOf();
    const source = await bootLife(vault);
    await writeLife(vault, source, 'memory', 'lost');
    const lifeId = await fork(vault, await takePoint(vault, source));
    await writeLife(vault, lifeId, 'disk', 'then');
    const snapshotId = await takeDiskPoint(vault, lifeId);
    await writeLife(vault, lifeId, 'disk', 'late');
    expect(await readLife(vault, lifeId, 'memory', 4)).toBe('lost');
    const { manifest, deviceState } = await vault.readPoint(snapshotId);
    expect([kindOf(manifest), deviceState]).toEqual(['disk', null]);
    await vault.checkPoint(snapshotId);

    const booted = newLife();
    await vault.createLife(booted, { kind: 'disk', snapshotId, memoryBytes: SIZE.memoryMib * MIB });
    expect(await readLife(vault, booted, 'disk', 4)).toBe('then');
    expect(await readFile(vault.lifeFiles(booted).memory)).toEqual(Buffer.alloc(SIZE.memoryMib * MIB));
    const point = await takePoint(vault, booted);
    expect(await readLife(vault, await fork(vault, point), 'disk', 4)).toBe('then');
  });

  it('counts memory from the last point that holds some, and the disk from the last of either kind', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    await writeLife(vault, lifeId, 'memory', 'x'.repeat(MIB));
    await takePoint(vault, lifeId);
    await writeLife(vault, lifeId, 'memory', 'y'.repeat(4096));
    await writeLife(vault, lifeId, 'disk', 'y'.repeat(4096));
    await takeDiskPoint(vault, lifeId);
    expect(await vault.changed(lifeId)).toMatchObject({ diskBytes: 0, memoryBytes: 4096 });
  });

  it('refuses a manifest that says otherwise, and boots from no point that is not there', async () => {
    const vault = vaultOf();
    const [snapshotId, memoryBytes] = [newSnapshot(), SIZE.memoryMib * MIB];
    expect(await codeOf(vault.createLife(newLife(), { kind: 'disk', snapshotId, memoryBytes }))).toBe('snapshot_bad');
    await vault.capture(await bootLife(vault), snapshotId);
    expect(await codeOf(vault.commit(manifestFor(snapshotId), null))).toBe('snapshot_failed');
    expect(await vault.points()).toEqual([]);
  });
}

async function takeDiskPoint(vault: Vault, lifeId: LifeId): Promise<SnapshotId> {
  const snapshotId = newSnapshot();
  await vault.flush(lifeId);
  await vault.capture(lifeId, snapshotId);
  await vault.commit({ ...manifestFor(snapshotId), deviceState: null, frozen: false }, null);
  return snapshotId;
}

function forkCases(vaultOf: () => Vault): void {
  it('isolates three forks of a point from each other, the source and the point', async () => {
    const vault = vaultOf();
    const source = await bootLife(vault);
    await writeLife(vault, source, 'memory', 'from');
    const snapshotId = await takePoint(vault, source);
    const forks = [await fork(vault, snapshotId), await fork(vault, snapshotId), await fork(vault, snapshotId)];
    const [first = source, ...others] = forks;
    await writeLife(vault, first, 'memory', 'mine');
    await writeLife(vault, first, 'disk', 'mine');
    for (const other of [...others, source, await fork(vault, snapshotId)]) {
      expect(await readLife(vault, other, 'memory', 4)).toBe('from');
      expect(await readLife(vault, other, 'disk', IMAGE_TEXT.length)).toBe(IMAGE_TEXT);
    }
  });

  it('keeps a fork whole when its source and its point are deleted', async () => {
    const vault = vaultOf();
    const source = await bootLife(vault);
    await writeLife(vault, source, 'memory', 'from');
    const snapshotId = await takePoint(vault, source);
    const child = await fork(vault, snapshotId);
    await vault.deleteLife(source);
    await vault.deletePoint(snapshotId);
    expect(await readLife(vault, child, 'memory', 4)).toBe('from');
    expect(await readLife(vault, child, 'disk', IMAGE_TEXT.length)).toBe(IMAGE_TEXT);
  });

  it('takes points of forks of points, each with its own device state', async () => {
    const vault = vaultOf();
    let lifeId = await bootLife(vault);
    for (const round of ['1', '2', '3']) {
      await writeLife(vault, lifeId, 'memory', `round ${round}`);
      const state = Buffer.from(`state ${round}`);
      const snapshotId = await takePoint(vault, lifeId, state);
      expect(Buffer.from((await vault.readPoint(snapshotId)).deviceState ?? [])).toEqual(state);
      lifeId = await fork(vault, snapshotId);
      expect(await readLife(vault, lifeId, 'memory', 7)).toBe(`round ${round}`);
    }
    expect(await vault.points()).toHaveLength(3);
  });
}

function reopenCases(vaultOf: () => Vault, reopen: () => Promise<Vault>): void {
  it('keeps images, lives and points over a reopen, and removes what was staged', async () => {
    const before = vaultOf();
    const lifeId = await bootLife(before);
    await writeLife(before, lifeId, 'disk', 'kept');
    const kept = await takePoint(before, lifeId);
    const staged = newSnapshot();
    await before.capture(lifeId, staged);
    const vault = await reopen();
    expect(await vault.hasImage(IMAGE)).toBe(true);
    expect(await vault.lives()).toEqual([lifeId]);
    expect(await vault.points()).toEqual([kept]);
    expect(await readLife(vault, lifeId, 'disk', 4)).toBe('kept');
    await expect(vault.commit(manifestFor(staged), DEVICE_STATE)).rejects.toThrow();
    expect((await vault.readPoint(kept)).manifest.snapshotId).toBe(kept);
  });

  it('keeps sandbox records: the last one written, until deleted', async () => {
    const sandboxId = newId('sandbox', chance);
    const record: SandboxRecord = {
      format: 1,
      sandboxId,
      epoch: 1,
      generation: 1,
      size: SIZE,
      template: 'base',
      head: newSnapshot(),
      life: null,
    };
    await vaultOf().writeSandbox(record);
    await vaultOf().writeSandbox({ ...record, epoch: 2, life: newLife() });
    await vaultOf().writeSandbox({ ...record, epoch: 3 });
    const vault = await reopen();
    expect(await vault.sandboxes()).toEqual({ records: [{ ...record, epoch: 3 }], damaged: [] });
    await vault.deleteSandbox(sandboxId);
    await vault.deleteSandbox(sandboxId);
    expect(await vault.sandboxes()).toEqual({ records: [], damaged: [] });
  });
}

const PIECE_BYTES = 256 * 1024;

function passageCases(vaultOf: () => Vault): void {
  it('says of each piece of a point whether it is a hole, as in the base, or to be read; and reads it', async () => {
    const vault = vaultOf();
    const lifeId = await bootLife(vault);
    await writeLife(vault, lifeId, 'memory', 'x'.repeat(PIECE_BYTES + 1));
    const base = await takePoint(vault, lifeId);
    await writeLife(vault, lifeId, 'memory', 'y'.repeat(4096));
    const snapshotId = await takePoint(vault, lifeId);
    await using content = await vault.openPoint(snapshotId);
    const { hole, same, data } = PIECE;
    const rest = Array(6).fill(hole);
    expect([...(await content.survey('memory', PIECE_BYTES, null))]).toEqual([data, data, ...rest]);
    const [first, second, ...others] = await content.survey('memory', PIECE_BYTES, base);
    expect([first, second]).toEqual([data, same]);
    // A hole of both is the one or the other.
    expect(others.every((state) => state === hole || state === same)).toBe(true);
    expect(await content.survey('disk', PIECE_BYTES, base)).not.toContain(data);
    expect(await content.survey('disk', PIECE_BYTES, newSnapshot())).toContain(data);
    expect(Buffer.from(await content.read('memory', 4090, 10)).toString()).toBe('yyyyyyxxxx');
    expect(await content.read('memory', SIZE.memoryMib * MIB - 4, 4)).toEqual(Buffer.alloc(4));
  });

  it('opens no point that does not verify', async () => {
    expect(await codeOf(vaultOf().openPoint(newSnapshot()))).toBe('snapshot_bad');
  });

  it('receives a point: what is not written is empty, and a life starts from it', async () => {
    const vault = vaultOf();
    const snapshotId = newSnapshot();
    await vault.receive({ snapshotId, size: SIZE, like: null, writtenBytes: 20 }, async (draft) => {
      await draft.write('memory', 100, Buffer.from('from afar'));
      await draft.write('disk', SIZE.diskMib * MIB - 3, Buffer.from('end'));
    });
    expect(await vault.points()).toEqual([]);
    await vault.commit(manifestFor(snapshotId), DEVICE_STATE);
    expect(await vault.points()).toEqual([snapshotId]);
    const lifeId = await fork(vault, snapshotId);
    expect((await readLife(vault, lifeId, 'memory', 120)).replaceAll('\0', '')).toBe('from afar');
    expect((await readFile(vault.lifeFiles(lifeId).disk)).subarray(-4).toString()).toBe('\0end');
  });

  it('receives a point that is like another, and changes nothing of that', async () => {
    const vault = vaultOf();
    const source = await bootLife(vault);
    await writeLife(vault, source, 'memory', 'a'.repeat(2 * PIECE_BYTES));
    const like = await takePoint(vault, source);
    const snapshotId = newSnapshot();
    await vault.receive({ snapshotId, size: SIZE, like, writtenBytes: 1 }, async (draft) => {
      await draft.write('memory', 1, Buffer.from('b'));
      await draft.clear('memory', PIECE_BYTES, PIECE_BYTES);
    });
    await vault.commit(manifestFor(snapshotId), DEVICE_STATE);
    const received = await readFile(vault.lifeFiles(await fork(vault, snapshotId)).memory);
    expect(received.toString('utf8', 0, 3)).toBe('aba');
    expect(received.toString('utf8', PIECE_BYTES - 1, PIECE_BYTES + 1)).toBe('a\0');
    expect(received.subarray(PIECE_BYTES).every((byte) => byte === 0)).toBe(true);
    expect(await readLife(vault, await fork(vault, snapshotId), 'disk', IMAGE_TEXT.length)).toBe(IMAGE_TEXT);
    expect(await readLife(vault, await fork(vault, like), 'memory', 3)).toBe('aaa');
  });

  it('stages nothing of a point that did not come whole, and takes it then', async () => {
    const vault = vaultOf();
    const incoming = { snapshotId: newSnapshot(), size: SIZE, like: null, writtenBytes: 10 };
    const broken = vault.receive(incoming, async (draft) => {
      await draft.write('memory', 0, Buffer.from('half'));
      throw new Error('the line was cut');
    });
    await expect(broken).rejects.toThrow('the line was cut');
    await expect(vault.commit(manifestFor(incoming.snapshotId), DEVICE_STATE)).rejects.toThrow();
    const outside = vault.receive(incoming, (draft) =>
      draft.write('memory', SIZE.memoryMib * MIB - 1, Buffer.from('ab')),
    );
    await expect(outside).rejects.toThrow(RangeError);
    const baseless = vault.receive({ ...incoming, like: newSnapshot() }, async () => undefined);
    await expect(baseless).rejects.toThrow();
    await vault.receive(incoming, (draft) => draft.write('memory', 0, Buffer.from('whole')));
    await vault.commit(manifestFor(incoming.snapshotId), DEVICE_STATE);
    expect(await readLife(vault, await fork(vault, incoming.snapshotId), 'memory', 5)).toBe('whole');
  });

  it('refuses a point that it has no room for', async () => {
    const vault = vaultOf();
    const incoming = { snapshotId: newSnapshot(), size: SIZE, like: null, writtenBytes: 2 ** 50 };
    expect(await codeOf(vault.receive(incoming, async () => undefined))).toBe('insufficient_space');
  });
}
