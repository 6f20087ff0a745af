/** Two vaults and an archive between them, with the short forms that the tests speak in. */
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type ArchivedMove,
  type ArchiveIndex,
  type ArchiveSeal,
  exportPoints,
  importPoints,
  readIndex,
} from '@space/archive';
import {
  type ArchiveRef,
  DEFAULT_VAULT,
  type ExportEvent,
  type KeyBytes,
  type LifeId,
  newId,
  type PointManifest,
  parseArchiveRef,
  type SandboxId,
  type Size,
  type SizeLimits,
  type SnapshotId,
  type Vault,
  type VaultFile,
} from '@space/core';
import { FakeArchive, FakeVault, Faults, seededChance } from '@space/testkit';

/** Thousands of files are made and synced here; on a disk that others use each of them waits. */
const IN_MEMORY = '/dev/shm';
const SIZE: Size = { vcpus: 1, memoryMib: 1, diskMib: 2 };
const LIMITS: SizeLimits = {
  vcpus: { min: 1, max: 2 },
  memoryMib: { min: 1, max: 4, step: 1 },
  diskMib: { min: 1, max: 4, step: 1 },
};

export interface World extends AsyncDisposable {
  readonly folder: string;
  readonly archive: FakeArchive;
  readonly faults: Faults;
  readonly from: Vault;
  readonly to: Vault;
  readonly sandboxId: SandboxId;
  readonly space: ArchiveRef['space'];
  /** A life of the sandbox, with content that nothing else has. */
  boot(image?: Uint8Array): Promise<LifeId>;
  write(lifeId: LifeId, file: VaultFile, offset: number, bytes: Uint8Array): Promise<void>;
  point(lifeId: LifeId, options?: { parent?: SnapshotId | null; state?: string | null }): Promise<SnapshotId>;
  export(points: readonly SnapshotId[], base?: ArchiveRef | null, options?: ExportOptions): Promise<Exported>;
  import(ref: ArchiveRef, names?: Map<SnapshotId, SnapshotId>, key?: KeyBytes): Promise<Imported>;
  /** All that a point holds, and all that its bytes are. */
  content(vault: Vault, snapshotId: SnapshotId): Promise<Content>;
  /** Digest of the disk that a point boots from. */
  diskOf(vault: Vault, snapshotId: SnapshotId): Promise<string>;
  /** Names of everything below the importing vault. */
  listing(): Promise<string[]>;
}

interface ExportOptions {
  readonly of?: SandboxId;
  readonly move?: ArchivedMove;
  /** Left out: it is not encrypted. */
  readonly seal?: ArchiveSeal;
  readonly onEvent?: (event: ExportEvent) => void;
}

type Exported = Omit<Extract<ExportEvent, { kind: 'done' }>, 'archive'> & { readonly ref: ArchiveRef };

interface Imported {
  readonly index: ArchiveIndex;
  readonly sandboxId: SandboxId;
  readonly names: Map<SnapshotId, SnapshotId>;
  readonly writtenBytes: number;
}

