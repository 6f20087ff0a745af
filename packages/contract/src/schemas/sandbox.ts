/** Sandboxes: what one looks like, and what the calls on its lifecycle take and answer. */
import {
  DEFAULT_RUNS,
  EXPIRY_ACTIONS,
  MAX_BINDINGS_OF_SANDBOX,
  MAX_PAUSE_AFTER_MS,
  MAX_RUN_MS,
  MIN_PAUSE_AFTER_MS,
  type SandboxStatus,
} from '@space/core';
import { z } from 'zod';
import { MAX_FORK_COUNT } from '../limits.ts';
import { PROBLEM_CODES } from '../problem-codes.ts';
import {
  env,
  metadata,
  name,
  nextCursor,
  page,
  pastPoint,
  sandboxId,
  sandboxReference,
  snapshotId,
  snapshotReference,
  timestamp,
} from './fields.ts';
import { networkPolicy, shownNetworkPolicy } from './network.ts';
import { failure, problem } from './problem.ts';
import { snapshot } from './snapshot.ts';
import { policyChoice, shownPolicyChoice } from './snapshot-policy.ts';

/** A sandbox that is deleted is not found, so `deleted` is never seen. */
const STATUSES = [
  'creating',
  'running',
  'out_of_space',
  'pausing',
  'paused',
  'resuming',
  'rewinding',
  'crashed',
  'moving',
  'moved',
  'arriving',
  'deleting',
] as const satisfies readonly SandboxStatus[];

export const sandboxStatus = z.enum(STATUSES).meta({ id: 'SandboxStatus' });

const wholeNumber = z.number().int().positive();

export const size = z
  .strictObject({
    vcpus: wholeNumber.meta({ description: 'Virtual CPUs.' }),
    memoryMib: wholeNumber.meta({ description: 'Memory in MiB.' }),
    diskMib: wholeNumber.meta({ description: 'Virtual disk in MiB; space is taken as it is written.' }),
  })
  .meta({ id: 'Size' });

export const askedSize = z
  .strictObject({
    vcpus: wholeNumber.exactOptional(),
    memoryMib: wholeNumber.exactOptional(),
    diskMib: wholeNumber.exactOptional(),
  })
  .meta({ id: 'AskedSize', description: 'What is left out has its default; GET /v1/capabilities states the limits.' });

export const idle = z
  .strictObject({
    pauseAfterMs: z
      .number()
      .int()
      .min(MIN_PAUSE_AFTER_MS)
      .max(MAX_PAUSE_AFTER_MS)
      .nullable()
      .meta({
        description:
          'It is paused (never deleted) after so long without use or work; null: never. Looked at every 10 s. Use is a call ' +
          'that reaches into it, and a stream as long as it is open; work is more than 20 % of a processor.',
      }),
  })
  .meta({ id: 'IdlePolicy' });

const wakeAt = timestamp.nullable().meta({
  description:
    'When it is woken, if it is paused then; a paused guest has no timers. Cleared once it has run at that time or after. ' +
    'One that crashed is not woken. Not copied by a fork, nor put back by a rewind. Null: never.',
});

const expiryShape = {
  at: timestamp.meta({ description: 'Looked at every second. A time that has passed is met at once.' }),
};
const expiryAction = z.enum(EXPIRY_ACTIONS);
const EXPIRY =
  'When it ends by itself, whatever goes on in it. `pause`: it is paused, with a last snapshot of disk and memory, and the next ' +
  'use wakes it, without an expiry; `pause_files`: with its files alone, and the next use boots it. `delete`: it is deleted; of its snapshots the named ones stay. Nothing moves the time but ' +
  'you. Not copied by a fork, nor put back by a rewind. Null: never.';

const expiry = z
  .strictObject({ ...expiryShape, action: expiryAction })
  .nullable()
  .meta({ description: EXPIRY });

const askedExpiry = z
  .strictObject({ ...expiryShape, action: expiryAction.default('pause') })
  .nullable()
  .meta({ description: EXPIRY });
const MIN_RUN_MS = 1_000;
const RUN_SHAPE = {
  limitMs: z
    .number()
    .int()
    .min(MIN_RUN_MS)
    .max(MAX_RUN_MS)
    .nullable()
    .meta({
      description:
        'Each run, from when it comes to run until it is paused, that has no expiry gets one so long after it began; a pause takes ' +
        'it away again. Null: none.',
    }),
  atLimit: expiryAction.meta({ description: 'The action of that expiry.' }),
  wakeOnUse: z.boolean().meta({
    description:
      'False: when it is paused, only a resume wakes it, or a time that was set; a use is refused with `wrong_state`.',
  }),
};

