/** Archives: what a sandbox was, outside of any vault. */
import { parseArchiveRef } from '@space/core';
import { z } from 'zod';
import { PROBLEM_CODES } from '../problem-codes.ts';
import { archiveLocation, env, metadata, name, sandboxId, snapshotId, snapshotReference, timestamp } from './fields.ts';
import { errorEvent } from './problem.ts';
import { idle, publicPorts, runs } from './sandbox.ts';
import { policyChoice } from './snapshot-policy.ts';

export const archiveName = z
  .string()
  .max(200)
  .refine((value) => parseArchiveRef(value) !== undefined, 'must be the name of an archive: prj_…/sbx_…/<SHA-256>')
  .meta({
    description:
      'Name of an archive, which an export returns. It ends with a digest that all of the archive is checked against.',
  });

const location = archiveLocation.default('default');

export const exportBody = z
  .strictObject({
    location,
    snapshot: snapshotReference.exactOptional().meta({
      description: 'One of its own snapshots. Left out: its present, of which a snapshot is taken when it runs.',
    }),
    timeline: z
      .boolean()
      .default(false)
      .meta({ description: 'All of its snapshots up to that one, and not it alone.' }),
    base: archiveName.exactOptional().meta({
      description: 'An earlier archive of it in the same place: what is in that one is neither read nor sent again.',
    }),
  })
  .meta({ id: 'ExportSandbox' });

const byteCount = z.number().int().min(0);

const exportedFields = {
  archive: archiveName,
  location: z.string(),
  snapshots: z
    .array(snapshotId)
    .meta({ description: 'What it holds, oldest first; the last is what an import goes on from.' }),
  readBytes: byteCount.meta({ description: 'Of disk and memory that had to be read.' }),
  sentBytes: byteCount.meta({ description: 'What was sent of it, packed.' }),
};

export const exported = z.strictObject(exportedFields).meta({ id: 'Exported' });

export const exportEvent = z
  .discriminatedUnion('type', [
    z.strictObject({
      type: z.literal('progress'),
      points: z.number().int().min(1).meta({ description: 'How many snapshots it is to hold.' }),
      donePoints: z.number().int().min(0),
      progress: z.number().min(0).max(1).meta({ description: 'Of all that there is to go through.' }),
      readBytes: byteCount,
      sentBytes: byteCount,
    }),
    z.strictObject({ type: z.literal('exported'), ...exportedFields }),
    errorEvent,
  ])
  .meta({ id: 'ExportEvent' });

export const moveBody = z
  .strictObject({
    location,
    timeline: z.boolean().default(true).meta({
      description: 'All of its snapshots go along, which stay here too. False: its present alone.',
    }),
    base: archiveName.exactOptional().meta({
      description: 'An earlier archive of it in the same place: what is in that one is neither read nor sent again.',
    }),
  })
  .meta({ id: 'MoveSandbox' });

export const archivesQuery = z.strictObject({
  location,
  sandbox: sandboxId.exactOptional().meta({ description: 'Only those of this sandbox, which may be deleted by now.' }),
});

export const archiveQuery = z.strictObject({ archive: archiveName, location });

const listedArchive = z
  .strictObject({
    archive: archiveName,
    sandboxId,
    madeAt: timestamp.nullable().meta({ description: 'Null: it cannot be read.' }),
    takenAt: timestamp.nullable().meta({ description: 'The instant that an import goes on from.' }),
    points: byteCount.meta({ description: 'How many snapshots it holds.' }),
    isMove: z.boolean().meta({ description: 'It was made by a move.' }),
    fault: z.enum(PROBLEM_CODES).nullable().meta({
      description: 'Why it cannot be imported, as far as its index tells. Its pieces are looked at by an import.',
    }),
  })
  .meta({ id: 'ListedArchive' });

export const archiveList = z
  .strictObject({ archives: z.array(listedArchive).meta({ description: 'Newest first.' }) })
  .meta({ id: 'ArchiveList' });

/** What goes along with a sandbox that is moved, beside its points. */
export const movedSettings = z.strictObject({
  name: name.nullable(),
  env,
  metadata,
  idle,
  wakeAt: timestamp.nullable(),
  runs: runs.exactOptional(),
  publicPorts: publicPorts.exactOptional(),
  snapshots: policyChoice,
});

export const importBody = z
  .strictObject({
    archive: archiveName,
    location,
    as: z
      .enum(['copy', 'move'])
      .default('copy')
      .meta({
        description:
          '`move`: the sandbox itself, with its id, as far as the archive was made by a move. One installation gets it, and that ' +
          'one gets it as often as it asks.',
      }),
    name: name.exactOptional(),
    env: env.exactOptional().meta({ description: 'An archive holds no environment.' }),
    metadata: metadata.exactOptional(),
    boot: z.boolean().default(false).meta({
      description: 'Take the disk alone and boot it: for an archive whose memory needs what is not here.',
    }),
  })
  .meta({ id: 'ImportSandbox' });
