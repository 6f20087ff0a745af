/** What the platform says of itself. */
import { z } from 'zod';
import { size } from './sandbox.ts';
import { builtTemplate } from './template.ts';

const range = z.strictObject({ min: z.number().int(), max: z.number().int() });
const steppedRange = z.strictObject({ ...range.shape, step: z.number().int() });
const bytes = z.number().int().min(0);

export const capabilities = z
  .strictObject({
    runtime: z.string(),
    accelerator: z
      .strictObject({ name: z.enum(['kvm', 'tcg']), reason: z.string(), remedy: z.string().nullable() })
      .meta({ description: 'How guest code is run, why so, and what would make it faster.' }),
    vmmVersion: z.string(),
    jail: z
      .strictObject({
        inForce: z.array(z.string()),
        missing: z.array(z.strictObject({ limit: z.string(), reason: z.string(), remedy: z.string() })),
      })
      .meta({ description: 'Which limits on memory, CPU, tasks and I/O hold each VMM, and why others do not.' }),
    limits: z.strictObject({
      vcpus: range,
      memoryMib: steppedRange,
      diskMib: steppedRange,
      forkCount: range,
    }),
    previews: z.strictObject({ url: z.string().nullable() }).meta({
      description:
        'The URL of a port of a sandbox, with `{port}` and `{sandbox}` (the id with a dash for its underscore) in it; ' +
        'null where previews have no host names.',
    }),
    memory: z.strictObject({ totalMib: bytes, promisedMib: bytes }),
    vaults: z.array(
      z.strictObject({ name: z.string(), totalBytes: bytes, availableBytes: bytes, encrypted: z.boolean() }),
    ),
    pool: z
      .strictObject({ budgetMib: bytes, takenMib: bytes, members: bytes, filling: bytes, hits: bytes, misses: bytes })
      .meta({
        description:
          'microVMs that run already, for creates to take: the memory that they may take (0: there is no pool) and take, how many ' +
          'are ready and being made, and how many creates found one or none since the node was started.',
      }),
    archives: z.array(z.string()).meta({ description: 'Places that archives can go to and come from.' }),
    egress: z
      .strictObject({ available: z.boolean(), reason: z.string(), remedy: z.string().nullable() })
      .meta({ description: 'Whether connections can leave sandboxes, and why or why not.' }),
  })
  .meta({ id: 'Capabilities' });

export const templateList = z
  .strictObject({
    templates: z.array(
      z
        .strictObject({
          name: z.string(),
          ready: z
            .array(
              z.strictObject({
                size,
                state: z.enum(['building', 'ready']),
                step: z.string(),
                progress: z.number().min(0).max(1),
              }),
            )
            .meta({
              description: 'Its ready snapshots; one that is missing is built by the first create of its size.',
            }),
        })
        .meta({ id: 'Template' }),
    ),
    built: z.array(builtTemplate).meta({ description: 'Those that were built in the project, by name.' }),
  })
  .meta({ id: 'TemplateList' });

export const welcome = z
  .strictObject({
    name: z.literal('SPACE'),
    version: z.string(),
    api: z.string().meta({ description: 'Path of the description of the API, in OpenAPI.' }),
    health: z.string(),
    readiness: z.string(),
    nextStep: z.string(),
  })
  .meta({ id: 'Welcome' });

export const health = z.strictObject({ status: z.literal('ok'), version: z.string() }).meta({ id: 'Health' });

export const readiness = z
  .strictObject({
    ready: z.boolean(),
    checks: z.array(
      z.strictObject({
        name: z.string(),
        ready: z.boolean(),
        detail: z.string().meta({ description: 'What is missing. Seen without a key, so it holds no internals.' }),
      }),
    ),
  })
  .meta({ id: 'Readiness' });

export const openApiDocument = z.looseObject({ openapi: z.string() });
