/**
 * From an archive to points of a vault. What is read is checked piece by piece before it is written, and a point gets its name
 * only when all of it is there and fits its manifest. An import that broke off goes on with the first point that is missing.
 */
import { isDeepStrictEqual } from 'node:util';
import {
  AppError,
  type Chance,
  type LifeId,
  newId,
  type PointDraft,
  type PointManifest,
  type SandboxId,
  type SnapshotId,
  type Vault,
  type VaultFile,
} from '@space/core';
import { type ChunkPlan, Chunks } from './chunks.ts';
import type { ArchivedFile, ArchivedPoint } from './format.ts';
import { inParallel } from './in-parallel.ts';
import { digestOf, PIECE_BYTES, type PieceTable, pieceLength } from './pieces.ts';

/** On their way at once, each held in memory once packed and once as it is. */
const PIECES_AT_ONCE = 4;

export interface ImportPlan extends ChunkPlan {
  readonly vault: Pick<Vault, 'points' | 'readPoint' | 'receive' | 'commit' | 'abandon'>;
  /** Of an index that was read by `readIndex`. */
  readonly points: readonly ArchivedPoint[];
  /** What becomes of them. */
  readonly as: ImportAs;
  readonly chance: Chance;
  /** Throws when the order was superseded; called before each effect. */
  readonly check: () => void;
}

export type ImportAs =
  | {
      readonly kind: 'copy';
      /** What each is called here. */
      readonly names: ReadonlyMap<SnapshotId, SnapshotId>;
      readonly sandboxId: SandboxId;
      readonly generation: number;
      /** Every point as one of kind `disk`, whatever it holds. */
      readonly disksOnly: boolean;
    }
  /** Points of the sandbox that they were of, under their own names. Some may be here already. */
  | { readonly kind: 'same' };

export interface ImportEvent {
  readonly kind: 'progress';
  readonly points: { readonly done: number; readonly total: number };
  readonly writtenBytes: number;
}

/** After each point. Throws `archive_damaged`, `archive_unavailable`, `insufficient_space`. */
export async function* importPoints(plan: ImportPlan): AsyncGenerator<ImportEvent, void> {
  const { points, vault } = plan;
  const chunks = new Chunks(plan);
  const here = new Set(await vault.points());
  const lives = new Map<LifeId, LifeId>();
  const counts = { writtenBytes: 0 };
  const imported: ArchivedPoint[] = [];
  for (const whole of points) {
    const point = plan.as.kind === 'copy' && plan.as.disksOnly ? diskOf(whole) : whole;
    const manifest = manifestHere(plan, point.manifest, lives);
    if (plan.as.kind === 'same' && here.has(manifest.snapshotId)) await checkSame(vault, manifest);
    if (!here.has(manifest.snapshotId)) {
      const like = likest(point, imported);
      await importPoint({ plan, chunks, counts }, { point, manifest, like });
    }
    imported.push(point);
    yield { kind: 'progress', points: { done: imported.length, total: points.length }, ...counts };
  }
}

function diskOf({ manifest, disk }: ArchivedPoint): ArchivedPoint {
  return { manifest: { ...manifest, deviceState: null, frozen: false }, disk, memory: null, deviceState: null };
}

/** What somebody's archive names may be anybody's point. */
async function checkSame(vault: ImportPlan['vault'], manifest: PointManifest): Promise<void> {
  const here = (await vault.readPoint(manifest.snapshotId)).manifest;
  if (isDeepStrictEqual(here, manifest)) return;
  throw new AppError(
    'archive_damaged',
    `There is another snapshot ${manifest.snapshotId} here than the archive holds.`,
  );
}

/** The point as one of the sandbox that it is imported as. */
function manifestHere(
  { as, chance }: ImportPlan,
  manifest: ArchivedPoint['manifest'],
  lives: Map<LifeId, LifeId>,
): PointManifest {
  if (as.kind === 'same') return manifest;
  const { names, sandboxId, generation } = as;
  const { snapshotId, parent, owner } = manifest;
  const lifeId = lives.get(owner.lifeId) ?? newId('life', chance);
  lives.set(owner.lifeId, lifeId);
  return {
    ...manifest,
    snapshotId: nameOf(names, snapshotId),
    parent: (parent === null ? undefined : names.get(parent)) ?? null,
    owner: { kind: 'sandbox', sandboxId, lifeId, generation },
  };
}

function nameOf(names: ReadonlyMap<SnapshotId, SnapshotId>, snapshotId: SnapshotId): SnapshotId {
  const name = names.get(snapshotId);
  if (name === undefined) throw new AppError('bad_request', `No name was given for ${snapshotId}.`);
  return name;
}