export const runs = z.strictObject(RUN_SHAPE).meta({ id: 'RunPolicy', description: 'What begins and ends its runs.' });

const askedRuns = z
  .strictObject({
    limitMs: RUN_SHAPE.limitMs.default(DEFAULT_RUNS.limitMs),
    atLimit: RUN_SHAPE.atLimit.default(DEFAULT_RUNS.atLimit),
    wakeOnUse: RUN_SHAPE.wakeOnUse.default(DEFAULT_RUNS.wakeOnUse),
  })
  .meta({ id: 'AskedRunPolicy', description: 'What begins and ends its runs. What is left out has its default.' });

export const publicPorts = z.boolean().meta({
  description: 'Whether whoever reaches the server reaches its ports, by previews, without a key or a share.',
});

const secrets = z
  .array(name)
  .max(MAX_BINDINGS_OF_SANDBOX)
  .refine((names) => new Set(names).size === names.length, 'must not repeat a name')
  .meta({ description: 'Secret bindings that it may use, of those that its project may.', uniqueItems: true });

const sandboxShape = {
  id: sandboxId,
  name: name.nullable(),
  status: sandboxStatus,
  template: z.string(),
  size,
  generation: z
    .number()
    .int()
    .min(1)
    .meta({ description: 'Goes up with each break in its history (rewind, recovery to an older point).' }),
  head: snapshotId.nullable().meta({
    description: 'The snapshot that its present state descends from; while paused, the one that it resumes from.',
  }),
  forkedFrom: z
    .strictObject({ sandboxId, snapshotId })
    .nullable()
    .meta({ description: 'The point of another sandbox that this one started from.' }),
  createdAt: timestamp,
  updatedAt: timestamp,
  metadata,
  hidden: z.literal(true).exactOptional().meta({
    description:
      'There when the vault is closed, which a read does not open: metadata and environment are left empty then, and are not so.',
  }),
  idle,
  wakeAt,
  expiry,
  runs,
  startedAt: timestamp.nullable().meta({ description: 'When its run began, or its last one. Null: it has not run.' }),
  publicPorts,
  snapshots: shownPolicyChoice,
  network: shownNetworkPolicy,
  secrets: z.array(z.string()).meta({
    description: 'Secret bindings that it names; what they give is looked up for each request.',
  }),
  missingSecrets: z.array(z.string()).meta({
    description:
      'Secret bindings that it named where it was moved from, and that its project here is not granted: they give it nothing. Have ' +
      'who holds the secrets grant bindings of these names to the project, and name them by an update: programs keep their placeholders.',
  }),
  crash: z
    .strictObject({
      detail: z.string(),
      at: timestamp.meta({ description: 'When it ended, or was found to have.' }),
      resumesFrom: snapshotId.nullable().meta({
        description:
          'The snapshot that a resume goes on from. Null: it boots from its disk as it was left, since there is no snapshot with ' +
          'memory of this line: what was in memory alone is lost.',
      }),
      lost: z
        .strictObject({ from: timestamp, to: timestamp, seconds: z.number().min(0) })
        .nullable()
        .meta({
          description:
            'What a resume does without, in memory and on disk: all that was done between these two. Null where it boots from its disk.',
        }),
    })
    .nullable()
    .meta({ description: 'How its microVM ended, while the status is `crashed`.' }),
  pauseFailure: z
    .strictObject({
      code: z.enum(PROBLEM_CODES),
      detail: z.string(),
      nextStep: z.string(),
      attempts: z.number().int().positive(),
      since: timestamp,
    })
    .nullable()
    .meta({
      description:
        'Why it runs and holds its memory although it is idle, or has expired: so many pauses have failed one after the other, and what ' +
        'to do about it. They go on at longer and longer intervals. Null: it can be paused, as far as is known.',
    }),
  moved: z
    .strictObject({ location: z.string(), archive: z.string() })
    .nullable()
    .meta({ description: 'The archive by which it left, while the status is `moved`.' }),
  archiving: z
    .strictObject({
      last: z
        .strictObject({ archive: z.string(), location: z.string(), snapshotId, takenAt: timestamp })
        .nullable()
        .meta({
          description: 'The newest archive that was made by itself, and of what instant it is. Null: none yet.',
        }),
      triedAt: timestamp,
      failure: failure
        .nullable()
        .meta({ description: 'Why the last attempt failed; it is repeated. Null: it did not.' }),
    })
    .nullable()
    .meta({ description: 'How `snapshots.archive` goes. Null: it was never on.' }),
};

