/**
 * Files in a sandbox. Contents travel as request and response bodies; what is about them in query, JSON and headers.
 *
 * One rule for the bytes that Linux takes for names and paths: where they are UTF-8 they are text in `path`; where they are
 * not, `path` is absent from a request (null in an answer) and `pathBase64` has the bytes. So it is for `name`, `from`, `to`,
 * `target` and `linkTarget` too.
 */
import { z } from 'zod';
import { MAX_LIST_DEPTH, MAX_PATH_LENGTH, MAX_XATTR_BYTES, MAX_XATTR_NAME_LENGTH } from '../limits.ts';
import { base64Bytes, guestPath, guestUser, opaqueBytes, queryBoolean, queryInteger, text } from './fields.ts';
import { errorEvent } from './problem.ts';

const octalMode = z
  .string()
  .regex(/^[0-7]{4}$/)
  .meta({ description: 'Permission bits, four octal digits.' });

const askedMode = z
  .string()
  .regex(/^[0-7]{3,4}$/, 'must be three or four octal digits')
  .transform((digits) => Number.parseInt(digits, 8));

const bytesPath = opaqueBytes(MAX_PATH_LENGTH);

const path = {
  path: guestPath.exactOptional().meta({
    description: "Absolute, or relative to the user's home, when it is UTF-8. Exactly one of path and pathBase64.",
  }),
  pathBase64: bytesPath
    .exactOptional()
    .meta({ description: 'The bytes of the path, base64; for one that is not UTF-8.' }),
};
const file = { ...path, user: guestUser.exactOptional() };
const follow = { description: 'Whether a symbolic link at the end of the path is followed; default true.' };

/** Exactly one of a field and its form in base64. */
const oneForm =
  (...fields: readonly string[]) =>
  (input: Readonly<Record<string, unknown>>): boolean =>
    fields.every((field) => (input[field] === undefined) !== (input[`${field}Base64`] === undefined));

const oneFormOf = (...fields: readonly string[]) =>
  [
    oneForm(...fields),
    `exactly one of ${fields.map((field) => `${field} and ${field}Base64`).join(', of ')} must be given`,
  ] as const;

/** The same rule, for the document. */
const eitherForm = (field: string) => ({ oneOf: [{ required: [field] }, { required: [`${field}Base64`] }] });

export const filePathQuery = z.strictObject(file).refine(...oneFormOf('path'));

export const statFileQuery = z
  .strictObject({ ...file, follow: queryBoolean.exactOptional().meta(follow) })
  .refine(...oneFormOf('path'));

export const listFilesQuery = z
  .strictObject({
    ...file,
    depth: queryInteger(1, MAX_LIST_DEPTH)
      .exactOptional()
      .meta({ description: 'Levels of directories; default 1: the entries of the directory alone.' }),
  })
  .refine(...oneFormOf('path'));

export const readFileQuery = z
  .strictObject({
    ...file,
    offset: queryInteger(0, Number.MAX_SAFE_INTEGER).exactOptional().meta({
      description:
        'First byte to read; past the end, the answer is empty (a Range past it is `range_unsatisfiable`). Not together with Range.',
    }),
    length: queryInteger(1, Number.MAX_SAFE_INTEGER).exactOptional().meta({ description: 'At most so many bytes.' }),
  })
  .refine(...oneFormOf('path'));

const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hex digits');

export const writeFileQuery = z
  .strictObject({
    ...file,
    mode: askedMode.exactOptional().meta({
      description: 'Permission bits in octal; left out: those of the replaced file less the set-id bits, or 0644.',
    }),
    ifAbsent: queryBoolean
      .exactOptional()
      .meta({ description: 'True: `file_exists` when there is anything by that name. Default false.' }),
    sha256: sha256
      .exactOptional()
      .meta({ description: 'That the body must have; a body that has not changes nothing (`digest_mismatch`).' }),
  })
  .refine(...oneFormOf('path'));

export const removeFileQuery = z
  .strictObject({
    ...file,
    recursive: queryBoolean
      .exactOptional()
      .meta({ description: 'A directory with all that is in it; default false: only an empty one.' }),
  })
  .refine(...oneFormOf('path'));

export const makeDirectoryBody = z
  .strictObject({
    ...file,
    parents: z.boolean().exactOptional().meta({
      description: 'Makes missing parents, and takes a directory that is there for made; default false.',
    }),
    mode: askedMode.exactOptional().meta({ description: 'Permission bits in octal; default 0755.' }),
  })
  .refine(...oneFormOf('path'))
  .meta({ id: 'MakeDirectory', ...eitherForm('path') });

export const moveFileBody = z
  .strictObject({
    from: guestPath.exactOptional(),
    fromBase64: bytesPath.exactOptional(),
    to: guestPath.exactOptional(),
    toBase64: bytesPath.exactOptional(),
    user: guestUser.exactOptional(),
    overwrite: z
      .boolean()
      .exactOptional()
      .meta({ description: 'Whether a file at `to` (or, by a directory, an empty one) is replaced; default true.' }),
  })
  .refine(...oneFormOf('from', 'to'))
  .meta({ id: 'MoveFile', allOf: [eitherForm('from'), eitherForm('to')] });

const numberOrName = z.string().regex(/^([a-z_][a-z0-9_-]{0,31}|0|[1-9][0-9]{0,9})$/, 'must be a name or a number');

