/** What an index says, and what makes one valid. */
import {
  AppError,
  checkSize,
  type Digest,
  idSchema,
  isPlaceholder,
  issuesOf,
  MAX_BINDINGS_OF_SANDBOX,
  type MoveFacts,
  manifestSchema,
  type PointManifest,
  parseDigest,
  type SandboxId,
  type SecretGrant,
  type SizeLimits,
  type SnapshotId,
} from '@space/core';
import { z } from 'zod';
import { MAX_DEVICE_STATE_BYTES, PIECE_BYTES, partsOf } from './pieces.ts';

/**
 * Format 2 is that of a move whose sandbox names secret bindings, format 3 of what is encrypted (`sealed-index.ts`); all else is written as
 * format 1, which earlier versions read too.
 */
const FORMATS = [1, 2, 3] as const;
const PLAIN_FORMATS = [1, 2] as const;
type Format = (typeof FORMATS)[number];
export const KIND = 'space archive';
/** Above what a timeline keeps; an index of so many points has some 3 MB. */
export const MAX_POINTS = 1000;
export const MAX_INDEX_BYTES = 8 * 2 ** 20;

/** A file as the parts of its table; null: nothing but zeros. */
export interface ArchivedFile {
  readonly sizeBytes: number;
  readonly table: readonly (Digest | null)[];
}

export interface ArchivedPoint {
  /** As it is in the vault that it came from. */
  readonly manifest: PointManifest & { readonly owner: { readonly kind: 'sandbox' } };
  readonly disk: ArchivedFile;
  /** Null: it is of kind `disk`. */
  readonly memory: ArchivedFile | null;
  readonly deviceState: ArchivedFile | null;
}

export interface ArchiveIndex {
  readonly kind: typeof KIND;
  readonly format: Format;
  readonly pieceBytes: typeof PIECE_BYTES;
  /** ISO 8601. */
  readonly madeAt: string;
  readonly sandboxId: SandboxId;
  readonly template: string;
  /** Which of the points the sandbox goes on from. */
  readonly head: SnapshotId;
  /** A point after those that it grew from. */
  readonly points: readonly ArchivedPoint[];
  /** Absent: it was made as a copy. */
  readonly move?: ArchivedMove;
}

export interface ArchivedMove extends MoveFacts {
  /** So that no two moves have one name, whatever is in them. */
  readonly nonce: string;
}

export const fileSchema: z.ZodType<ArchivedFile> = z.strictObject({
  sizeBytes: z.int().nonnegative(),
  table: z.array(
    z.custom<Digest>((text) => typeof text === 'string' && parseDigest(text) !== undefined, 'no digest').nullable(),
  ),
});

const point: z.ZodType<ArchivedPoint> = z.strictObject({
  manifest: manifestSchema.refine(
    ({ owner }) => owner.kind === 'sandbox',
    'not a point of a sandbox',
  ) as unknown as z.ZodType<ArchivedPoint['manifest']>,
  disk: fileSchema,
  memory: fileSchema.nullable(),
  deviceState: fileSchema.nullable(),
});

/** The name, the placeholder and its variable; whoever reads them checks what they are worth there. */
const grant: z.ZodType<SecretGrant> = z.strictObject({
  binding: z.string().regex(/^[a-z][a-z0-9-]{0,62}$/),
  placeholder: z.string().refine(isPlaceholder, 'no placeholder'),
  env: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/)
    .nullable(),
});

const move: z.ZodType<ArchivedMove> = z.strictObject({
  number: z.int().positive(),
  generation: z.int().positive(),
  nonce: z.string().regex(/^[0-9a-f]{32}$/),
  settings: z.record(z.string().max(100), z.unknown()),
  secrets: z.array(grant).max(MAX_BINDINGS_OF_SANDBOX).default([]),
});

const bodySchema = {
  pieceBytes: z.literal(PIECE_BYTES),
  madeAt: z.iso.datetime({ offset: true }),
  sandboxId: idSchema('sandbox'),
  template: z.string().regex(/^[a-z0-9][a-z0-9._-]{0,62}$/),
  head: idSchema('snapshot'),
  points: z.array(point).min(1).max(MAX_POINTS),
  move: move.exactOptional(),
};

const index: z.ZodType<ArchiveIndex> = z.strictObject({
  kind: z.literal(KIND),
  format: z.literal(PLAIN_FORMATS),
  ...bodySchema,
});

/** What is put together of the two halves of a sealed index. */
const opened: z.ZodType<ArchiveIndex> = z.strictObject({ kind: z.literal(KIND), format: z.literal(3), ...bodySchema });

export type IndexParts = Omit<ArchiveIndex, 'kind' | 'format' | 'pieceBytes'>;

