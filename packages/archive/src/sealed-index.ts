/**
 * The index of an encrypted archive, in two halves.
 *
 * ```
 *   { kind, format: 3, header, sealed }
 *                       │       └── ciphertext: template, manifests, what a move says of its sandbox
 *                       └── in clear: times, numbers, tables by name, the key of the archive as the customer's KMS wrapped it
 * ```
 *
 * The header is what lists and collections need, which have no key. It is text, and as such the associated data of the other half: so
 * neither is changed, nor taken for that of another archive.
 */
import {
  AppError,
  type ArchiveRef,
  idSchema,
  issuesOf,
  type KeyBytes,
  MAX_WRAPPED_KEY_BYTES,
  type OrganisationId,
  type ProjectId,
  type VaultName,
  type WrappedArchiveKey,
} from '@space/core';
import { z } from 'zod';
import {
  type ArchivedFile,
  type ArchiveIndex,
  damagedIndex,
  fileSchema,
  type IndexParts,
  KIND,
  MAX_POINTS,
  parseAny,
  parseIndex,
  parseJson,
  parseOpened,
} from './format.ts';
import { ArchiveSealer } from './piece-seal.ts';
import { PIECE_BYTES } from './pieces.ts';

export interface ArchiveSeal {
  /** Whoever gives it wipes it. */
  readonly key: KeyBytes;
  readonly wrapped: WrappedArchiveKey;
}

/** What is to be known of an archive without its key. */
export interface IndexOutline {
  readonly madeAt: string;
  /** Of the point that an import goes on from. */
  readonly takenAt: string;
  readonly points: number;
  readonly isMove: boolean;
  readonly files: readonly ArchivedFile[];
  /** Null: it is not encrypted. */
  readonly key: WrappedArchiveKey | null;
}

const header = z.strictObject({
  pieceBytes: z.literal(PIECE_BYTES),
  madeAt: z.iso.datetime({ offset: true }),
  takenAt: z.iso.datetime({ offset: true }),
  isMove: z.boolean(),
  key: z.strictObject({
    organisation: idSchema('organisation'),
    vault: z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/),
    kms: z.string().max(63),
    key: z.string().max(2048),
    wrapped: z.base64().max(2 * MAX_WRAPPED_KEY_BYTES),
  }),
  files: z
    .array(z.strictObject({ disk: fileSchema, memory: fileSchema.nullable(), deviceState: fileSchema.nullable() }))
    .min(1)
    .max(MAX_POINTS),
});

const sealedIndex = z.strictObject({
  kind: z.literal(KIND),
  format: z.literal(3),
  header: z.string(),
  sealed: z.base64(),
});

export function formatSealed(parts: IndexParts, space: ProjectId, { key, wrapped }: ArchiveSeal): Uint8Array {
  const { madeAt, sandboxId, template, head, points, move } = parts;
  const text = JSON.stringify({
    pieceBytes: PIECE_BYTES,
    madeAt,
    takenAt: points.find(({ manifest }) => manifest.snapshotId === head)?.manifest.takenAt,
    isMove: move !== undefined,
    key: {
      organisation: wrapped.organisationId,
      vault: wrapped.vault,
      ...wrapped.reference,
      wrapped: Buffer.from(wrapped.wrapped).toString('base64'),
    },
    files: points.map(({ disk, memory, deviceState }) => ({ disk, memory, deviceState })),
  });
  const manifests = points.map(({ manifest }) => manifest);
  const body = Buffer.from(JSON.stringify({ template, head, manifests, ...(move === undefined ? {} : { move }) }));
  const sealed = Buffer.from(new ArchiveSealer(key, space).sealIndex(sandboxId, text, body)).toString('base64');
  return Buffer.from(`${JSON.stringify({ kind: KIND, format: 3, header: text, sealed })}\n`);
}

/** Throws `archive_unsupported`, `archive_damaged`. */
export function outlineOf(bytes: Uint8Array): IndexOutline {
  const value = parseAny(bytes);
  const halves = halvesOf(value);
  if (halves !== null) return outline(halves);
  const { madeAt, head, points, move } = parseIndex(value);
  const last = points.find(({ manifest }) => manifest.snapshotId === head);
  return {
    madeAt,
    takenAt: last?.manifest.takenAt ?? madeAt,
    points: points.length,
    isMove: move !== undefined,
    files: points.flatMap(filesOf),
    key: null,
  };
}

/** Throws as `outlineOf`, and `vault_key_wrong` when the key is not that of the archive, or is missing. */
export function openIndex(bytes: Uint8Array, { space, sandboxId }: ArchiveRef, key: KeyBytes | null): ArchiveIndex {
  const value = parseAny(bytes);
  const halves = halvesOf(value);
  if (halves === null) return parseIndex(value);
  if (key === null) throw new AppError('vault_key_wrong', 'The archive is encrypted, and its key was not given.');
  const body = new ArchiveSealer(key, space).openIndex(sandboxId, halves.header, Buffer.from(halves.sealed, 'base64'));
  if (body === null) throw new AppError('vault_key_wrong', 'The archive does not open by the key that was given.');
  const { madeAt, files } = parseHeader(halves.header);
  const parsed = z.looseObject({ manifests: z.array(z.unknown()) }).safeParse(parseJson(body));
  if (!parsed.success) throw damagedIndex(issuesOf(parsed.error));
  const { manifests, ...rest } = parsed.data;
  if (manifests.length !== files.length) throw damagedIndex('its halves do not fit each other');
  const points = manifests.map((manifest, at) => ({ manifest, ...files[at] }));
  return parseOpened({ ...rest, madeAt, sandboxId, points });
}

type Halves = z.output<typeof sealedIndex>;

/** Null: it is of a format that is not encrypted. */
function halvesOf(value: unknown): Halves | null {
  if (!z.object({ format: z.literal(3) }).safeParse(value).success) return null;
  const parsed = sealedIndex.safeParse(value);
  if (!parsed.success) throw damagedIndex(issuesOf(parsed.error));
  return parsed.data;
}

function parseHeader(text: string): z.output<typeof header> {
  const parsed = header.safeParse(parseJson(Buffer.from(text)));
  if (!parsed.success) throw damagedIndex(issuesOf(parsed.error));
  return parsed.data;
}

function outline(halves: Halves): IndexOutline {
  const { madeAt, takenAt, isMove, files, key } = parseHeader(halves.header);
  return {
    ...{ madeAt, takenAt, isMove, points: files.length, files: files.flatMap(filesOf) },
    key: {
      organisationId: key.organisation as OrganisationId,
      vault: key.vault as VaultName,
      reference: { kms: key.kms, key: key.key },
      wrapped: Buffer.from(key.wrapped, 'base64'),
    },
  };
}

type Files = Pick<ArchiveIndex['points'][number], 'disk' | 'memory' | 'deviceState'>;

function filesOf({ disk, memory, deviceState }: Files): readonly ArchivedFile[] {
  return [disk, memory, deviceState].filter((file) => file !== null);
}
