/** Files in a sandbox. Bytes travel as request and response bodies; everything about them is in the query and headers. */
import { z } from 'zod';
import { guestPath, guestUser, queryInteger } from './fields.ts';
import { errorEvent } from './problem.ts';

const octalMode = z
  .string()
  .regex(/^[0-7]{4}$/)
  .meta({ description: 'Permission bits, four octal digits.' });

const file = { path: guestPath, user: guestUser.exactOptional() };

export const filePathQuery = z.strictObject(file);

export const readFileQuery = z.strictObject({
  ...file,
  offset: queryInteger(0, Number.MAX_SAFE_INTEGER)
    .exactOptional()
    .meta({ description: 'First byte to read; past the end, the answer is empty. Not together with Range.' }),
  length: queryInteger(1, Number.MAX_SAFE_INTEGER).exactOptional().meta({ description: 'At most so many bytes.' }),
});

export const writeFileQuery = z.strictObject({
  ...file,
  mode: z
    .string()
    .regex(/^[0-7]{3,4}$/, 'must be three or four octal digits')
    .transform((digits) => Number.parseInt(digits, 8))
    .exactOptional()
    .meta({ description: 'Permission bits in octal; left out: those of the replaced file, or 0644.' }),
});

export const writtenFile = z
  .strictObject({
    path: z.string().meta({ description: 'As it was asked for.' }),
    sizeBytes: z.number().int().min(0),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .meta({ description: 'Of the bytes on the disk of the sandbox, computed there.' }),
  })
  .meta({ id: 'WrittenFile' });

export const fileEntry = z
  .strictObject({
    name: z.string(),
    type: z.enum(['file', 'directory', 'symlink', 'other']),
    sizeBytes: z.number().int().min(0),
    mode: octalMode,
    uid: z.number().int().min(0),
    gid: z.number().int().min(0),
    modifiedAt: z.iso.datetime(),
    linkTarget: z.string().nullable().meta({ description: 'Of a symlink, as it is written in it.' }),
  })
  .meta({ id: 'FileEntry' });

/** A listing has no limit, so it is a stream; it ends with `end` or `error`. */
export const listEvent = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('entry'), entry: fileEntry }),
    z.strictObject({ type: z.literal('end') }),
    errorEvent,
  ])
  .meta({ id: 'ListEvent' });
