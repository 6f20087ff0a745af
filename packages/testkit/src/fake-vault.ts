/**
 * A vault on a plain folder: the same promises as the Btrfs one, kept by copying instead of sharing blocks. It is for
 * small files; nothing else about it is simplified.
 */
import { createHash } from 'node:crypto';
import { cp, mkdir, readdir, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises';
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
import { Faults } from './faults.ts';

export class FakeVault implements Vault {
  readonly name: VaultName;
  readonly faults: Faults;
  /** What a test lets it say. */
  free: VaultSpace = { totalBytes: 2 ** 40, availableBytes: 2 ** 39 };
  readonly #folder: string;
  /** What each life held at its last point. */
  readonly #captured = new Map<LifeId, { readonly disk: Buffer; readonly memory: Buffer }>();
  readonly #staged = new Map<SnapshotId, LifeId>();

  private constructor(name: VaultName, folder: string, faults: Faults) {
    this.name = name;
    this.#folder = folder;
    this.faults = faults;
  }

  static async open(name: VaultName, folder: string, faults = new Faults()): Promise<FakeVault> {
    const vault = new FakeVault(name, folder, faults);
    await rm(vault.#path('staging'), { recursive: true, force: true });
    for (const part of ['images', 'lives', 'points', 'staging', 'sandboxes']) {
      await mkdir(vault.#path(part), { recursive: true });
    }
    return vault;
  }

  async hasImage(digest: string): Promise<boolean> {
    return exists(this.#path('images', digest));
  }

  async importImage(digest: string, sourcePath: string): Promise<void> {
    await this.faults.at('vault.importImage');
    if (await this.hasImage(digest)) return;
    await cp(sourcePath, this.#path('staging', digest));
    await rename(this.#path('staging', digest), this.#path('images', digest));
  }

  async createLife(lifeId: LifeId, from: LifeSource): Promise<LifeFiles> {
    await this.faults.at('vault.createLife');
    const folder = this.#path('lives', lifeId);
    await mkdir(folder);
    const files = this.lifeFiles(lifeId);
    try {
      await this.#fill(files, from);
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
    this.#captured.set(lifeId, await readLife(files));
    return files;
  }

  async #fill(files: LifeFiles, from: LifeSource): Promise<void> {
    if (from.kind === 'point') {
      const point = this.#path('points', from.snapshotId);
      if (!(await exists(point))) throw new AppError('snapshot_bad', `There is no point ${from.snapshotId}.`);
      await cp(join(point, 'disk.img'), files.disk);
      await cp(join(point, 'memory'), files.memory);
      return;
    }
    if (from.kind === 'image') {
      await cp(this.#path('images', from.digest), files.disk);
      await truncate(files.disk, from.diskBytes);
    } else if (from.kind === 'disk') {
      const point = this.#path('points', from.snapshotId);
      if (!(await exists(point))) throw new AppError('snapshot_bad', `There is no point ${from.snapshotId}.`);
      await cp(join(point, 'disk.img'), files.disk);
    } else {
      await cp(this.lifeFiles(from.lifeId).disk, files.disk);
    }
    await writeFile(files.memory, '');
    await truncate(files.memory, from.memoryBytes);
  }

  lifeFiles(lifeId: LifeId): LifeFiles {
    return { disk: this.#path('lives', lifeId, 'disk.img'), memory: this.#path('lives', lifeId, 'memory') };
  }

  async diskBytes(lifeId: LifeId): Promise<number> {
    return (await stat(this.lifeFiles(lifeId).disk)).blocks * 512;
  }

  async changed(lifeId: LifeId): Promise<Changed> {
    await this.faults.at('vault.changed');
    const now = await readLife(this.lifeFiles(lifeId));
    const before = this.#captured.get(lifeId) ?? { disk: Buffer.of(), memory: Buffer.of() };
    return {
      diskBytes: differingBytes(before.disk, now.disk),
      memoryBytes: differingBytes(before.memory, now.memory),
    };
  }

  async lives(): Promise<readonly LifeId[]> {
    return (await readdir(this.#path('lives'))) as LifeId[];
  }

  async flush(_lifeId: LifeId): Promise<void> {
    await this.faults.at('vault.flush');
  }

  async deleteLife(lifeId: LifeId): Promise<void> {
    await this.faults.at('vault.deleteLife');
    await rm(this.#path('lives', lifeId), { recursive: true, force: true });
    this.#captured.delete(lifeId);
  }

  async capture(lifeId: LifeId, snapshotId: SnapshotId): Promise<void> {
    await this.faults.at('vault.capture');
    await cp(this.#path('lives', lifeId), this.#path('staging', snapshotId), { recursive: true });
    this.#staged.set(snapshotId, lifeId);
  }

  async commit(manifest: PointManifest, deviceState: Uint8Array | null): Promise<void> {
    await this.faults.at('vault.commit');
    const staged = this.#path('staging', manifest.snapshotId);
    if ((manifest.deviceState === null) !== (deviceState === null)) {
      throw new AppError('snapshot_failed', 'The manifest is not that of such a point.');
    }
    const captured = await readLife({ disk: join(staged, 'disk.img'), memory: join(staged, 'memory') });
    if (deviceState === null) await rm(join(staged, 'memory'));
    else await writeFile(join(staged, 'device.state'), deviceState);
    await writeFile(join(staged, 'manifest.json'), JSON.stringify(manifest));
    await rename(staged, this.#path('points', manifest.snapshotId));
    const lifeId = this.#staged.get(manifest.snapshotId);
    this.#staged.delete(manifest.snapshotId);
    if (lifeId === undefined) return;
    const memory = deviceState === null ? this.#captured.get(lifeId)?.memory : undefined;
    this.#captured.set(lifeId, { ...captured, ...(memory === undefined ? {} : { memory }) });
  }

  async abandon(snapshotId: SnapshotId): Promise<void> {
    await rm(this.#path('staging', snapshotId), { recursive: true, force: true });
    this.#staged.delete(snapshotId);
  }

  async points(): Promise<readonly SnapshotId[]> {
    return (await readdir(this.#path('points'))) as SnapshotId[];
  }

  async readPoint(snapshotId: SnapshotId): Promise<ReadPoint> {
    await this.faults.at('vault.readPoint');
    const point = this.#path('points', snapshotId);
    if (!(await exists(point))) throw new AppError('snapshot_bad', `There is no point ${snapshotId}.`);
    const manifest = JSON.parse(await readFile(join(point, 'manifest.json'), 'utf8')) as PointManifest;
    if (manifest.deviceState === null) return { manifest, deviceState: null };
    const deviceState = await readFile(join(point, 'device.state'));
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
    await rm(this.#path('points', snapshotId), { recursive: true, force: true });
  }

  async sandboxes(): Promise<readonly SandboxRecord[]> {
    const names = await readdir(this.#path('sandboxes'));
    return Promise.all(
      names.map(async (name) => JSON.parse(await readFile(this.#path('sandboxes', name), 'utf8')) as SandboxRecord),
    );
  }

  async writeSandbox(record: SandboxRecord): Promise<void> {
    await this.faults.at('vault.writeSandbox');
    const draft = this.#path('staging', record.sandboxId);
    await writeFile(draft, JSON.stringify(record));
    await rename(draft, this.#path('sandboxes', `${record.sandboxId}.json`));
  }

  async deleteSandbox(sandboxId: SandboxId): Promise<void> {
    await this.faults.at('vault.deleteSandbox');
    await rm(this.#path('sandboxes', `${sandboxId}.json`), { force: true });
  }

  async space(): Promise<VaultSpace> {
    return this.free;
  }

  async reclaim(): Promise<void> {
    await this.faults.at('vault.reclaim');
  }

  async close(): Promise<void> {}

  #path(...parts: string[]): string {
    return join(this.#folder, ...parts);
  }
}

async function readLife({ disk, memory }: LifeFiles) {
  return { disk: await readFile(disk), memory: await readFile(memory) };
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

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
