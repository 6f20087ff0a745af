/** Snapshots and timelines. */
import { z } from 'zod';
import { MAX_NOTE_LENGTH } from '../limits.ts';
import { PROBLEM_CODES } from '../problem-codes.ts';
import {
  milliseconds,
  name,
  nextCursor,
  page,
  sandboxId,
  snapshotId,
  snapshotReference,
  text,
  timestamp,
} from './fields.ts';
import { snapshotPolicy } from './snapshot-policy.ts';

const byteCount = z.number().int().min(0);

export const snapshot = z
  .strictObject({
    id: snapshotId,
    sandboxId: sandboxId.meta({ description: 'The sandbox whose point it is; a named snapshot may outlive it.' }),
    name: name.nullable().meta({ description: 'A named snapshot belongs to the project and outlives its sandbox.' }),
    note: z.string().nullable(),
    hidden: z.literal(true).exactOptional().meta({
      description:
        'There when it has a note that cannot be shown, since its vault is closed, which a read does not open.',
    }),
    cause: z.enum(['snapshot', 'pause', 'rewind', 'fork', 'rolling', 'checkpoint', 'approval', 'archive']).meta({
      description:
        'What it was taken for; `rewind`: it holds the state that a rewind left; `rolling`: by the schedule; ' +
        '`checkpoint`: at the end of a command that was marked so; `archive`: for an export, or it came by an import.',
    }),
    kind: z.enum(['memory', 'disk']).meta({
      description:
        '`memory`: disk and memory; its programs run on. `disk`: the disk alone, as a power cut would leave it: a rewind to it, ' +
        'or a fork or sandbox from it, boots, and no program of it runs on.',
    }),
    degraded: z
      .enum(PROBLEM_CODES)
      .nullable()
      .meta({
        description:
          'Why the schedule took one of kind `disk` in place of one with memory, which it tries again later: `over_budget`, ' +
          'say, when that would have stopped the guest for longer than its budget. Null: it did not.',
      }),
    pinned: z.boolean().meta({
      description:
        'A pinned one stays until it is deleted, or its sandbox is. One that was asked for is pinned at first.',
    }),
    parent: snapshotId.nullable().meta({ description: 'The point that its state descends from.' }),
    generation: z.number().int().min(1),
    template: z.string(),
    takenAt: timestamp.meta({ description: 'The instant at which the vCPUs stood still.' }),
    state: z.enum(['good', 'bad']),
    badReason: z.string().nullable().meta({ description: 'Why it cannot be restored, when `state` is `bad`.' }),
    checkedAt: timestamp.nullable().meta({
      description:
        'When all of it was last read and compared with its checksums, which is done once a week. Null: not yet.',
    }),
    timings: z
      .strictObject({ stoppedMs: milliseconds, frozenMs: milliseconds, totalMs: milliseconds })
      .nullable()
      .meta({
        description:
          'How long the vCPUs stood still, user processes were frozen, and the whole took until it was durable. ' +
          'Null for a snapshot that was found again on disk.',
      }),
    changed: z
      .strictObject({
        diskBytes: byteCount,
        memoryBytes: byteCount,
        extents: byteCount.exactOptional().meta({
          description:
            'In how many pieces disk and memory lie: of a guest that rewrites pages all over its memory there are many, and points of it cost more.',
        }),
      })
      .nullable()
      .meta({ description: 'What was rewritten since the one before: about what it takes on disk. Null: not known.' }),
  })
  .meta({ id: 'Snapshot' });

export const snapshotBody = z
  .strictObject({ name: name.exactOptional(), note: text(MAX_NOTE_LENGTH).exactOptional() })
  .meta({ id: 'TakeSnapshot' });

export const updateSnapshotBody = z
  .strictObject({
    name: name.nullable().exactOptional().meta({ description: 'Null takes the name away.' }),
    note: text(MAX_NOTE_LENGTH).nullable().exactOptional(),
    pinned: z.boolean().exactOptional(),
  })
  .meta({ id: 'UpdateSnapshot', description: 'What is left out stays.' });

export const snapshotParams = z.strictObject({ id: snapshotReference });

export const pageQuery = z.strictObject(page);

export const snapshotList = z
  .strictObject({ snapshots: z.array(snapshot).meta({ description: 'Newest first.' }), nextCursor })
  .meta({ id: 'SnapshotList' });

export const timeline = z
  .strictObject({
    snapshots: z.array(snapshot).meta({ description: 'Newest first. Each is durable.' }),
    forks: z
      .array(z.strictObject({ sandboxId, name: name.nullable(), from: snapshotId }))
      .meta({ description: 'The sandboxes that were forked from one of these snapshots.' }),
    skipped: z
      .array(z.strictObject({ at: timestamp, code: z.enum(PROBLEM_CODES) }))
      .meta({ description: 'When the schedule took none over the time of this page, and why; kept for 7 days.' }),
    policy: snapshotPolicy.meta({ description: 'What holds for the sandbox now.' }),
    nextCursor,
  })
  .meta({ id: 'Timeline' });
