/** Who did what. */
import { ACTIONS, type Action } from '@space/core';
import { z } from 'zod';
import { PROBLEM_CODES } from '../problem-codes.ts';
import {
  apiKeyId,
  auditId,
  nextCursor,
  operationId,
  organisationId,
  projectId,
  sandboxId,
  timestamp,
} from './fields.ts';
import { egressRecord } from './network.ts';
import { errorEvent } from './problem.ts';

const auditRecord = z
  .strictObject({
    id: auditId,
    at: timestamp,
    apiKey: apiKeyId,
    project: projectId.nullable(),
    action: z.enum(Object.keys(ACTIONS) as [Action, ...Action[]]),
    call: z.string().meta({ description: 'The operationId of the call in this document.' }),
    target: z.string().nullable().meta({ description: 'Id or name of what it was done to.' }),
    operation: operationId.nullable().meta({ description: 'The operation that it began, whose outcome this is.' }),
    outcome: z.enum(['ok', 'running', 'interrupted', 'unknown', ...PROBLEM_CODES]).meta({
      description: '`unknown`: the process that carried it out died before it told how it ended.',
    }),
    requestId: z.string(),
  })
  .meta({ id: 'AuditRecord' });

export const auditList = z.strictObject({ records: z.array(auditRecord), nextCursor }).meta({ id: 'AuditList' });

const chain = z.enum(['calls', 'egress']).meta({
  description: '`calls`: who did what. `egress`: what left sandboxes, or was refused.',
});
const number = z.number().int().min(0);
const digest = z.string().regex(/^[0-9a-f]{64}$/);

const organisation = organisationId.meta({ description: 'Whose chains they are; each begins with a digest of it.' });

export const auditVerification = z
  .strictObject({
    organisation,
    chains: z.array(
      z.strictObject({
        chain,
        dropped: number.meta({ description: 'The number of the last link that is gone since it was old; 0: none is.' }),
        last: number.meta({ description: 'The number of the newest link.' }),
        digest: digest.meta({
          description:
            'Of the newest link, over all before it: whoever keeps it knows later whether these are the same.',
        }),
        brokenAt: number.nullable().meta({ description: 'The first link that is not as it was; null: all are.' }),
        why: z.string().nullable(),
      }),
    ),
    notLinked: number.meta({
      description: 'Calls that have not ended, or ended a moment ago: nothing vouches for them yet.',
    }),
  })
  .meta({ id: 'AuditVerification' });

export const auditExportQuery = z.strictObject({
  chain: chain.exactOptional(),
  since: timestamp.exactOptional().meta({ description: 'What was linked then or later.' }),
  last: z.coerce.number().int().min(0).max(1_000_000).exactOptional().meta({ description: 'So many, the newest.' }),
  follow: z
    .enum(['true', 'false'])
    .default('false')
    .transform((text) => text === 'true')
    .meta({ description: 'Whether to wait for what comes next; else the stream ends with what there is.' }),
});

const gatewayChange = z
  .strictObject({ event: z.literal('gateway_changed'), at: timestamp, before: z.string(), now: z.string() })
  .meta({
    description:
      'The gateway was another one from then on. What the one before had not told, of a second or less, is lost.',
  });

const exportedEgress = z.strictObject({ sandbox: sandboxId, id: z.string(), ...egressRecord.shape });

export const auditExportEvent = z
  .discriminatedUnion('type', [
    z
      .strictObject({ type: z.literal('anchor'), organisation, chain, number, digest })
      .meta({ description: 'What the first link that follows stands behind.' }),
    z.strictObject({
      type: z.literal('link'),
      chain,
      number,
      at: timestamp.meta({ description: 'When it was linked.' }),
      digest: digest.meta({
        description:
          'SHA-256 over the digest before, as bytes, and the number, `at` and `entry` as JSON without spaces, each on a line of its own.',
      }),
      entry: z.union([auditRecord, exportedEgress, gatewayChange]),
    }),
    z.strictObject({ type: z.literal('end') }),
    errorEvent,
  ])
  .meta({ id: 'AuditExportEvent' });
