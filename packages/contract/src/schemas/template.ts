/** Templates that are built here: what they are made of, how a build goes, and what it has said. */
import { TEMPLATE_NAME, TEMPLATE_TAG } from '@space/core';
import { z } from 'zod';
import { buildId, env, guestPath, guestUser, queryInteger, snapshotId, templateId, text, timestamp } from './fields.ts';
import { networkPolicy } from './network.ts';
import { askedSize, size } from './sandbox.ts';

export const MAX_BUILD_STEPS = 200;
const MAX_COMMAND_LENGTH = 100_000;
const MAX_TAGS = 20;
const MAX_LOG_PAGE = 100;

export const templateName = z
  .string()
  .regex(TEMPLATE_NAME, 'must be 1 to 63 of a-z, 0-9, dash and underscore, starting with a letter or digit')
  .meta({ description: 'Name of a template; unique in the project, and none of those that the installation has.' });
const tag = z
  .string()
  .regex(TEMPLATE_TAG, 'must be 1 to 63 of a-z, 0-9, dot, dash and underscore, starting with a letter or digit')
  .meta({ description: 'Names one build of a template. `default` is what a name without a tag means.' });
const reference = z.string().min(1).max(200).meta({ description: 'Id or name of a template that was built here.' });

export const fileHash = z
  .string()
  .regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits')
  .meta({
    description: 'A digest that you have chosen for the content of the archive; the cache of steps goes by it.',
  });

const command = text(MAX_COMMAND_LENGTH).min(1);
const force = z.boolean().exactOptional().meta({ description: 'Run this step and those after it again.' });

export const buildStep = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('run'), command, user: guestUser.exactOptional(), force }),
    z.strictObject({
      type: z.literal('copy'),
      files: fileHash,
      from: guestPath.meta({ description: 'Path or pattern in the archive, relative to its top.' }),
      to: guestPath.meta({ description: 'A directory, when it ends with a slash or several things are copied.' }),
      user: guestUser.exactOptional(),
      mode: z
        .string()
        .regex(/^[0-7]{3,4}$/, 'must be three or four octal digits')
        .exactOptional(),
      force,
    }),
    z.strictObject({ type: z.literal('env'), values: env, force }),
    z.strictObject({ type: z.literal('workdir'), path: guestPath, force }),
    z.strictObject({ type: z.literal('user'), name: guestUser, force }),
  ])
  .meta({ id: 'TemplateStep' });

const imageSource = z
  .strictObject({
    archive: fileHash.meta({
      description: 'An archive that was uploaded: of the OCI layout, or as `docker save` makes it.',
    }),
  })
  .meta({ id: 'TemplateImage' });

export const recipe = z
  .strictObject({
    from: z
      .union([z.string().min(1).max(200), imageSource])
      .default('base')
      .meta({ description: 'A template: `name` or `name:tag`; or an image of containers, for linux/amd64.' }),
    steps: z.array(buildStep).max(MAX_BUILD_STEPS).default([]),
    start: command.exactOptional().meta({
      description: 'A program that is started last, and then runs in each sandbox made from the template.',
    }),
    ready: command.exactOptional().meta({ description: 'Asked until it succeeds: then the template is ready.' }),
    force: z.boolean().exactOptional().meta({ description: 'Use nothing of earlier builds.' }),
    network: networkPolicy.exactOptional().meta({ description: 'What the steps may reach. Left out: `packages`.' }),
  })
  .meta({ id: 'TemplateRecipe' });

export const requestBuildBody = z
  .strictObject({
    size: askedSize.exactOptional(),
    tags: z
      .array(tag)
      .max(MAX_TAGS)
      .default(['default'])
      .meta({ description: 'They name this build once it is ready.' }),
  })
  .meta({ id: 'RequestTemplateBuild' });

const logEntry = z
  .strictObject({
    at: timestamp,
    level: z.enum(['debug', 'info', 'warn', 'error']),
    message: z.string().meta({ description: 'What commands print is hostile text: escape it before you show it.' }),
    step: z.string().nullable(),
  })
  .meta({ id: 'TemplateLogEntry' });

const buildShape = {
  id: buildId,
  templateId,
  template: templateName,
  status: z.enum(['waiting', 'building', 'ready', 'failed']),
  size: size.nullable().meta({ description: 'Null: that of what it is built from, once it begins.' }),
  tags: z.array(tag).meta({ description: 'Those that it was asked for with.' }),
  failure: z
    .strictObject({
      step: z.string().meta({ description: '`base`, the number of the step, or `finalize`.' }),
      message: z.string(),
    })
    .nullable(),
  snapshotId: snapshotId.nullable().meta({ description: 'The point that sandboxes start from.' }),
  cachedSteps: z.number().int().min(0).meta({ description: 'Steps that were not run again.' }),
  createdAt: timestamp,
  endedAt: timestamp.nullable(),
};

export const templateBuild = z.strictObject(buildShape).meta({ id: 'TemplateBuild' });

export const templateBuildQuery = z.strictObject({
  offset: queryInteger(0, 1_000_000).default(0),
  limit: queryInteger(0, MAX_LOG_PAGE).default(MAX_LOG_PAGE),
});

export const templateBuildWithLog = z
  .strictObject({ ...buildShape, log: z.array(logEntry).meta({ description: 'From `offset` on, oldest first.' }) })
  .meta({ id: 'TemplateBuildWithLog' });

const assignedTag = z.strictObject({ tag, buildId, createdAt: timestamp }).meta({ id: 'TemplateTag' });

export const builtTemplate = z
  .strictObject({
    id: templateId,
    name: templateName,
    size: size.nullable().meta({ description: 'Of the build `default`, or of the newest. Null: there is none yet.' }),
    tags: z.array(assignedTag),
    builds: z.array(templateBuild).meta({ description: 'Newest first.' }),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'BuiltTemplate' });

export const tagTemplateBody = z
  .strictObject({
    build: z.union([buildId, tag]).meta({ description: 'A build that is ready, by its id or a tag that it has.' }),
    tags: z.array(tag).min(1).max(MAX_TAGS),
  })
  .meta({ id: 'TagTemplate' });

export const templateTags = z.strictObject({ buildId, tags: z.array(tag) }).meta({ id: 'TemplateTags' });

export const newTemplateParams = z.strictObject({ id: templateName });
export const templateParams = z.strictObject({ id: reference });
export const templateTagParams = z.strictObject({ id: reference, tag });
export const templateBuildParams = z.strictObject({ id: buildId });
export const templateFileParams = z.strictObject({ hash: fileHash });

export const templateFile = z
  .strictObject({
    present: z.boolean(),
    sizeBytes: z.number().int().min(0).nullable(),
  })
  .meta({ id: 'TemplateFile' });
