/** When a sandbox is snapshotted by itself, and how long the points stay. */
import {
  ladderFault,
  MAX_ARCHIVE_EVERY_MS,
  MAX_RETENTION_MS,
  MAX_RUNGS,
  MAX_SNAPSHOT_BUDGET_MS,
  MAX_SNAPSHOT_EVERY_MS,
  MIN_ARCHIVE_EVERY_MS,
  MIN_SNAPSHOT_BUDGET_MS,
  MIN_SNAPSHOT_EVERY_MS,
} from '@space/core';
import { z } from 'zod';
import { archiveLocation } from './fields.ts';

const everyMs = z
  .union([z.number().int().min(MIN_SNAPSHOT_EVERY_MS).max(MAX_SNAPSHOT_EVERY_MS), z.literal('off')])
  .meta({ description: 'How often a running sandbox is snapshotted, if it has changed; default every minute.' });

const budgetMs = z
  .number()
  .int()
  .min(MIN_SNAPSHOT_BUDGET_MS)
  .max(MAX_SNAPSHOT_BUDGET_MS)
  .meta({ description: 'How long its processes may stand still for one; else it is skipped. Default 100.' });

const rung = z
  .strictObject({
    forMs: z.number().int().min(1).max(MAX_RETENTION_MS).meta({ description: 'For points that are at most so old.' }),
    everyMs: z.number().int().min(0).max(MAX_RETENTION_MS).meta({ description: 'One is kept per so long; 0: each.' }),
  })
  .meta({ id: 'RetentionRung' });

const retention = z
  .array(rung)
  .min(1)
  .max(MAX_RUNGS)
  .superRefine((ladder, context) => {
    const message = ladderFault(ladder);
    if (message !== null) context.addIssue({ code: 'custom', message });
  })
  .meta({
    description:
      'Which points stay: of what age, one per how long; what is older than the last rung goes. Pinned and named ones stay ' +
      'for ever. Age is counted while the sandbox moves on: a pause, or time in which nothing changed, adds little. Default: ' +
      'each for an hour, one per 10 minutes for a day, one per hour for 7 days.',
  });

const archive = z
  .union([
    z.strictObject({
      everyMs: z.number().int().min(MIN_ARCHIVE_EVERY_MS).max(MAX_ARCHIVE_EVERY_MS),
      location: archiveLocation,
    }),
    z.literal('off'),
  ])
  .meta({
    description:
      'Its newest snapshot is brought into an archive so often, if there is a new one; snapshots are then taken at least as often. ' +
      'With its host no more is lost than what is newer. `archiving` of the sandbox says how that goes. Default off.',
  });

export const snapshotPolicy = z.strictObject({ everyMs, budgetMs, retention, archive }).meta({ id: 'SnapshotPolicy' });

const choices = {
  everyMs: everyMs.nullable(),
  budgetMs: budgetMs.nullable(),
  retention: retention.nullable(),
  archive: archive.nullable(),
};

/** As it is shown: null where what stands above decides. */
export const shownPolicyChoice = z
  .strictObject(choices)
  .meta({ id: 'SnapshotPolicyChoice', description: 'Null: as the project has it, or the default.' });

export const policyChoice = z
  .strictObject({
    everyMs: choices.everyMs.exactOptional(),
    budgetMs: choices.budgetMs.exactOptional(),
    retention: choices.retention.exactOptional(),
    archive: choices.archive.exactOptional(),
  })
  .meta({
    id: 'ChooseSnapshotPolicy',
    description: 'What is left out stays; null gives it back to the project, or to the default.',
  });