interface Content {
  readonly manifest: PointManifest;
  readonly digests: readonly string[];
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

export async function makeWorld(vaults?: { from: Vault; to: Vault }): Promise<World> {
  const folder = await mkdtemp(join(existsSync(IN_MEMORY) ? IN_MEMORY : tmpdir(), 'space-passage-'));
  const faults = new Faults();
  const archive = new FakeArchive(faults);
  const chance = seededChance(11);
  const from = vaults?.from ?? (await FakeVault.open(DEFAULT_VAULT, join(folder, 'from'), faults));
  const to = vaults?.to ?? (await FakeVault.open(DEFAULT_VAULT, join(folder, 'to'), faults));
  const sandboxId = newId('sandbox', chance);
  const space = newId('project', chance);

  const world: World = {
    ...{ folder, archive, faults, from, to, sandboxId, space },
    async boot(image = randomBytes(600_000)) {
      await writeFile(join(folder, 'image'), image);
      await from.importImage('image', join(folder, 'image'));
      const lifeId = newId('life', chance);
      const sizes = { diskBytes: SIZE.diskMib * 2 ** 20, memoryBytes: SIZE.memoryMib * 2 ** 20 };
      await from.createLife(lifeId, { kind: 'image', digest: 'image', ...sizes });
      await world.write(lifeId, 'memory', 0, randomBytes(300_000));
      return lifeId;
    },
    async write(lifeId, file, offset, bytes) {
      await using handle = await open(from.lifeFiles(lifeId)[file], 'r+');
      await handle.write(bytes, 0, bytes.length, offset);
    },
    async point(lifeId, { parent = null, state = 'device state' } = {}) {
      const snapshotId = newId('snapshot', chance);
      const deviceState = state === null ? null : Buffer.from(state);
      await from.flush(lifeId);
      await from.capture(lifeId, snapshotId);
      await from.commit(manifestOf({ snapshotId, sandboxId, lifeId, parent, deviceState }), deviceState);
      return snapshotId;
    },
    async export(points, base = null, { of = sandboxId, move, seal, onEvent } = {}) {
      const given = {
        sandboxId: of,
        template: 'base',
        madeAt: '2026-11-29T18:00:00.000Z',
        limits: LIMITS,
        seal: seal ?? null,
      };
      const facts = { ...given, ...(move === undefined ? {} : { move: { ...move, fence: async () => undefined } }) };
      for await (const event of exportPoints({ vault: from, archive, space, points, base, ...facts })) {
        onEvent?.(event);
        const ref = event.kind === 'done' ? parseArchiveRef(event.archive) : undefined;
        if (event.kind === 'done' && ref !== undefined) return { ...event, ref };
      }
      throw new Error('the export has no end');
    },
    async import(ref, names = new Map(), key) {
      const sealed = key === undefined ? {} : { key };
      const index = await readIndex(archive, ref, { limits: LIMITS, ...sealed });
      for (const { manifest } of index.points) {
        if (!names.has(manifest.snapshotId)) names.set(manifest.snapshotId, newId('snapshot', chance));
      }
      const copy = newId('sandbox', chance);
      const plan = {
        vault: to,
        archive,
        space: ref.space,
        as: { kind: 'copy', names, sandboxId: copy, generation: 1, disksOnly: false } as const,
        chance,
        ...sealed,
      };
      let writtenBytes = 0;
      for await (const event of importPoints({ ...plan, points: index.points, check: () => undefined })) {
        writtenBytes = event.writtenBytes;
      }
      return { index, sandboxId: copy, names, writtenBytes };
    },
    async content(vault, snapshotId) {
      const { manifest, deviceState } = await vault.readPoint(snapshotId);
      const lifeId = newId('life', chance);
      const { disk, memory } = await vault.createLife(lifeId, { kind: 'point', snapshotId });
      const digests = [await readFile(disk), await readFile(memory), deviceState ?? Buffer.of()].map(sha256);
      await vault.deleteLife(lifeId);
      return { manifest, digests };
    },
    async diskOf(vault, snapshotId) {
      const lifeId = newId('life', chance);
      const from = { kind: 'disk', snapshotId, memoryBytes: 4096 } as const;
      const digest = sha256(await readFile((await vault.createLife(lifeId, from)).disk));
      await vault.deleteLife(lifeId);
      return digest;
    },
    listing: async () => (await readdir(join(folder, 'to'), { recursive: true })).sort(),
    async [Symbol.asyncDispose]() {
      await rm(folder, { recursive: true, force: true });
    },
  };
  return world;
}

interface PointFacts {
  readonly snapshotId: SnapshotId;
  readonly sandboxId: SandboxId;
  readonly lifeId: LifeId;
  readonly parent: SnapshotId | null;
  readonly deviceState: Uint8Array | null;
}

function manifestOf({ snapshotId, sandboxId, lifeId, parent, deviceState }: PointFacts): PointManifest {
  return {
    format: 1,
    snapshotId,
    owner: { kind: 'sandbox', sandboxId, lifeId, generation: 3 },
    parent,
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
    deviceState: deviceState === null ? null : { sha256: sha256(deviceState), sizeBytes: deviceState.byteLength },
    frozen: deviceState !== null,
    takenAt: '2026-11-29T17:00:00.000Z',
  };
}