export function formatIndex(parts: IndexParts): Uint8Array {
  const { secrets = [], ...move } = parts.move ?? {};
  const format = secrets.length === 0 ? 1 : 2;
  const shown = 'number' in move ? { move: format === 1 ? move : { ...move, secrets } } : {};
  const whole = { kind: KIND, format, pieceBytes: PIECE_BYTES, ...parts, ...shown };
  return Buffer.from(`${JSON.stringify(whole)}\n`);
}

/** Throws `archive_unsupported` for another format, else `archive_damaged`. Nothing of it has been looked for yet. */
export function parseIndex(value: unknown): ArchiveIndex {
  const parsed = index.safeParse(value);
  if (!parsed.success) throw damagedIndex(issuesOf(parsed.error));
  checkTogether(parsed.data);
  return parsed.data;
}

/** As `parseIndex`, of one that was sealed. */
export function parseOpened(parts: object): ArchiveIndex {
  const parsed = opened.safeParse({ kind: KIND, format: 3, pieceBytes: PIECE_BYTES, ...parts });
  if (!parsed.success) throw damagedIndex(issuesOf(parsed.error));
  checkTogether(parsed.data);
  return parsed.data;
}

/** What it says at all, of whatever format that is known here. Throws `archive_unsupported`, `archive_damaged`. */
export function parseAny(bytes: Uint8Array): unknown {
  const value = parseJson(bytes);
  const head = z.object({ kind: z.literal(KIND), format: z.int() }).safeParse(value);
  if (head.success && !FORMATS.some((known) => known === head.data.format)) {
    const { format } = head.data;
    throw new AppError('archive_unsupported', {
      detail: `The archive has format ${format}; this version knows ${FORMATS.slice(0, -1).join(', ')} and ${FORMATS.at(-1)}.`,
      facts: { format, known: Math.max(...FORMATS) },
    });
  }
  return value;
}

export function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (thrown) {
    throw damagedIndex('it is no JSON', thrown);
  }
}

export function damagedIndex(why: string, cause?: unknown): AppError {
  // A hostile index can have as many faults as it likes.
  const detail = `The index of the archive is not valid: ${why.slice(0, 300)}.`;
  return new AppError('archive_damaged', detail, cause === undefined ? undefined : { cause });
}

/** What the schema cannot say: that the parts of the index fit each other. */
function checkTogether({ format, points, head, sandboxId, move: moved }: ArchiveIndex): void {
  const names = moved?.secrets.map(({ binding }) => binding) ?? [];
  if (names.length > 0 && format === 1) throw damagedIndex('format 1 names no secret bindings');
  if (new Set(names).size < names.length) throw damagedIndex('it names a secret binding twice');
  const seen = new Set<SnapshotId>();
  const later = new Set(points.map(({ manifest }) => manifest.snapshotId));
  for (const { manifest, ...files } of points) {
    const { snapshotId, parent, size } = manifest;
    const fail = (why: string) => damagedIndex(`${snapshotId} ${why}`);
    if (seen.has(snapshotId)) throw fail('is there twice');
    if (manifest.owner.sandboxId !== sandboxId) throw fail(`is a point of ${manifest.owner.sandboxId}`);
    if (parent !== null && later.has(parent) && !seen.has(parent)) throw fail(`stands before ${parent}, its parent`);
    const hasMemory = manifest.deviceState !== null;
    const stateBytes = manifest.deviceState?.sizeBytes ?? 0;
    if (stateBytes > MAX_DEVICE_STATE_BYTES) throw fail('has too large a device state');
    checkFile('disk', files.disk, size.diskMib * 2 ** 20, fail);
    checkFile('memory', files.memory, hasMemory ? size.memoryMib * 2 ** 20 : null, fail);
    checkFile('device state', files.deviceState, hasMemory ? stateBytes : null, fail);
    seen.add(snapshotId);
  }
  if (!seen.has(head)) throw damagedIndex(`its head ${head} is none of its points`);
}

/** `expected` null: it must not be there. */
function checkFile(name: string, file: ArchivedFile | null, expected: number | null, fail: (why: string) => AppError) {
  if (file === null && expected === null) return;
  if (file === null || file.sizeBytes !== expected) {
    throw fail(`has a ${name} of ${file?.sizeBytes ?? 'no'} bytes where its manifest says ${expected ?? 'none'}`);
  }
  const parts = partsOf(file.sizeBytes);
  const { length } = file.table;
  if (length !== parts) throw fail(`has a table of ${length} parts for its ${name}, which needs ${parts}`);
}

/** Throws `size_impossible`. */
export function checkSizes({ points }: ArchiveIndex, limits: SizeLimits): void {
  for (const { manifest } of points) checkSize(manifest.size, limits);
}
