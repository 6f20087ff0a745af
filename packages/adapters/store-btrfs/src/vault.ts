/**
 * The vault port over a mounted Btrfs file system. `open-vault.ts` mounts it and hands in how to close it.
 *
 * Invariants: what has its final name is whole and durable; a life's folder is made once; a point is read-only from before
 * it is listed; a deletion that was acknowledged stays done after a power cut.
 */
import { readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  AppError,
  type Changed,
  type IdKind,
  type IncomingPoint,
  type LifeFiles,
  type LifeId,
  type LifeSource,
  type PointContent,
  type PointDraft,
  type PointManifest,
  parseId,
  parseRecord,
  type ReadPoint,
  type SandboxId,
  type SandboxRecord,
  type SnapshotId,
  spaceMarks,
  type Vault,
  type VaultFile,
  type VaultName,
  type VaultSandboxes,
  type VaultSpace,
} from '@space/core';
import type { PagesOfLife } from '@space/root-helper';
import { measureSpace } from './allocation.ts';
import { layBallast, withBallast } from './ballast.ts';
import { setReadOnly, snapshotSubvolume } from './btrfs.ts';
import { removeSealed, removeSubvolume } from './cleanup.ts';
import { commitTransaction } from './commits.ts';
import { syncFolder, writeSettled } from './durable.ts';
import { errnoOf, storeFailure } from './failures.ts';
import { writeOutFiles } from './flush.ts';
import { allocatedBytes, copyImage } from './images.ts';
import { keepLife } from './kept-life.ts';
import { SLOW_LANE } from './lane.ts';
import { DISK, type Folder, isStaged, type Layout, MEMORY } from './layout.ts';
import { makeLife, memoryBytesOf } from './life-files.ts';
import { OpenGate } from './open-gate.ts';
import { ownBytes } from './own-bytes.ts';
import { OwnNodes } from './own-nodes.ts';
import { openContent, receiveContent } from './point-content.ts';
import { checkPointFiles, layPointFiles, readManifestFile, readPointFiles, writePointFiles } from './point-files.ts';
import { ReadThrough } from './read-through.ts';
import { reclaim, SpaceReserve } from './space.ts';
import { NO_STEPS, type StepHook } from './steps.ts';
import { WorkingSets } from './working-set.ts';

export interface MountedVault {
  readonly name: VaultName;
  readonly layout: Layout;
  /** Of the file system. */
  readonly uuid: string;
  /** Where the loop file lies, whose file system must have room too; null for a device. */
  readonly hostFolder: string | null;
  /** Unmounts and gives the lock back; throws and leaves all as it was while files are open. */
  readonly unmount: () => Promise<void>;
  /** Has pages of a life that are as in a point noted anew. */
  readonly part: (pages: PagesOfLife) => Promise<unknown>;
  readonly step?: StepHook;
}

/** What a point takes by itself: a device state and a manifest. */
const POINT_BYTES = 2 ** 20;
/** By then a guest has taken its identity and has answered its first calls. */
const AWAKE_AFTER_MS = 1_000;

export class BtrfsVault implements Vault {
  readonly name: VaultName;
  readonly #layout: Layout;
  readonly #mounted: MountedVault;
  readonly #step: StepHook;
  readonly #reserve: SpaceReserve;
  readonly #gate = new OpenGate();
  readonly #workingSets = new WorkingSets();
  readonly #reader = new ReadThrough();
  readonly #nodes = new OwnNodes({ part: (...args) => this.#part(...args) });
  readonly #imports = new Map<string, Promise<void>>();

  private constructor(mounted: MountedVault) {
    this.name = mounted.name;
    this.#layout = mounted.layout;
    this.#mounted = mounted;
    this.#step = mounted.step ?? NO_STEPS;
    this.#reserve = new SpaceReserve(mounted.layout.root, () => measureSpace(mounted));
  }

  static async on(mounted: MountedVault): Promise<BtrfsVault> {
    const vault = new BtrfsVault(mounted);
    await layBallast(mounted.layout);
    for (const lifeId of await vault.lives()) {
      vault.#reserve.hold(lifeId, (await stat(vault.lifeFiles(lifeId).memory)).size);
    }
    return vault;
  }

  hasImage(digest: string): Promise<boolean> {
    return this.#run('looking for an image', () => exists(this.#layout.place('images', digest)));
  }

