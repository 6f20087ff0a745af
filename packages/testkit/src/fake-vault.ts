/**
 * A vault on a plain folder, or in memory: the same promises as the Btrfs one, kept by copying instead of sharing blocks.
 * It is for small files; nothing else about it is simplified.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import {
  AppError,
  type Changed,
  type IncomingPoint,
  type LifeFiles,
  type LifeId,
  type LifeSource,
  PIECE,
  type PointContent,
  type PointDraft,
  type PointManifest,
  type ReadPoint,
  type SandboxId,
  type SandboxRecord,
  type SnapshotId,
  type Vault,
  type VaultFile,
  type VaultName,
  type VaultSandboxes,
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
  /** Run by `close`, which fails as it does. */
  onClose: () => Promise<void> = async () => undefined;
  #isClosed = false;
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
    for (const part of ['staging', 'kept']) storage.remove(vault.#path(part));
    for (const part of ['images', 'lives', 'points', 'staging', 'kept', 'sandboxes'])
      storage.makeFolder(vault.#path(part));
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

  async images(): Promise<readonly string[]> {
    return this.storage.list(this.#path('images'));
  }

  async deleteImage(digest: string): Promise<void> {
    await this.faults.at('vault.deleteImage');
    this.storage.remove(this.#path('images', digest));
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
      if (this.#takeKept(from.snapshotId, files)) return;
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

  async keepLife(lifeId: LifeId, snapshotId: SnapshotId): Promise<void> {
    await this.faults.at('vault.keepLife');
    this.storage.move(this.#path('lives', lifeId), this.#path('kept', snapshotId));
    this.#captured.delete(lifeId);
  }

  /** Moves what is kept for the point to where the files of a life are made, unless it was written to since. */
  #takeKept(snapshotId: SnapshotId, files: LifeFiles): boolean {
    const kept = this.#path('kept', snapshotId);
    if (!this.storage.has(kept)) return false;
    const isSame = Object.values(FILES).every((file) =>
      this.storage.read(join(kept, file)).equals(this.storage.read(this.#path('points', snapshotId, file))),
    );
    if (isSame) {
      this.storage.move(join(kept, FILES.disk), files.disk);
      this.storage.move(join(kept, FILES.memory), files.memory);
    }
    this.storage.remove(kept);
    return isSame;
  }

  async requireRoom(_lifeId: LifeId): Promise<void> {
    await this.faults.at('vault.requireRoom');
  }

  async seal(
    lifeId: LifeId,
    manifest: PointManifest,
    deviceState: Uint8Array,
    ready?: () => Promise<unknown>,
  ): Promise<void> {
    await this.faults.at('vault.seal');
    const { snapshotId } = manifest;
    if (manifest.deviceState?.sha256 !== createHash('sha256').update(deviceState).digest('hex')) {
      throw new AppError('snapshot_failed', 'The manifest is not that of such a point.');
    }
    await ready?.();
    if (this.storage.has(this.#path('points', snapshotId))) throw new Error(`there is a point ${snapshotId} already`);
    this.storage.copy(this.#path('lives', lifeId), this.#path('staging', snapshotId));
    this.#staged.set(snapshotId, lifeId);
    this.#complete(manifest, deviceState);
    await this.faults.at('vault.sealed');
  }

  async capture(lifeId: LifeId, snapshotId: SnapshotId): Promise<void> {
    await this.faults.at('vault.capture');
    this.storage.copy(this.#path('lives', lifeId), this.#path('staging', snapshotId));
    this.#staged.set(snapshotId, lifeId);
  }

  async commit(manifest: PointManifest, deviceState: Uint8Array | null): Promise<void> {
    await this.faults.at('vault.commit');
    this.#complete(manifest, deviceState);
  }

  #complete(manifest: PointManifest, deviceState: Uint8Array | null): void {
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

  async readManifest(snapshotId: SnapshotId): Promise<PointManifest> {
    await this.faults.at('vault.readManifest');
    return this.#manifestOf(snapshotId);
  }

  async readPoint(snapshotId: SnapshotId): Promise<ReadPoint> {
    await this.faults.at('vault.readPoint');
    const point = this.#path('points', snapshotId);
    const manifest = this.#manifestOf(snapshotId);
    if (manifest.deviceState === null) return { manifest, deviceState: null };
    const deviceState = this.storage.read(join(point, 'device.state'));
    const sha256 = createHash('sha256').update(deviceState).digest('hex');
    if (sha256 !== manifest.deviceState.sha256) {
      throw new AppError('snapshot_bad', `The device state of ${snapshotId} does not match its manifest.`);
    }
    return { manifest, deviceState };
  }

  #manifestOf(snapshotId: SnapshotId): PointManifest {
    const point = this.#path('points', snapshotId);
    if (!this.storage.has(point)) throw new AppError('snapshot_bad', `There is no point ${snapshotId}.`);
    return JSON.parse(this.storage.read(join(point, 'manifest.json')).toString()) as PointManifest;
  }

  async checkPoint(snapshotId: SnapshotId): Promise<void> {
    await this.faults.at('vault.checkPoint');
    await this.readPoint(snapshotId);
  }

  async deletePoint(snapshotId: SnapshotId): Promise<void> {
    await this.faults.at('vault.deletePoint');
    this.storage.remove(this.#path('points', snapshotId));
    this.storage.remove(this.#path('kept', snapshotId));
  }

  async openPoint(snapshotId: SnapshotId): Promise<PointContent> {
    await this.readPoint(snapshotId);
    const path = (of: SnapshotId, file: VaultFile) => this.#path('points', of, FILES[file]);
    const { storage, faults } = this;
    return {
      async survey(file, pieceBytes, base) {
        await faults.at('vault.survey');
        const known = base !== null && storage.has(path(base, file));
        const before = known ? storage.read(path(base, file)) : null;
        return surveyOf(storage.read(path(snapshotId, file)), before, pieceBytes);
      },
      async read(file, offset, length) {
        await faults.at('vault.read');
        return padded(storage.read(path(snapshotId, file)).subarray(offset), length);
      },
      [Symbol.asyncDispose]: async () => undefined,
    };
  }

  async receive(incoming: IncomingPoint, fill: (draft: PointDraft) => Promise<void>): Promise<void> {
    const { snapshotId, size, like, writtenBytes } = incoming;
    await this.faults.at('vault.receive');
    if (writtenBytes > this.free.availableBytes) throw new AppError('insufficient_space', 'The fake has no such room.');
    const files = {
      disk: this.#startedLike(like, 'disk', size.diskMib * 2 ** 20),
      memory: this.#startedLike(like, 'memory', size.memoryMib * 2 ** 20),
    };
    const write = (file: VaultFile, offset: number, bytes: Uint8Array) => {
      if (offset < 0 || offset + bytes.length > files[file].length) throw new RangeError('outside of the file');
      files[file].set(bytes, offset);
    };
    await fill({
      write: async (file, offset, bytes) => {
        await this.faults.at('vault.write');
        write(file, offset, bytes);
      },
      clear: async (file, offset, length) => write(file, offset, Buffer.alloc(length)),
    });
    const staged = this.#path('staging', snapshotId);
    this.storage.remove(staged);
    this.storage.makeFolder(staged);
    for (const file of ['disk', 'memory'] as const) this.#writeSparse(join(staged, FILES[file]), files[file]);
  }

  /** What it ends with is a hole. */
  #writeSparse(path: string, bytes: Buffer): void {
    let end = bytes.length;
    while (end > 0 && bytes[end - 1] === 0) end -= 1;
    this.storage.write(path, bytes.subarray(0, end));
    this.storage.grow(path, bytes.length);
  }

  #startedLike(like: SnapshotId | null, file: VaultFile, sizeBytes: number): Buffer {
    if (like === null) return Buffer.alloc(sizeBytes);
    const path = this.#path('points', like, FILES[file]);
    // One of kind `disk` has no memory to share.
    if (file === 'memory' && !this.storage.has(path)) return Buffer.alloc(sizeBytes);
    return padded(this.storage.read(path), sizeBytes);
  }

  async sandboxes(): Promise<VaultSandboxes> {
    const records: SandboxRecord[] = [];
    const damaged: { sandboxId: SandboxId; reason: AppError }[] = [];
    for (const name of this.storage.list(this.#path('sandboxes'))) {
      try {
        records.push(JSON.parse(this.storage.read(this.#path('sandboxes', name)).toString()) as SandboxRecord);
      } catch (cause) {
        const reason = new AppError('record_bad', `The record of ${name} cannot be read.`, { cause });
        damaged.push({ sandboxId: name.replace('.json', '') as SandboxId, reason });
      }
    }
    return { records, damaged };
  }

  async writeSandbox(record: SandboxRecord): Promise<void> {
    await this.faults.at('vault.writeSandbox');
    const draft = this.#path('staging', record.sandboxId);
    this.storage.write(draft, JSON.stringify(record));
    this.storage.move(draft, this.recordOf(record.sandboxId));
  }

  async deleteSandbox(sandboxId: SandboxId): Promise<void> {
    await this.faults.at('vault.deleteSandbox');
    this.storage.remove(this.recordOf(sandboxId));
  }

  /** For tests that spoil it. */
  recordOf(sandboxId: SandboxId): string {
    return this.#path('sandboxes', `${sandboxId}.json`);
  }

  async space(): Promise<VaultSpace> {
    return this.free;
  }

  async reclaim(): Promise<void> {
    await this.faults.at('vault.reclaim');
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    await this.faults.at('vault.close');
    await this.onClose();
    this.#isClosed = true;
  }

  #readLife({ disk, memory }: LifeFiles) {
    return { disk: this.storage.read(disk), memory: this.storage.read(memory) };
  }

  #path(...parts: string[]): string {
    if (this.#isClosed) throw new AppError('vault_closed', `The vault ${this.name} is closed.`);
    return join(this.#folder, ...parts);
  }
}

const FILES = { disk: 'disk.img', memory: 'memory' } as const satisfies Record<VaultFile, string>;

function surveyOf(now: Buffer, before: Buffer | null, pieceBytes: number): Uint8Array {
  const states = new Uint8Array(Math.ceil(now.length / pieceBytes));
  const piece = (of: Buffer, index: number) => of.subarray(index * pieceBytes, (index + 1) * pieceBytes);
  for (const index of states.keys()) {
    const bytes = piece(now, index);
    if (before !== null && piece(before, index).equals(bytes)) states[index] = PIECE.same;
    else states[index] = bytes.some((byte) => byte !== 0) ? PIECE.data : PIECE.hole;
  }
  return states;
}

/** What a fake machine has written may be shorter than its file should be: the rest is empty. */
function padded(bytes: Buffer, length: number): Buffer {
  return Buffer.concat([bytes.subarray(0, length)], length);
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