export const sandbox = z.strictObject(sandboxShape).meta({ id: 'Sandbox' });

/** Values of environment variables are the tenant's content: only this answer, of one sandbox, holds them. */
export const sandboxDetail = z
  .strictObject({ ...sandboxShape, env })
  .meta({ id: 'SandboxDetail', description: 'A sandbox with its environment.' });

export const createSandboxBody = z
  .strictObject({
    template: z.string().min(1).max(200).exactOptional().meta({
      description:
        'A template: one of the installation, or `name` or `name:tag` of one that was built here, whose size holds. Default `base`.',
    }),
    snapshot: snapshotReference.exactOptional().meta({
      description: 'Snapshot to start from (id or name). Its template and size hold, so neither can be given.',
    }),
    name: name.exactOptional(),
    size: askedSize.exactOptional(),
    env: env.exactOptional().meta({ description: 'Environment of every command that the API runs in it.' }),
    metadata: metadata.exactOptional().meta({ description: 'Your own labels; never seen by the sandbox.' }),
    idle: idle.exactOptional().meta({ description: 'Left out: paused after 10 minutes.' }),
    wakeAt: wakeAt.exactOptional(),
    expiry: askedExpiry.exactOptional(),
    runs: askedRuns.exactOptional(),
    publicPorts: publicPorts.exactOptional(),
    snapshots: policyChoice.exactOptional(),
    network: networkPolicy.exactOptional().meta({ description: 'Left out: the preset `packages`.' }),
    secrets: secrets.exactOptional(),
  })
  .refine(
    (body) => body.snapshot === undefined || (body.template === undefined && body.size === undefined),
    'snapshot cannot be combined with template or size',
  )
  .meta({
    id: 'CreateSandbox',
    not: { required: ['snapshot'], anyOf: [{ required: ['template'] }, { required: ['size'] }] },
  });

export const updateSandboxBody = z
  .strictObject({
    idle: idle.exactOptional(),
    wakeAt: wakeAt.exactOptional(),
    expiry: askedExpiry.exactOptional(),
    runs: askedRuns.exactOptional().meta({ description: 'Replaces all of it.' }),
    publicPorts: publicPorts.exactOptional(),
    snapshots: policyChoice.exactOptional(),
    network: networkPolicy.exactOptional().meta({ description: 'Replaces the whole policy.' }),
    secrets: secrets.exactOptional().meta({ description: 'Replaces all of them; in force when it answers.' }),
  })
  .meta({ id: 'UpdateSandbox', description: 'What is left out stays.' });

export const listSandboxesQuery = z.strictObject({ ...page, status: sandboxStatus.exactOptional() });

export const sandboxList = z.strictObject({ sandboxes: z.array(sandbox), nextCursor }).meta({ id: 'SandboxList' });

export const sandboxParams = z.strictObject({ id: sandboxReference });

export const forkBody = z
  .strictObject({
    count: z.number().int().min(1).max(MAX_FORK_COUNT).default(1),
    from: pastPoint.exactOptional().meta({ description: 'A past point of this sandbox; left out: its present state.' }),
    inheritSecrets: z
      .boolean()
      .exactOptional()
      .meta({ description: 'Whether the copies may use the secret bindings of the source. Left out: they have none.' }),
  })
  .meta({ id: 'ForkSandbox' });

export const forkResults = z
  .strictObject({
    results: z
      .array(z.union([z.strictObject({ sandbox }), z.strictObject({ problem })]))
      .meta({ description: 'One per child, in order: the sandbox, or the problem that prevented it.' }),
  })
  .meta({ id: 'ForkResults' });

export const rewindBody = z
  .strictObject({
    to: pastPoint,
    keepPresent: z.boolean().default(true).meta({
      description:
        'False gives the present up instead of keeping it: for a sandbox that cannot be snapshotted any more.',
    }),
  })
  .meta({ id: 'RewindSandbox' });

export const rewound = z
  .strictObject({
    sandbox,
    kept: snapshot.nullable().meta({
      description: 'The state before the rewind: rewind to it to undo. Null when none was kept.',
    }),
  })
  .meta({ id: 'Rewound' });

/** A call that has nothing to say yet; any field is refused. */
export const pauseBody = z
  .strictObject({
    keep: z
      .enum(['disk', 'files'])
      .exactOptional()
      .meta({
        description:
          'What is kept: `disk` (also when left out), everything, and its processes go on at the resume; or `files` only: the next use or resume boots it. Of ' +
          'files there is what programs had written when the pause was asked for.',
      }),
  })
  .meta({ id: 'PauseSandbox' });

export const emptyBody = z.strictObject({});
