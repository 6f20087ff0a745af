/**
 * The manifest and the sandbox records as they lie on disk and in archives: strict, since they are read back by later
 * versions, after accidents, and from strangers. An unknown field or format is refused, never guessed at. Of a later format that
 * is told as such: what a newer version wrote is not damaged.
 */
import { z } from 'zod';
import { AppError } from './errors.ts';
import { type Id, type IdKind, parseId } from './ids.ts';
import { MANIFEST_FORMAT, type PointManifest, type SandboxRecord } from './manifest.ts';
import type { Size } from './size.ts';

/** Of an id of one kind. */
export function idSchema<K extends IdKind>(kind: K) {
  return z.custom<Id<K>>((text) => typeof text === 'string' && parseId(kind, text) !== undefined, `not a ${kind} id`);
}

const count = z.int().nonnegative();
/** Far above any that we write: it is shown to people. */
const text = z.string().max(1000);
export const sizeSchema: z.ZodType<Size> = z.strictObject({
  vcpus: z.int().positive(),
  memoryMib: z.int().positive(),
  diskMib: z.int().positive(),
});

export const manifestSchema: z.ZodType<PointManifest> = z
  .strictObject({
    format: z.literal(MANIFEST_FORMAT),
    snapshotId: idSchema('snapshot'),
    owner: z.discriminatedUnion('kind', [
      z.strictObject({
        kind: z.literal('sandbox'),
        sandboxId: idSchema('sandbox'),
        lifeId: idSchema('life'),
        generation: count,
      }),
      z.strictObject({ kind: z.literal('ready'), template: text, imageDigest: text }),
    ]),
    parent: idSchema('snapshot').nullable(),
    size: sizeSchema,
    machine: z.strictObject({
      runtime: text,
      vmmBuild: text,
      machine: text,
      cpuModel: text,
      accelerator: text,
      kernelDigest: text,
      initramfsDigest: text,
    }),
    deviceState: z.strictObject({ sha256: z.string().regex(/^[0-9a-f]{64}$/), sizeBytes: count }).nullable(),
    frozen: z.boolean(),
    takenAt: z.iso.datetime({ offset: true }),
  })
  .refine(
    ({ deviceState, frozen }) => frozen === (deviceState !== null),
    'its user processes must be frozen where memory is kept',
  );

const record: z.ZodType<SandboxRecord> = z.strictObject({
  format: z.literal(MANIFEST_FORMAT),
  sandboxId: idSchema('sandbox'),
  epoch: count,
  generation: count,
  size: sizeSchema,
  template: text,
  head: idSchema('snapshot'),
  life: idSchema('life').nullable(),
  moved: z.strictObject({ location: text, archive: text }).exactOptional(),
});

/** Throws `snapshot_unfit` for a later format, else a plain `Error` that says what does not match. */
export function parseManifest(text: string): PointManifest {
  const value: unknown = JSON.parse(text);
  const later = laterFormat(value);
  if (later === null) return parse(manifestSchema, value);
  throw new AppError('snapshot_unfit', {
    detail: `The snapshot has a manifest of format ${later}; this version knows formats up to ${MANIFEST_FORMAT}.`,
    facts: { need: 'format', needed: `${later}`, offered: `${MANIFEST_FORMAT}` },
  });
}

/** Throws `unavailable` for a later format, else a plain `Error` that says what does not match. */
export function parseRecord(text: string): SandboxRecord {
  const value: unknown = JSON.parse(text);
  const later = laterFormat(value);
  if (later === null) return parse(record, value);
  throw new AppError(
    'unavailable',
    `The record of a sandbox has format ${later}; this version knows formats up to ${MANIFEST_FORMAT}.`,
  );
}

/** What can be told of something that a later version has written: that, and no more. */
function laterFormat(value: unknown): number | null {
  const parsed = z.object({ format: z.int().gt(MANIFEST_FORMAT) }).safeParse(value);
  return parsed.success ? parsed.data.format : null;
}

function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Error(issuesOf(parsed.error));
}

/** What does not match, and where, in one line. */
export function issuesOf(error: z.ZodError): string {
  return error.issues.map(({ path, message }) => `${path.join('.') || 'it'}: ${message}`).join('; ');
}
