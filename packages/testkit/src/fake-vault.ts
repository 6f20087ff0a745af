/**
 * A vault on a plain folder, or in memory: the same promises as the Btrfs one, kept by copying instead of sharing blocks.
 * It is for small files; nothing else about it is simplified.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import {
  AppError,
  type Changed,
  type LifeFiles,
  type LifeId,
  type LifeSource,
  type PointManifest,
  type ReadPoint,
  type SandboxId,
  type SandboxRecord,
  type SnapshotId,
  type Vault,
  type VaultName,
  type VaultSpace,
} from '@space/core';
import { type FakeStorage, REAL_FOLDERS } from './fake-storage.ts';
import { Faults } from './faults.ts';

export class FakeVault implements Vault {
  readonly name: VaultName;
  readonly faults: Faults;
  /** What a test lets it say. */
  free: VaultSpace = { totalBytes: 2 ** 40, availableBytes: 2 ** 39 };
  readonly storage: FakeStorage;
  readonly #folder: string;
  /** What each life held at its last point. */
  readonly #captured = new Map<LifeId, { readonly disk: Buffer; readonly memory: Buffer }>();
  readonly #staged = new Map<SnapshotId, LifeId>();

  private constructor(name: VaultName, folder: string, faults: Faults, storage: FakeStorage) {
    this.name = name;
    this.#folder = folder;
    this.faults = faults;
    this.storage = storage;
  }

  static async open(
    name: VaultName,
    folder: string,
    faults = new Faults(),
    storage: FakeStorage = REAL_FOLDERS,
  ): Promise<FakeVault> {
    const vault = new FakeVault(name, folder, faults, storage);
    storage.remove(vault.#path('staging'));
    for (const part of ['images', 'lives', 'points', 'staging', 'sandboxes']) storage.makeFolder(vault.#path(part));
    return vault;
  }

  async hasImage(digest: string): Promise<boolean> {
    return this.storage.has(this.#path('images', digest));
  }

  async importImage(digest: string, sourcePath: string): Promise<void> {
    await this.faults.at('vault.importImage');
    if (await this.hasImage(digest)) return;
    this.storage.copy(sourcePath, this.#path('staging', digest));
    this.storage.move(this.#path('staging', digest), this.#path('images', digest));
  }

  async createLife(lifeId: LifeId, from: LifeSource): Promise<LifeFiles> {
    await this.faults.at('vault.createLife');
    const folder = this.#path('lives', lifeId);
    if (this.storage.has(folder)) throw new Error(`there is a life ${lifeId} already`);
    this.storage.makeFolder(folder);
    const files = this.lifeFiles(lifeId);
    try {
      await this.#fill(files, from);
    } catch (error) {
      this.storage.remove(folder);
      throw error;
    }
    this.#captured.set(lifeId, this.#readLife(files));
    return files;
  }

  async #fill(files: LifeFiles, from: LifeSource): Promise<void> {
    if (from.kind === 'point') {
      const point = this.#path('points', from.snapshotId);
      if (!this.storage.has(point)) throw new AppError('snapshot_bad', `There is no point ${from.snapshotId}.`);
      this.storage.copy(join(point, 'disk.img'), files.disk);
      this.storage.copy(join(point, 'memory'), files.memory);
      return;
    }
    if (from.kind === 'image') {
      this.storage.copy(this.#path('images', from.digest), files.disk);
      this.storage.grow(files.disk, from.diskBytes);
    } else if (from.kind === 'disk') {
      const point = this.#path('points', from.snapshotId);
      if (!this.storage.has(point)) throw new AppError('snapshot_bad', `There is no point ${from.snapshotId}.`);
      this.storage.copy(join(point, 'disk.img'), files.disk);
    } else {
      this.storage.copy(this.lifeFiles(from.lifeId).disk, files.disk);
    }
    this.storage.write(files.memory, '');
    this.storage.grow(files.memory, from.memoryBytes);
  }

  lifeFiles(lifeId: LifeId): LifeFiles {
    return { disk: this.#path('lives', lifeId, 'disk.img'), memory: this.#path('lives', lifeId, 'memory') };
  }

  async diskBytes(lifeId: LifeId): Promise<number> {
    return this.storage.allocatedBytes(this.lifeFiles(lifeId).disk);
  }

  async changed(lifeId: LifeId): Promise<Changed> {
    await this.faults.at('vault.changed');
    const now = this.#readLife(this.lifeFiles(lifeId));
    const before = this.#captured.get(lifeId) ?? { disk: Buffer.of(), memory: Buffer.of() };
    return {
      diskBytes: differingBytes(before.disk, now.disk),
      memoryBytes: differingBytes(before.memory, now.memory),
    };
  }

  async lives(): Promise<readonly LifeId[]> {
    return this.storage.list(this.#path('lives')) as LifeId[];
  }

  async flush(_lifeId: LifeId): Promise<void> {
    await this.faults.at('vault.flush');
  }

  async deleteLife(lifeId: LifeId): Promise<void> {
    await this.faults.at('vault.deleteLife');
    this.storage.remove(this.#path('lives', lifeId));
    this.#captured.delete(lifeId);
  }

  async capture(lifeId: LifeId, snapshotId: SnapshotId): Promise<void> {
    await this.faults.at('vault.capture');
    this.storage.copy(this.#path('lives', lifeId), this.#path('staging', snapshotId));
    this.#staged.set(snapshotId, lifeId);
  }

  async commit(manifest: PointManifest, deviceState: Uint8Array | null): Promise<void> {
    await this.faults.at('vault.commit');
    const staged = this.#path('staging', manifest.snapshotId);
    if ((manifest.deviceState === null) !== (deviceState === null)) {
      throw new AppError('snapshot_failed', 'The manifest is not that of such a point.');
    }
    const captured = this.#readLife({ disk: join(staged, 'disk.img'), memory: join(staged, 'memory') });
    if (deviceState === null) this.storage.remove(join(staged, 'memory'));
    else this.storage.write(join(staged, 'device.state'), deviceState);
    this.storage.write(join(staged, 'manifest.json'), JSON.stringify(manifest));
    this.storage.move(staged, this.#path('points', manifest.snapshotId));
    const lifeId = this.#staged.get(manifest.snapshotId);
    this.#staged.delete(manifest.snapshotId);
    if (lifeId === undefined) return;
    const memory = deviceState === null ? this.#captured.get(lifeId)?.memory : undefined;
    this.#captured.set(lifeId, { ...captured, ...(memory === undefined ? {} : { memory }) });
  }

  async abandon(snapshotId: SnapshotId): Promise<void> {
    this.storage.remove(this.#path('staging', snapshotId));
    this.#staged.delete(snapshotId);
  }

  async points(): Promise<readonly SnapshotId[]> {
    return this.storage.list(this.#path('points')) as SnapshotId[];
  }

  async readPoint(snapshotId: SnapshotId): Promise<ReadPoint> {
    await this.faults.at('vault.readPoint');
    const point = this.#path('points', snapshotId);
    if (!this.storage.has(point)) throw new AppError('snapshot_bad', `There is no point ${snapshotId}.`);
    const manifest = JSON.parse(this.storage.read(join(point, 'manifest.json')).toString()) as PointManifest;
    if (manifest.deviceState === null) return { manifest, deviceState: null };
    const deviceState = this.storage.read(join(point, 'device.state'));
    const sha256 = createHash('sha256').update(deviceState).digest('hex');
    if (sha256 !== manifest.deviceState.sha256) {
      throw new AppError('snapshot_bad', `The device state of ${snapshotId} does not match its manifest.`);
    }
    return { manifest, deviceState };
  }

  async checkPoint(snapshotId: SnapshotId): Promise<void> {
    await this.faults.at('vault.checkPoint');
    await this.readPoint(snapshotId);
  }

  async deletePoint(snapshotId: SnapshotId): Promise<void> {
    await this.faults.at('vault.deletePoint');
    this.storage.remove(this.#path('points', snapshotId));
  }

  async sandboxes(): Promise<readonly SandboxRecord[]> {
    const names = this.storage.list(this.#path('sandboxes'));
    return names.map(
      (name) => JSON.parse(this.storage.read(this.#path('sandboxes', name)).toString()) as SandboxRecord,
    );
  }

  async writeSandbox(record: SandboxRecord): Promise<void> {
    await this.faults.at('vault.writeSandbox');
    const draft = this.#path('staging', record.sandboxId);
    this.storage.write(draft, JSON.stringify(record));
    this.storage.move(draft, this.#path('sandboxes', `${record.sandboxId}.json`));
  }

  async deleteSandbox(sandboxId: SandboxId): Promise<void> {
    await this.faults.at('vault.deleteSandbox');
    this.storage.remove(this.#path('sandboxes', `${sandboxId}.json`));
  }

  async space(): Promise<VaultSpace> {
    return this.free;
  }

  async reclaim(): Promise<void> {
    await this.faults.at('vault.reclaim');
  }

  async close(): Promise<void> {}

  #readLife({ disk, memory }: LifeFiles) {
    return { disk: this.storage.read(disk), memory: this.storage.read(memory) };
  }

  #path(...parts: string[]): string {
    return join(this.#folder, ...parts);
  }
}

const BLOCK_BYTES = 4096;

/** In whole blocks, as a file system counts. */
function differingBytes(before: Buffer, now: Buffer): number {
  let bytes = 0;
  for (let at = 0; at < now.length; at += BLOCK_BYTES) {
    const block = (of: Buffer) => of.subarray(at, at + BLOCK_BYTES);
    if (!block(before).equals(block(now))) bytes += BLOCK_BYTES;
  }
  return bytes;
}
