/** What happened, as a stream that can be taken up again. */
import { OPERATIONS } from '@space/core';
import { z } from 'zod';
import { PROBLEM_CODES } from '../problem-codes.ts';
import { apiKeyId, approvalId, operationId, sandboxId, shareId, snapshotId, timestamp } from './fields.ts';
import { operationState } from './operation.ts';
import { errorEvent } from './problem.ts';

const cursor = z
  .string()
  .regex(/^[0-9]{1,18}-[0-9]{1,18}$/, 'must be the cursor of an event')
  .meta({ description: 'Where the event stands; pass it as `after` to go on behind it.' });

export const eventsQuery = z.strictObject({
  after: z
    .union([cursor, z.literal('latest')])
    .exactOptional()
    .meta({
      description:
        'Go on behind this cursor; `latest`: only what happens from now on. Without it, from the first that is kept. ' +
        '`events_lost`: what came after it is no longer kept, or this database has not got so far, as after a restore.',
    }),
  follow: z
    .enum(['true', 'false'])
    .default('true')
    .transform((text) => text === 'true')
    .meta({ description: 'Whether to wait for what happens next; else the stream ends with what there is.' }),
});

const of = <T extends z.ZodType>(schema: T) => schema.exactOptional();

export const platformEvent = z
  .discriminatedUnion('type', [
    z.strictObject({
      type: z.literal('event'),
      cursor,
      kind: z.enum([
        'sandbox.created',
        'sandbox.running',
        'sandbox.out_of_space',
        'sandbox.paused',
        'sandbox.crashed',
        'sandbox.moved',
        'sandbox.deleted',
        'sandbox.not_paused',
        'snapshot.taken',
        'snapshot.deleted',
        'snapshot.skipped',
        'snapshot.bad',
        'archive.made',
        'archive.failed',
        'operation.ended',
        'key.revoked',
        'share.created',
        'share.revoked',
        'approval.requested',
        'approval.approved',
        'approval.used',
        'approval.released',
        'approval.denied',
        'approval.expired',
        'approval.void',
      ]),
      at: timestamp,
      sandboxId: of(sandboxId),
      snapshotId: of(snapshotId),
      apiKeyId: of(apiKeyId),
      shareId: of(shareId),
      approvalId: of(approvalId),
      operationId: of(operationId),
      operation: of(z.enum(OPERATIONS)),
      state: of(operationState),
      code: of(z.enum(PROBLEM_CODES)).meta({
        description:
          'Why: an operation failed, an idle sandbox cannot be paused, a snapshot was skipped or is of the disk alone, or one was deleted (`insufficient_space`: its vault ran short).',
      }),
    }),
    z.strictObject({
      type: z.literal('open'),
      cursor: cursor.nullable().meta({ description: 'Where the stream begins; null: with the first that is kept.' }),
    }),
    z.strictObject({ type: z.literal('end') }),
    errorEvent,
  ])
  .meta({ id: 'PlatformEvent' });
