/** Whom an organisation has told of what waits for a reviewer. */
import { z } from 'zod';
import { PROBLEM_CODES } from '../problem-codes.ts';
import { timestamp } from './fields.ts';

const MAX_URL_LENGTH = 2_000;

const url = z
  .string()
  .max(MAX_URL_LENGTH)
  .refine((text) => {
    const parsed = URL.parse(text);
    return parsed?.protocol === 'https:' && parsed.username === '' && parsed.password === '' && parsed.hash === '';
  }, 'must be an https address without a password in it')
  .meta({
    description: 'An https address. Only public addresses are reached, and private hosts that the operator has named.',
  });

export const setWebhookBody = z.strictObject({ url }).meta({ id: 'SetWebhook' });

export const webhookSet = z
  .strictObject({
    url: z.string(),
    secretKey: z.string().nullable().meta({
      description:
        'What notices are signed by, as Standard Webhooks are: `whsec_…`. It belongs to the address; null when the answer is given again.',
    }),
  })
  .meta({ id: 'WebhookSet' });

export const webhook = z
  .strictObject({
    url: z.string(),
    setAt: timestamp,
    failure: z
      .strictObject({ code: z.enum(PROBLEM_CODES), at: timestamp })
      .nullable()
      .meta({ description: 'Of the last notice; it is tried again while its request waits.' }),
  })
  .meta({ id: 'Webhook' });
