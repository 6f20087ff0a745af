/** Ports of a sandbox, and who may reach them without a key. */
import { z } from 'zod';
import { DEFAULT_SHARE_MS, MAX_SHARE_MS, MIN_SHARE_MS } from '../limits.ts';
import { apiKeyId, name, queryInteger, sandboxId, sandboxReference, shareId, timestamp } from './fields.ts';

const MAX_PORT = 65_535;
const port = z.number().int().min(1).max(MAX_PORT);

export const portParams = z.strictObject({ id: sandboxReference, port: queryInteger(1, MAX_PORT) });
export const shareParams = z.strictObject({ id: sandboxReference, shareId });

const shareShape = {
  id: shareId,
  sandbox: sandboxId,
  port,
  name: name.nullable(),
  createdBy: apiKeyId.meta({ description: 'The key that made it. It works on when that key is revoked.' }),
  createdAt: timestamp,
  expiresAt: timestamp,
};

export const share = z
  .strictObject(shareShape)
  .meta({ id: 'Share', description: 'Lets who holds its token reach one port of a sandbox, until it expires.' });

export const shareList = z.strictObject({ shares: z.array(share) }).meta({ id: 'ShareList' });

export const createdShare = z
  .strictObject({
    ...shareShape,
    token: z.string().nullable().meta({
      description: 'Shown this once and kept nowhere: null when the answer is given again.',
    }),
    url: z.string().nullable().meta({
      description: 'What to open in a browser; it holds the token. Null where previews have no host names.',
    }),
  })
  .meta({ id: 'CreatedShare' });

export const createShareBody = z
  .strictObject({
    port,
    name: name.exactOptional().meta({ description: 'For people; need not be unique.' }),
    expiresInMs: z
      .number()
      .int()
      .min(MIN_SHARE_MS)
      .max(MAX_SHARE_MS)
      .default(DEFAULT_SHARE_MS)
      .meta({ description: 'From now on; 24 hours when left out, 30 days at most.' }),
  })
  .meta({ id: 'CreateShare' });
