/**
 * The fields that several schemas share. Text that will reach the guest is checked to survive the way there unchanged: no
 * zero byte, and no lone surrogate, which UTF-8 would silently replace by another character.
 */
import { type IdKind, MAX_RETENTION_MS, parseId } from '@space/core';
import { z } from 'zod';
import {
  DEFAULT_PAGE_SIZE,
  MAX_ENV_ENTRIES,
  MAX_ENV_KEY_LENGTH,
  MAX_ENV_VALUE_LENGTH,
  MAX_METADATA_ENTRIES,
  MAX_METADATA_KEY_LENGTH,
  MAX_METADATA_VALUE_LENGTH,
  MAX_PAGE_SIZE,
  MAX_PATH_LENGTH,
} from '../limits.ts';

export const text = (maxLength: number) =>
  z
    .string()
    .max(maxLength)
    .refine((value) => value.isWellFormed() && !value.includes('\0'), 'must be Unicode text without a zero byte');

/** A whole number in a query string: decimal digits and nothing else. */
export const queryInteger = (min: number, max: number) =>
  z
    .string()
    .regex(/^(0|[1-9][0-9]{0,15})$/, 'must be a whole number')
    .transform(Number)
    .refine((value) => value >= min && value <= max, `must be ${min} to ${max}`)
    .meta({ type: 'integer', minimum: min, maximum: max });

export const milliseconds = z.number().min(0);

/** `true` or `false`, as a query can say it. */
export const queryBoolean = z
  .enum(['true', 'false'])
  .transform((value) => value === 'true')
  .meta({ type: 'boolean' });

const ID_LETTERS = '[0-9a-hjkmnp-tv-z]{16}';
const NAME_PATTERN = '[a-z][a-z0-9-]{0,62}';

const idOf = <K extends IdKind>(kind: K, prefix: string) =>
  z
    .string()
    .regex(new RegExp(`^${prefix}_${ID_LETTERS}$`), `must be an id like ${prefix}_…`)
    .transform((value, context) => {
      const id = parseId(kind, value);
      if (id !== undefined) return id;
      context.addIssue({ code: 'custom', message: `must be an id like ${prefix}_…` });
      return z.NEVER;
    });

export const sandboxId = idOf('sandbox', 'sbx').meta({ description: 'Id of a sandbox.' });
export const snapshotId = idOf('snapshot', 'snp').meta({ description: 'Id of a snapshot.' });
export const processId = idOf('process', 'prc').meta({ description: 'Id of a process that the API started.' });

export const organisationId = idOf('organisation', 'org').meta({ description: 'Id of an organisation.' });
export const projectId = idOf('project', 'prj').meta({ description: 'Id of a project.' });
export const operationId = idOf('operation', 'opn').meta({ description: 'Id of an operation.' });
export const scheduleId = idOf('schedule', 'sch').meta({ description: 'Id of a schedule.' });
export const runId = idOf('run', 'run').meta({ description: 'Id of a run of a schedule.' });
export const auditId = idOf('audit', 'aud').meta({ description: 'Id of a record of the audit.' });
export const shareId = idOf('share', 'shr').meta({ description: 'Id of a share; not its token.' });
export const templateId = idOf('template', 'tpl').meta({ description: 'Id of a template that was built here.' });
export const buildId = idOf('build', 'bld').meta({ description: 'Id of a build of a template.' });
export const approvalId = idOf('approval', 'apr').meta({
  description: 'Id of an approval; also the ticket that a program in the sandbox is given.',
});
export const apiKeyId = idOf('apiKey', 'key').meta({ description: 'Id of an API key; not the key itself.' });

/** Starts with a letter and has no underscore, so that no name looks like an id. */
export const name = z
  .string()
  .regex(new RegExp(`^${NAME_PATTERN}$`), 'must be 1 to 63 of a-z, 0-9 and dash, starting with a letter')
  .meta({ description: '1 to 63 of a-z, 0-9 and dash, starting with a letter; unique among its kind.' });

