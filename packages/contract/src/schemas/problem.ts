/** The one shape of an error on the wire: RFC 9457 problem details, with our code, retry advice and next step. */
import { z } from 'zod';
import { PROBLEM_CODES } from '../problem-codes.ts';

export const problem = z
  .strictObject({
    type: z.string().meta({ description: 'A URN that names the code.' }),
    title: z.string(),
    status: z.number().int().min(400).max(599),
    detail: z.string().meta({ description: 'What went wrong this time.' }),
    code: z.enum(PROBLEM_CODES),
    retry: z.enum(['never', 'later', 'safe']).meta({
      description:
        '`never`: the same call fails again. `later`: nothing was done; wait and repeat. `safe`: repeat at once.',
    }),
    nextStep: z.string(),
    requestId: z.string(),
  })
  .catchall(z.union([z.string(), z.number(), z.boolean()]))
  .meta({ id: 'Problem', description: 'RFC 9457 problem details. Further fields are facts of this case.' });

/** What remains of an error with what it ended. */
export const failure = z.strictObject({
  code: z.enum(PROBLEM_CODES),
  title: z.string(),
  retry: z.enum(['never', 'later', 'safe']),
});

/** The last event of any stream that failed. */
export const errorEvent = z.strictObject({ type: z.literal('error'), problem });
