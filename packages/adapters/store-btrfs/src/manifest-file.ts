/**
 * The manifest and the sandbox records as they lie on disk: strict, since they are read back by later versions and after
 * accidents. An unknown field or format is refused, never guessed at.
 */
import {
  type Id,
  type IdKind,
  MANIFEST_FORMAT,
  type PointManifest,
  parseId,
  type SandboxRecord,
  type Size,
} from '@space/core';
import { z } from 'zod';

function id<K extends IdKind>(kind: K) {
  return z.custom<Id<K>>((text) => typeof text === 'string' && parseId(kind, text) !== undefined, `not a ${kind} id`);
}

const count = z.int().nonnegative();
const size: z.ZodType<Size> = z.strictObject({
  vcpus: z.int().positive(),
  memoryMib: z.int().positive(),
  diskMib: z.int().positive(),
});

const manifest: z.ZodType<PointManifest> = z
  .strictObject({
    format: z.literal(MANIFEST_FORMAT),
    snapshotId: id('snapshot'),
    owner: z.discriminatedUnion('kind', [
      z.strictObject({
        kind: z.literal('sandbox'),
        sandboxId: id('sandbox'),
        lifeId: id('life'),
        generation: count,
      }),
      z.strictObject({ kind: z.literal('ready'), template: z.string(), imageDigest: z.string() }),
    ]),
    parent: id('snapshot').nullable(),
    size,
    machine: z.strictObject({
      runtime: z.string(),
      vmmBuild: z.string(),
      machine: z.string(),
      cpuModel: z.string(),
      accelerator: z.string(),
      kernelDigest: z.string(),
      initramfsDigest: z.string(),
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
  sandboxId: id('sandbox'),
  epoch: count,
  generation: count,
  size,
  template: z.string(),
  head: id('snapshot'),
  life: id('life').nullable(),
});

/** Throws a plain `Error` that says what does not match. */
export function parseManifest(text: string): PointManifest {
  return parse(manifest, text);
}

/** Throws a plain `Error` that says what does not match. */
export function parseRecord(text: string): SandboxRecord {
  return parse(record, text);
}

function parse<T>(schema: z.ZodType<T>, text: string): T {
  const parsed = schema.safeParse(JSON.parse(text));
  if (parsed.success) return parsed.data;
  throw new Error(parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'it'}: ${message}`).join('; '));
}
