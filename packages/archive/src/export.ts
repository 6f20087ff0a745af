/**
 * From points of a vault to an archive.
 *
 * Only what changed is read: of a piece that lies at the same place of the device as in a point that was exported before,
 * the digest is known. Of what is read, only what the archive does not have is sent. An export that broke off is done again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AppError,
  type ArchiveRef,
  type ExportEvent,
  formatArchiveRef,
  kindOf,
  PIECE,
  type PointContent,
  type SandboxId,
  type SizeLimits,
  type SnapshotId,
  type Vault,
  type VaultFile,
} from '@space/core';
import { type ChunkPlan, Chunks } from './chunks.ts';
import {
  type ArchivedFile,
  type ArchivedMove,
  type ArchivedPoint,
  formatIndex,
  MAX_INDEX_BYTES,
  MAX_POINTS,
} from './format.ts';
import { inParallel } from './in-parallel.ts';
import { digestOf, PIECE_BYTES, PieceTable, pieceLength } from './pieces.ts';
import { readIndex } from './read-index.ts';
import { type ArchiveSeal, formatSealed } from './sealed-index.ts';

/** On their way at once, each held in memory once as it is and once packed. */
const PIECES_AT_ONCE = 4;
const TOLD_EVERY_MS = 250;

export interface ExportPlan extends Omit<ChunkPlan, 'key'> {
  readonly vault: Pick<Vault, 'openPoint' | 'readManifest' | 'readPoint'>;
  readonly sandboxId: SandboxId;
  readonly template: string;
  /** A point after those that it grew from; the last is the one to go on from. They must not be deleted meanwhile. */
  readonly points: readonly SnapshotId[];
  /** An earlier archive of the sandbox in the same space: what is known from it is not read again. */
  readonly base: ArchiveRef | null;
  readonly limits: SizeLimits;
  /** ISO 8601. */
  readonly madeAt: string;
  /** What it is encrypted with; null: it is not. */
  readonly seal: ArchiveSeal | null;
  /** Left out: as a copy. `fence` is called with its name when all else is there: once it has returned, the move can be taken up. */
  readonly move?: ArchivedMove & { readonly fence: (archive: string) => Promise<void> };
}

/** Now and then, after each point, and at the end. Throws `snapshot_bad`, `archive_unavailable`. */
export async function* exportPoints(plan: ExportPlan): AsyncGenerator<ExportEvent, void> {
  const { archive, space, sandboxId, points, signal } = plan;
  if (points.length > MAX_POINTS) {
    throw new AppError('bad_request', `An archive holds at most ${MAX_POINTS} points, not ${points.length}.`);
  }
  const known = await knownPoints(plan);
  const work: Work = {
    plan,
    chunks: new Chunks({ ...plan, key: plan.seal?.key ?? null }),
    counts: { readBytes: 0, sentBytes: 0 },
    share: 0,
  };
  const done: ArchivedPoint[] = [];
  const progress = (): ExportEvent => {
    const share = (done.length + work.share) / points.length;
    return { kind: 'progress', donePoints: done.length, progress: share, ...work.counts };
  };
  for (const snapshotId of points) {
    const exporting = async () =>
      known.get(snapshotId) ?? exportPoint(work, snapshotId, baseFor(await parentOf(plan, snapshotId), known));
    const point = yield* told(exporting(), progress);
    known.set(snapshotId, point);
    done.push(point);
    work.share = 0;
    yield progress();
  }
  const { template, madeAt } = plan;
  const head = points.at(-1);
  if (head === undefined) throw new AppError('bad_request', 'An archive holds a point at least.');
  const { fence, ...move } = plan.move ?? {};
  const parts = { madeAt, sandboxId, template, head, points: done, ...('number' in move ? { move } : {}) };
  const bytes = plan.seal === null ? formatIndex(parts) : formatSealed(parts, space, plan.seal);
  if (bytes.length > MAX_INDEX_BYTES) throw new AppError('bad_request', 'So many points do not fit into one archive.');
  const ref = { space, sandboxId, digest: digestOf(bytes) };
  await fence?.(formatArchiveRef(ref));
  await archive.put({ kind: 'index', ...ref }, bytes, signal);
  yield { kind: 'done', archive: formatArchiveRef(ref), ...work.counts };
}

interface Work {
  readonly plan: ExportPlan;
  readonly chunks: Chunks;
  readonly counts: { readBytes: number; sentBytes: number };
  /** How much of the point that is being exported was gone through: 0 to 1. */
  share: number;
}

/** What the work comes to. Tells of it now and then, until it has ended, also when nobody listens any more. */
async function* told<T>(work: Promise<T>, event: () => ExportEvent): AsyncGenerator<ExportEvent, T> {
  const ended = work.then(
    () => true,
    () => true,
  );
  try {
    for (;;) {
      const pause = new AbortController();
      const isOver = await Promise.race([
        ended,
        sleep(TOLD_EVERY_MS, false, { signal: pause.signal }).catch(() => false),
      ]);
      pause.abort();
      if (isOver) return await work;
      yield event();
    }
  } finally {
    await ended;
  }
}