/** The parent where it is there; else the last one. Of another size nothing is shared. */
function likest({ manifest }: ArchivedPoint, imported: readonly ArchivedPoint[]): ArchivedPoint | null {
  const { parent, size } = manifest;
  const fits = (other: ArchivedPoint) => {
    return other.manifest.size.diskMib === size.diskMib && other.manifest.size.memoryMib === size.memoryMib;
  };
  const candidates = imported.filter(fits);
  return candidates.find((other) => other.manifest.snapshotId === parent) ?? candidates.at(-1) ?? null;
}

interface Work {
  readonly plan: ImportPlan;
  readonly chunks: Chunks;
  readonly counts: { writtenBytes: number };
}

interface PointToImport {
  readonly point: ArchivedPoint;
  readonly manifest: PointManifest;
  readonly like: ArchivedPoint | null;
}

async function importPoint(work: Work, { point, manifest, like }: PointToImport): Promise<void> {
  const { vault, as, check } = work.plan;
  const { snapshotId, size } = manifest;
  const changes = {
    disk: await changesOf(work, point.disk, like?.disk ?? null),
    memory: point.memory === null ? null : await changesOf(work, point.memory, like?.memory ?? null),
  };
  const deviceState = await deviceStateOf(work, point);
  const writtenBytes = (changes.disk.written.length + (changes.memory?.written.length ?? 0)) * PIECE_BYTES;
  check();
  const likeId = like?.manifest.snapshotId ?? null;
  const likeHere = likeId === null || as.kind === 'same' ? likeId : nameOf(as.names, likeId);
  try {
    await vault.receive({ snapshotId, size, like: likeHere, writtenBytes }, async (draft) => {
      for (const file of ['disk', 'memory'] as const) {
        const [of, changed] = [point[file], changes[file]];
        if (of !== null && changed !== null) await fillFile(work, draft, { file, sizeBytes: of.sizeBytes, ...changed });
      }
    });
    check();
    await vault.commit(manifest, deviceState);
  } catch (thrown) {
    // It may be staged, whatever became of the call. What is left all the same goes at the next opening of the vault.
    await vault.abandon(snapshotId).catch(() => undefined);
    throw thrown;
  }
}

interface FileChanges {
  readonly table: PieceTable;
  readonly written: readonly number[];
  readonly cleared: readonly number[];
}

/** What is to be done to the file that it is like, or to an empty one. */
async function changesOf({ chunks }: Work, file: ArchivedFile, like: ArchivedFile | null): Promise<FileChanges> {
  const table = await chunks.getTable(file);
  const before = like === null ? null : await chunks.getTable(like);
  const written: number[] = [];
  const cleared: number[] = [];
  for (let piece = 0; piece < table.pieces; piece++) {
    const [digest, old] = [table.get(piece), before?.get(piece) ?? null];
    if (digest === old) continue;
    (digest === null ? cleared : written).push(piece);
  }
  return { table, written, cleared };
}

interface FileToFill extends FileChanges {
  readonly file: VaultFile;
  readonly sizeBytes: number;
}

async function fillFile(
  { plan, chunks, counts }: Work,
  draft: PointDraft,
  { file, sizeBytes, table, written, cleared }: FileToFill,
) {
  for (const piece of cleared) await draft.clear(file, piece * PIECE_BYTES, pieceLength(sizeBytes, piece));
  await inParallel(PIECES_AT_ONCE, written, async (piece) => {
    plan.check();
    const digest = table.get(piece);
    if (digest === null) return;
    const bytes = await chunks.get(digest, pieceLength(sizeBytes, piece));
    await draft.write(file, piece * PIECE_BYTES, bytes);
    counts.writtenBytes += bytes.length;
  });
}

async function deviceStateOf({ chunks }: Work, { manifest, deviceState }: ArchivedPoint): Promise<Uint8Array | null> {
  if (deviceState === null) return null;
  const table = await chunks.getTable(deviceState);
  const bytes = Buffer.alloc(deviceState.sizeBytes);
  for (let piece = 0; piece < table.pieces; piece++) {
    const digest = table.get(piece);
    if (digest !== null) bytes.set(await chunks.get(digest, pieceLength(bytes.length, piece)), piece * PIECE_BYTES);
  }
  if (digestOf(bytes) === manifest.deviceState?.sha256) return bytes;
  throw new AppError('archive_damaged', `The device state of ${manifest.snapshotId} is not what its manifest says.`);
}