export const fileAttributesBody = z
  .strictObject({
    ...file,
    mode: askedMode.exactOptional().meta({ description: 'Permission bits in octal.' }),
    owner: numberOrName.exactOptional().meta({ description: 'Name or uid. Only root may give a file away.' }),
    group: numberOrName.exactOptional().meta({ description: 'Name or gid.' }),
    follow: z.boolean().exactOptional().meta(follow),
  })
  .refine(...oneFormOf('path'))
  .meta({ id: 'FileAttributes', ...eitherForm('path') });

export const makeSymlinkBody = z
  .strictObject({
    ...file,
    target: text(MAX_PATH_LENGTH).min(1).exactOptional().meta({ description: 'As it is to be written in the link.' }),
    targetBase64: bytesPath.exactOptional(),
  })
  .refine(...oneFormOf('path', 'target'))
  .meta({ id: 'MakeSymlink', allOf: [eitherForm('path'), eitherForm('target')] });

const attributeName = {
  name: text(MAX_XATTR_NAME_LENGTH)
    .min(1)
    .exactOptional()
    .meta({ description: 'With its namespace, as in `user.note`. Exactly one of name and nameBase64.' }),
  nameBase64: opaqueBytes(MAX_XATTR_NAME_LENGTH).exactOptional(),
};

export const xattrQuery = z
  .strictObject({ ...file, ...attributeName, follow: queryBoolean.exactOptional().meta(follow) })
  .refine(...oneFormOf('path', 'name'));

export const setXattrBody = z
  .strictObject({
    ...file,
    ...attributeName,
    value: base64Bytes(MAX_XATTR_BYTES).meta({ description: 'Bytes, base64; at most 64 KiB.' }),
    follow: z.boolean().exactOptional().meta(follow),
  })
  .refine(...oneFormOf('path', 'name'))
  .meta({ id: 'SetXattr', allOf: [eitherForm('path'), eitherForm('name')] });

export const watchFilesQuery = z
  .strictObject({
    ...file,
    recursive: queryBoolean.exactOptional().meta({
      description: 'All directories below too, also those that are made later. Links are not followed. Default false.',
    }),
  })
  .refine(...oneFormOf('path'));

/** In answers both are there, and exactly one is not null. */
const nullableText = z.string().nullable();
const nullableBytes = z.base64().nullable();

export const xattrList = z
  .strictObject({ attributes: z.array(z.strictObject({ name: nullableText, nameBase64: nullableBytes })) })
  .meta({ id: 'XattrList' });

export const xattrValue = z
  .strictObject({ value: z.base64().meta({ description: 'Bytes, base64.' }) })
  .meta({ id: 'XattrValue' });

const answeredPath = {
  path: nullableText.meta({ description: 'Null when it is not UTF-8; pathBase64 has it then.' }),
  pathBase64: nullableBytes.meta({ description: 'Null when path has it.' }),
};

export const writtenFile = z
  .strictObject({
    ...answeredPath,
    sizeBytes: z.number().int().min(0),
    sha256: sha256.meta({ description: 'Of the bytes on the disk of the sandbox, computed there.' }),
  })
  .meta({ id: 'WrittenFile' });

export const removedFiles = z
  .strictObject({ removed: z.number().int().min(1).meta({ description: 'Entries, all levels counted.' }) })
  .meta({ id: 'RemovedFiles' });

export const fileEntry = z
  .strictObject({
    name: nullableText.meta({ description: 'The last part of the path; null when it is not UTF-8.' }),
    nameBase64: nullableBytes.meta({ description: 'Null when name has it.' }),
    path: nullableText.meta({
      description:
        'In a listing, relative to the listed directory; else as it was asked for. Null when it is not UTF-8.',
    }),
    pathBase64: nullableBytes.meta({ description: 'Null when path has it.' }),
    type: z.enum(['file', 'directory', 'symlink', 'other']),
    sizeBytes: z.number().int().min(0),
    mode: octalMode,
    uid: z.number().int().min(0),
    gid: z.number().int().min(0),
    modifiedAt: z.iso.datetime(),
    linkTarget: nullableText.meta({ description: 'Of a symlink that was not followed, as it is written in it.' }),
    linkTargetBase64: nullableBytes.meta({ description: 'The same, when it is not UTF-8.' }),
    unreadable: z.boolean().meta({
      description:
        'In a listing: a directory within the depth whose entries are missing, since the user may not read it.',
    }),
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

const changeOf = <K extends string>(kind: K) =>
  z.strictObject({ type: z.literal(kind), ...answeredPath, directory: z.boolean() });

export const watchEvent = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('ready') }).meta({ description: 'First: from here on nothing is missed.' }),
    changeOf('created'),
    changeOf('modified'),
    changeOf('removed'),
    changeOf('attributes'),
    z.strictObject({
      type: z.literal('moved'),
      from: nullableText,
      fromBase64: nullableBytes,
      to: nullableText,
      toBase64: nullableBytes,
      directory: z.boolean(),
    }),
    z
      .strictObject({ type: z.literal('overflow') })
      .meta({ description: 'Changes were lost, or directories are not watched, since there are too many.' }),
    errorEvent,
  ])
  .meta({ id: 'WatchEvent' });