  importImage(digest: string, sourcePath: string): Promise<void> {
    return this.#run(`importing the image ${digest}`, () => {
      const running = this.#imports.get(digest);
      if (running) return running;
      const started = this.#importOnce(digest, sourcePath).finally(() => this.#imports.delete(digest));
      this.#imports.set(digest, started);
      return started;
    });
  }

  images(): Promise<readonly string[]> {
    return this.#run('listing the images', async () => {
      const names = await readdir(this.#layout.folder('images'));
      return names.filter((name) => !isStaged(name));
    });
  }

  deleteImage(digest: string): Promise<void> {
    return this.#run(`deleting the image ${digest}`, () =>
      this.#delete(() => removeSealed(this.#layout, 'images', digest)),
    );
  }

  async #importOnce(digest: string, sourcePath: string): Promise<void> {
    if (await exists(this.#layout.place('images', digest))) return;
    await this.#reserve.require(`importing the image ${digest}`, await allocatedBytes(sourcePath));
    await copyImage(this.#layout, digest, sourcePath);
  }

  createLife(lifeId: LifeId, from: LifeSource): Promise<LifeFiles> {
    const doing = `creating the life ${lifeId}`;
    return this.#run(doing, async () => {
      const memoryBytes = await memoryBytesOf(this.#layout, from);
      this.#reserve.hold(lifeId, memoryBytes);
      try {
        await this.#reserve.require(doing);
        const made = await makeLife(this.#layout, lifeId, from);
        if (from.kind === 'point') {
          this.#helpToWake(this.lifeFiles(lifeId).memory, memoryBytes, made);
          this.#nodes.made(lifeId, from.snapshotId);
        }
      } catch (thrown) {
        this.#reserve.release(lifeId);
        throw thrown;
      }
      return this.lifeFiles(lifeId);
    });
  }

  /** Beside everything else. That it fails (the life is gone already) makes a guest slower, and no more. */
  #helpToWake(memory: string, memoryBytes: number, made: 'new' | 'kept'): void {
    const sets = this.#workingSets;
    this.#gate.run(() => sets.readAhead(memory, memoryBytes)).catch(() => undefined);
    // What is cached of one that was kept is what the life before it had touched.
    if (made === 'kept' || sets.knows(memoryBytes)) return;
    const learn = () => this.#gate.run(() => sets.learn(memory, memoryBytes)).catch(() => undefined);
    setTimeout(learn, AWAKE_AFTER_MS).unref();
  }

  lifeFiles(lifeId: LifeId): LifeFiles {
    const folder = this.#layout.place('lives', lifeId);
    return { disk: join(folder, DISK), memory: join(folder, MEMORY) };
  }

  diskBytes(lifeId: LifeId): Promise<number> {
    return this.#run(`measuring the disk of ${lifeId}`, async () => {
      return allocatedBytes(this.lifeFiles(lifeId).disk);
    });
  }

  changed(lifeId: LifeId): Promise<Changed> {
    const { disk, memory } = this.lifeFiles(lifeId);
    return this.#run(`looking for changes of ${lifeId}`, () =>
      SLOW_LANE.run(async () => {
        const [ofDisk, ofMemory] = [await ownBytes(disk), await ownBytes(memory)];
        this.#nodes.wrote(lifeId, { disk: ofDisk.pages, memory: ofMemory.pages });
        return { diskBytes: ofDisk.bytes, memoryBytes: ofMemory.bytes, extents: ofDisk.extents + ofMemory.extents };
      }),
    );
  }

  lives(): Promise<readonly LifeId[]> {
    return this.#run('listing the lives', () => this.#list('lives', 'life'));
  }

  flush(lifeId: LifeId, { dataOnly = false } = {}): Promise<void> {
    this.#nodes.stop(lifeId);
    return this.#run(`flushing the life ${lifeId}`, () =>
      SLOW_LANE.run(async () => {
        await writeOutFiles(this.lifeFiles(lifeId));
        if (!dataOnly) await commitTransaction(this.#layout.root);
      }),
    );
  }

  deleteLife(lifeId: LifeId): Promise<void> {
    this.#nodes.forget(lifeId);
    return this.#run(`deleting the life ${lifeId}`, async () => {
      await this.#delete(() => removeSubvolume(this.#layout.place('lives', lifeId)));
      this.#reserve.release(lifeId);
    });
  }

  keepLife(lifeId: LifeId, snapshotId: SnapshotId): Promise<void> {
    this.#nodes.forget(lifeId);
    return this.#run(`keeping the life ${lifeId}`, async () => {
      await keepLife(this.#layout, lifeId, snapshotId);
      this.#reserve.release(lifeId);
    });
  }

  requireRoom(lifeId: LifeId): Promise<void> {
    const doing = `taking a snapshot of ${lifeId}`;
    return this.#run(doing, () => this.#reserve.require(doing, POINT_BYTES));
  }

  seal(
    lifeId: LifeId,
    manifest: PointManifest,
    deviceState: Uint8Array,
    ready?: () => Promise<unknown>,
  ): Promise<void> {
    const { snapshotId } = manifest;
    const life = this.#layout.place('lives', lifeId);
    // The VM stands still: nothing here queues behind what waits for a disk.
    return this.#run(`sealing the snapshot ${snapshotId}`, async () => {
      await withBallast(this.#layout, async () => {
        await layPointFiles(life, { manifest, deviceState });
        await ready?.();
        await this.#step('files_laid');
        await snapshotSubvolume(life, this.#layout.place('points', snapshotId), { sealed: true });
      });
      await this.#step('sealed');
      // What a template is ready with was all written before its point, and each of its lives would be told of all.
      if (manifest.owner.kind === 'sandbox') this.#nodes.sealed(lifeId, snapshotId);
    });
  }

  capture(lifeId: LifeId, snapshotId: SnapshotId): Promise<void> {
    return this.#run(`capturing ${snapshotId}`, () =>
      snapshotSubvolume(this.#layout.place('lives', lifeId), this.#layout.staged('points', snapshotId)),
    );
  }

  commit(manifest: PointManifest, deviceState: Uint8Array | null): Promise<void> {
    const doing = `committing the snapshot ${manifest.snapshotId}`;
    const staged = this.#layout.staged('points', manifest.snapshotId);
    return this.#run(doing, async () => {
      await this.#step('captured');
      await this.#reserve.require(doing, deviceState?.byteLength);
      await SLOW_LANE.run(async () => {
        await withBallast(this.#layout, () => writePointFiles(staged, { manifest, deviceState }, this.#step));
        await setReadOnly(staged);
        await this.#step('read_only');
        await rename(staged, this.#layout.place('points', manifest.snapshotId));
        await this.#step('renamed');
        await commitTransaction(this.#layout.root);
        await this.#step('durable');
      });
    });
  }

  abandon(snapshotId: SnapshotId): Promise<void> {
    return this.#run(`abandoning the snapshot ${snapshotId}`, () =>
      removeSubvolume(this.#layout.staged('points', snapshotId)),
    );
  }

  points(): Promise<readonly SnapshotId[]> {
    return this.#run('listing the snapshots', () => this.#list('points', 'snapshot'));
  }

  readManifest(snapshotId: SnapshotId): Promise<PointManifest> {
    return this.#run(`reading the manifest of ${snapshotId}`, () =>
      readManifestFile(this.#layout.place('points', snapshotId), snapshotId),
    );
  }

  readPoint(snapshotId: SnapshotId): Promise<ReadPoint> {
    return this.#run(`reading the snapshot ${snapshotId}`, () =>
      readPointFiles(this.#layout.place('points', snapshotId), snapshotId),
    );
  }

  checkPoint(snapshotId: SnapshotId): Promise<void> {
    return this.#run(`checking the snapshot ${snapshotId}`, () =>
      checkPointFiles(this.#layout.place('points', snapshotId), snapshotId, this.#reader),
    );
  }

  deletePoint(snapshotId: SnapshotId): Promise<void> {
    return this.#run(`deleting the snapshot ${snapshotId}`, () =>
      this.#delete(async () => {
        await removeSealed(this.#layout, 'points', snapshotId);
        await removeSubvolume(this.#layout.staged('lives', snapshotId));
      }),
    );
  }

  openPoint(snapshotId: SnapshotId): Promise<PointContent> {
    return this.#run(`opening the snapshot ${snapshotId}`, async () => {
      await readPointFiles(this.#layout.place('points', snapshotId), snapshotId);
      const content = await openContent(this.#layout, snapshotId);
      return {
        survey: (...args) => this.#run(`looking at ${snapshotId}`, () => content.survey(...args)),
        read: (...args) => this.#run(`reading ${snapshotId}`, () => content.read(...args)),
        [Symbol.asyncDispose]: () => content[Symbol.asyncDispose](),
      };
    });
  }

  receive(incoming: IncomingPoint, fill: (draft: PointDraft) => Promise<void>): Promise<void> {
    const doing = `receiving the snapshot ${incoming.snapshotId}`;
    return this.#run(doing, async () => {
      await this.#reserve.require(doing, incoming.writtenBytes);
      await receiveContent(this.#layout, incoming, fill, () => this.#reserve.require(doing));
    });
  }

  sandboxes(): Promise<VaultSandboxes> {
    return this.#run('reading the sandbox records', async () => {
      const ids = await this.#list('sandboxes', 'sandbox', '.json');
      const read = await Promise.all(ids.map((sandboxId) => this.#readSandbox(sandboxId)));
      return {
        records: read.flatMap((one) => ('reason' in one ? [] : [one])),
        damaged: read.flatMap((one) => ('reason' in one ? [one] : [])),
      };
    });
  }

  async #readSandbox(sandboxId: SandboxId): Promise<SandboxRecord | VaultSandboxes['damaged'][number]> {
    const path = this.#recordPath(sandboxId);
    try {
      const record = parseRecord(await readFile(path, 'utf8'));
      if (record.sandboxId !== sandboxId) throw new Error(`it is the one of ${record.sandboxId}`);
      return record;
    } catch (thrown) {
      const why = thrown instanceof Error ? thrown.message : String(thrown);
      const detail = `The record of ${sandboxId} cannot be read: ${path}: ${why}`;
      return { sandboxId, reason: new AppError('record_bad', detail, { cause: thrown }) };
    }
  }

  writeSandbox(record: SandboxRecord): Promise<void> {
    const { sandboxId } = record;
    const staged = this.#layout.staged('sandboxes', sandboxId);
    const text = `${JSON.stringify(record, null, 2)}\n`;
    return this.#run(`recording the sandbox ${sandboxId}`, () =>
      withBallast(this.#layout, async () => {
        await writeSettled(staged, text);
        await rename(staged, this.#recordPath(sandboxId));
        // And not the folder alone: the life that it names may have got its name since the last commit.
        await commitTransaction(this.#layout.root);
      }),
    );
  }

  deleteSandbox(sandboxId: SandboxId): Promise<void> {
    return this.#run(`removing the record of ${sandboxId}`, async () => {
      await rm(this.#recordPath(sandboxId), { force: true });
      await syncFolder(this.#layout.folder('sandboxes'));
    });
  }

  space(): Promise<VaultSpace> {
    return this.#run('measuring space', async () => measureSpace(this.#mounted));
  }

  reclaim(): Promise<void> {
    return this.#run('reclaiming space', () => SLOW_LANE.run(() => reclaim(this.#layout.root)));
  }

  close(): Promise<void> {
    this.#reader.stop();
    return this.#gate.close(this.#mounted.unmount);
  }

  /** Where little is left, it is left to points. */
  #part(lifeId: LifeId, snapshotId: SnapshotId, file: VaultFile, pages: readonly number[]): Promise<void> {
    return this.#gate.run(async () => {
      const { availableBytes, totalBytes } = measureSpace(this.#mounted);
      if (availableBytes < spaceMarks(totalBytes).writersBytes) return;
      await this.#mounted.part({ lifeId, snapshotId, file, pages });
      await commitTransaction(this.#layout.root);
    });
  }

  /** The subvolume is gone, also after a power cut; its space comes back in the background. */
  #delete(remove: () => Promise<void>): Promise<void> {
    return SLOW_LANE.run(async () => {
      await remove();
      // It also wakes the kernel's cleaner, which else comes round every 30 seconds only.
      await commitTransaction(this.#layout.root);
      await layBallast(this.#layout);
    });
  }

  #recordPath(sandboxId: SandboxId): string {
    return `${this.#layout.place('sandboxes', sandboxId)}.json`;
  }

  async #list<K extends IdKind>(folder: Folder, kind: K, suffix = '') {
    const entries = await readdir(this.#layout.folder(folder));
    return entries.flatMap((entry) => {
      const id = entry.endsWith(suffix) ? parseId(kind, entry.slice(0, entry.length - suffix.length)) : undefined;
      return id === undefined ? [] : [id];
    });
  }

  #run<T>(doing: string, work: () => Promise<T>): Promise<T> {
    return this.#gate.run(async () => {
      try {
        return await work();
      } catch (thrown) {
        throw storeFailure(thrown, doing);
      }
    });
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return false;
    throw thrown;
  }
}