const reference = (kind: string, prefix: string) =>
  z
    .string()
    .regex(new RegExp(`^(${prefix}_${ID_LETTERS}|${NAME_PATTERN})$`), `must be the id or the name of a ${kind}`)
    .meta({ description: `The id or the name of a ${kind}.` });

export const sandboxReference = reference('sandbox', 'sbx');
export const snapshotReference = reference('snapshot', 'snp');
export const projectReference = reference('project', 'prj');

/** Named by who runs the installation; never a path. */
export const archiveLocation = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be the name of a place for archives')
  .meta({ description: 'A place for archives, of those that `/v1/capabilities` names.' });

export const timestamp = z.iso.datetime().meta({ description: 'ISO 8601, UTC.' });

/** A past point: a snapshot, or the newest that was taken at or before a time. */
export const pastPoint = z
  .union([
    snapshotReference,
    z.strictObject({ at: timestamp }),
    z.strictObject({ agoMs: z.number().int().min(0).max(MAX_RETENTION_MS) }),
  ])
  .meta({
    description:
      'A snapshot by id or name, or a time: then the newest of the sandbox that was taken at or before it, also before it ' +
      'was forked. What starts from one of kind `disk` boots.',
  });

const atMostEntries = <T extends z.ZodType<Record<string, string>>>(schema: T, max: number) =>
  schema
    .refine((entries) => Object.keys(entries).length <= max, `must have at most ${max} entries`)
    .meta({ maxProperties: max });

export const env = atMostEntries(
  z.record(
    z
      .string()
      .max(MAX_ENV_KEY_LENGTH)
      .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be the name of an environment variable'),
    text(MAX_ENV_VALUE_LENGTH),
  ),
  MAX_ENV_ENTRIES,
);

export const metadata = atMostEntries(
  z.record(text(MAX_METADATA_KEY_LENGTH).min(1), text(MAX_METADATA_VALUE_LENGTH)),
  MAX_METADATA_ENTRIES,
);

export const guestPath = text(MAX_PATH_LENGTH)
  .min(1)
  .meta({ description: "Path in the sandbox: absolute, or relative to the user's home." });

/** Base64 as clients write it: with `+/` or with `-_`, padded or not. */
const base64Text = (maxBytes: number) =>
  z
    .string()
    .max(Math.ceil(maxBytes / 3) * 4)
    .regex(/^[A-Za-z0-9+/_-]*={0,2}$/, 'must be base64');

export const base64Bytes = (maxBytes: number) =>
  base64Text(maxBytes).transform((value, context) => {
    const bytes = Uint8Array.from(Buffer.from(value, 'base64'));
    // What a decoder would pass over is refused: nobody meant it.
    const isWhole = Math.ceil((bytes.length * 4) / 3) === value.replace(/=+$/, '').length;
    if (isWhole && bytes.length <= maxBytes) return bytes;
    context.addIssue({ code: 'custom', message: `must be base64 of at most ${maxBytes} bytes` });
    return z.NEVER;
  });

/** Bytes of the guest that need not be UTF-8: a path, a name, the target of a link. */
export const opaqueBytes = (maxBytes: number) =>
  base64Bytes(maxBytes).refine(
    (bytes) => bytes.length > 0 && !bytes.includes(0),
    'must be at least one byte, and none of them zero',
  );

export const absoluteGuestPath = text(MAX_PATH_LENGTH)
  .regex(/^[/]/, 'must be absolute')
  .meta({ description: 'Absolute path in the sandbox.' });

export const guestUser = z
  .string()
  .regex(/^([a-z_][a-z0-9_-]{0,31}|0|[1-9][0-9]{0,8})$/, 'must be a user name or a uid')
  .meta({ description: 'Name or uid of the user in the sandbox to act as; `user` when left out.' });

export const page = {
  limit: queryInteger(1, MAX_PAGE_SIZE).default(DEFAULT_PAGE_SIZE),
  cursor: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,512}$/, 'must be the nextCursor of an earlier answer')
    .exactOptional(),
};

export const nextCursor = z
  .string()
  .nullable()
  .meta({ description: 'Pass it as `cursor` for the next page; null on the last.' });