/** A base that cannot be used makes an export slower, and no worse. */
async function knownPoints({
  archive,
  base,
  limits,
  seal,
  signal,
  space,
}: ExportPlan): Promise<Map<SnapshotId, ArchivedPoint>> {
  if (base === null || base.space !== space) return new Map();
  try {
    const key = seal?.key ?? null;
    const { format, points } = await readIndex(archive, base, {
      limits,
      key,
      ...(signal === undefined ? {} : { signal }),
    });
    // Nothing of one that is not encrypted is part of one that is.
    if (seal !== null && format !== 3) return new Map();
    return new Map(points.map((point) => [point.manifest.snapshotId, point]));
  } catch (thrown) {
    if (thrown instanceof AppError && thrown.code !== 'archive_unavailable') return new Map();
    throw thrown;
  }
}

async function parentOf({ vault }: ExportPlan, snapshotId: SnapshotId): Promise<SnapshotId | null> {
  return (await vault.readManifest(snapshotId)).parent;
}

/** The parent where it is known; else the last one, which is most like it. */
function baseFor(parent: SnapshotId | null, known: ReadonlyMap<SnapshotId, ArchivedPoint>): ArchivedPoint | null {
  return (parent === null ? undefined : known.get(parent)) ?? [...known.values()].at(-1) ?? null;
}

async function exportPoint(work: Work, snapshotId: SnapshotId, base: ArchivedPoint | null): Promise<ArchivedPoint> {
  const { manifest, deviceState } = await work.plan.vault.readPoint(snapshotId);
  if (!isOfSandbox(manifest, work.plan.sandboxId)) {
    throw new AppError('bad_request', `${snapshotId} is no point of ${work.plan.sandboxId}.`);
  }
  await using content = await work.plan.vault.openPoint(snapshotId);
  const hasMemory = kindOf(manifest) === 'memory';
  const diskBytes = manifest.size.diskMib * 2 ** 20;
  const memoryBytes = hasMemory ? manifest.size.memoryMib * 2 ** 20 : 0;
  const allBytes = diskBytes + memoryBytes;
  return {
    manifest,
    disk: await exportFile(work, content, { file: 'disk', sizeBytes: diskBytes, base, allBytes }),
    memory: hasMemory
      ? await exportFile(work, content, { file: 'memory', sizeBytes: memoryBytes, base, allBytes })
      : null,
    deviceState: deviceState === null ? null : await exportBytes(work, deviceState),
  };
}

function isOfSandbox(
  manifest: object & { readonly owner: { readonly kind: string } },
  sandboxId: SandboxId,
): manifest is ArchivedPoint['manifest'] {
  const { owner } = manifest as ArchivedPoint['manifest'];
  return owner.kind === 'sandbox' && owner.sandboxId === sandboxId;
}

interface FileToExport {
  readonly file: VaultFile;
  readonly sizeBytes: number;
  readonly base: ArchivedPoint | null;
  /** Of all files of the point. */
  readonly allBytes: number;
}

async function exportFile(
  work: Work,
  content: PointContent,
  { file, sizeBytes, base, allBytes }: FileToExport,
): Promise<ArchivedFile> {
  const known = base?.[file]?.sizeBytes === sizeBytes ? base[file] : null;
  const before = known === null ? null : await work.chunks.getTable(known);
  const baseId = known === null ? null : (base?.manifest.snapshotId ?? null);
  const states = await content.survey(file, PIECE_BYTES, baseId);
  const table = new PieceTable(sizeBytes);
  await eachPiece(work, table, async (piece) => {
    work.share += pieceLength(sizeBytes, piece) / allBytes;
    if (states[piece] === PIECE.same && before !== null) {
      table.set(piece, before.get(piece));
      return null;
    }
    if (states[piece] === PIECE.hole) return null;
    return await content.read(file, piece * PIECE_BYTES, pieceLength(sizeBytes, piece));
  });
  return { sizeBytes, table: await work.chunks.putTable(table, sizeBytes) };
}

async function exportBytes(work: Work, bytes: Uint8Array): Promise<ArchivedFile> {
  const table = new PieceTable(bytes.length);
  await eachPiece(work, table, async (piece) => {
    return bytes.subarray(piece * PIECE_BYTES, piece * PIECE_BYTES + pieceLength(bytes.length, piece));
  });
  return { sizeBytes: bytes.length, table: await work.chunks.putTable(table, bytes.length) };
}

/** Sends the pieces that `read` gives; null: there is nothing to send. */
async function eachPiece(
  { chunks, counts, plan }: Work,
  table: PieceTable,
  read: (piece: number) => Promise<Uint8Array | null>,
): Promise<void> {
  await inParallel(PIECES_AT_ONCE, Array(table.pieces).keys(), async (piece) => {
    plan.signal?.throwIfAborted();
    const bytes = await read(piece);
    if (bytes === null) return;
    counts.readBytes += bytes.length;
    const { digest, sentBytes } = await chunks.put(bytes);
    table.set(piece, digest);
    counts.sentBytes += sentBytes;
  });
}
