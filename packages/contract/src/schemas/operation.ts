/** Operations: what is being done, or was done, to a sandbox. */
import { OPERATIONS } from '@space/core';
import { z } from 'zod';
import { MAX_WAIT_SECONDS } from '../limits.ts';
import { milliseconds, nextCursor, operationId, page, queryInteger, sandboxId, timestamp } from './fields.ts';
import { failure } from './problem.ts';

const OPERATION_STATES = ['running', 'succeeded', 'failed', 'superseded', 'interrupted'] as const;

export const operationState = z.enum(OPERATION_STATES).meta({
  id: 'OperationState',
  description:
    '`superseded`: a later operation took its place. `interrupted`: the platform was stopped in the middle; the sandbox ' +
    'is in what was found to be real.',
});

export const operation = z
  .strictObject({
    id: operationId,
    kind: z.enum(OPERATIONS),
    sandboxId,
    requestId: z.string().nullable().meta({
      description: 'The request that began it (X-Request-Id of its answer); null: the platform itself.',
    }),
    cause: z
      .enum(['idle', 'wake_at', 'schedule', 'rolling', 'checkpoint', 'approval', 'expiry'])
      .nullable()
      .meta({
        description:
          'Why the platform did it by itself: the sandbox was idle, its time to wake had come, or a snapshot was due, by ' +
          'its policy or at the end of a command.',
      }),
    state: operationState,
    startedAt: timestamp,
    endedAt: timestamp.nullable(),
    timings: z
      .strictObject({ runningMs: milliseconds, readyMs: milliseconds })
      .nullable()
      .meta({
        description:
          'Of the microVM that it started: how long after the order its vCPUs ran, and the programs in it. Null when it ' +
          'started none, or has not ended well.',
      }),
    error: failure.nullable().meta({ description: 'Why it failed.' }),
  })
  .meta({ id: 'Operation' });

export const operationList = z
  .strictObject({ operations: z.array(operation), nextCursor })
  .meta({ id: 'OperationList' });

export const listOperationsQuery = z.strictObject({
  ...page,
  sandbox: sandboxId.exactOptional().meta({ description: 'Only those on this sandbox, which may be deleted by now.' }),
  request: z
    .string()
    .regex(/^req_[0-9a-f]{20}$/, 'must be a request id like req_…')
    .exactOptional()
    .meta({ description: 'Only those that this request began: a fork begins one for each copy.' }),
});

export const operationParams = z.strictObject({ id: operationId });
export const getOperationQuery = z.strictObject({
  wait: queryInteger(0, MAX_WAIT_SECONDS).default(0).meta({
    description: 'Seconds to wait for its end; answered earlier when it ends.',
  }),
});
