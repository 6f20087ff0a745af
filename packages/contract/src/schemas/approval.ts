/** Requests that wait for a reviewer, and what was decided. */
import { APPROVAL_STATES } from '@space/core';
import { z } from 'zod';
import { PROBLEM_CODES } from '../problem-codes.ts';
import {
  apiKeyId,
  approvalId,
  nextCursor,
  page,
  sandboxId,
  sandboxReference,
  snapshotId,
  timestamp,
} from './fields.ts';

const MAX_REASON_LENGTH = 500;

export const approvalParams = z.strictObject({ id: approvalId });

export const approvalsQuery = z.strictObject({
  ...page,
  sandbox: sandboxReference.exactOptional().meta({ description: 'Only those of this one.' }),
  state: z.enum(APPROVAL_STATES).exactOptional().meta({ description: 'Only those in this state.' }),
});

const shownRequest = z
  .strictObject({
    method: z.string(),
    scheme: z.enum(['http', 'https']),
    host: z.string(),
    port: z.number().int(),
    url: z.string().meta({ description: 'Path and query.' }),
  })
  .meta({
    id: 'ShownRequest',
    description:
      'Characters that cannot be seen, that turn a line round or look like others stand as their codes: ⟨U+202E⟩. What looks ' +
      'like a secret stands as ⟨masked, 40 characters⟩.',
  });

const shape = {
  id: approvalId,
  sandbox: sandboxId,
  generation: z.number().int(),
  state: z.enum(APPROVAL_STATES).meta({
    description:
      '`pending`: it waits. `approved`: the same request leaves once. `used`: it was let go. `expired`: nobody decided, or ' +
      'nobody sent it again, in time; nothing was sent. `void`: the sandbox went back to an earlier point, left or was deleted.',
  }),
  rule: z.string().meta({ description: 'That asks for it.' }),
  request: shownRequest,
  requestedAt: timestamp,
  expiresAt: timestamp.meta({
    description: 'Until then it waits for a decision, may be used, or, when it was denied, is not asked for again.',
  }),
  decidedAt: timestamp.nullable(),
  decidedBy: apiKeyId.nullable(),
  reason: z.string().nullable().meta({ description: 'What the reviewer said.' }),
  endedAt: timestamp.nullable().meta({ description: 'When it was used, expired or became void.' }),
  snapshot: z
    .union([z.strictObject({ id: snapshotId }), z.strictObject({ code: z.enum(PROBLEM_CODES) })])
    .nullable()
    .meta({ description: 'The point of the sandbox right before the request left, or why there is none.' }),
};

const shownHeader = z.strictObject({ name: z.string(), value: z.string() });
const shownBody = z.strictObject({
  sizeBytes: z.number().int(),
  sha256: z.string().meta({ description: 'Of all of it, in hex.' }),
  text: z.string().nullable().meta({ description: 'Null: it is no text.' }),
  readAs: z.array(z.string()).meta({
    description:
      'What `text` was read through: `gzip`, `deflate` or `br` that it is packed with, `utf-16le` or `utf-16be`. Empty: it is as it leaves.',
  }),
  isWhole: z.boolean().meta({ description: 'Whether `text` is all of it, but for what is masked.' }),
});

export const approvalDetail = z
  .strictObject({
    ...shape,
    headers: z.array(shownHeader).meta({ description: 'All that leave, but those that say how the body is framed.' }),
    moreHeaders: z.number().int().meta({ description: 'How many are not shown.' }),
    body: shownBody,
    added: z
      .strictObject({ binding: z.string(), secret: z.string(), place: z.string() })
      .nullable()
      .meta({ description: 'The secret that a binding adds on its way out, by names alone. Null: none.' }),
  })
  .meta({ id: 'ApprovalDetail' });

export const approvalList = z
  .strictObject({ approvals: z.array(z.strictObject(shape).meta({ id: 'Approval' })), nextCursor })
  .meta({ id: 'ApprovalList' });

export const decisionBody = z
  .strictObject({
    reason: z
      .string()
      .max(MAX_REASON_LENGTH)
      .exactOptional()
      .meta({ description: 'For the record; the program in the sandbox is told it when the request is denied.' }),
  })
  .meta({ id: 'ApprovalDecision' });
