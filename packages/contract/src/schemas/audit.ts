/** Who did what. */
import { ACTIONS, type Action } from '@space/core';
import { z } from 'zod';
import { PROBLEM_CODES } from '../problem-codes.ts';
import { apiKeyId, auditId, nextCursor, operationId, projectId, timestamp } from './fields.ts';

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
