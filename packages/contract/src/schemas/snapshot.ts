/** Snapshots and timelines. */
import { z } from 'zod';
import { MAX_NOTE_LENGTH } from '../limits.ts';
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

export const snapshot = z
  .strictObject({
    id: snapshotId,
    sandboxId: sandboxId.meta({ description: 'The sandbox whose point it is; a named snapshot may outlive it.' }),
    name: name.nullable().meta({ description: 'A named snapshot belongs to the project and outlives its sandbox.' }),
    note: z.string().nullable(),
    cause: z
      .enum(['snapshot', 'pause', 'rewind', 'fork'])
      .meta({ description: 'The call that took it; for `rewind`, it holds the state that the rewind left.' }),
    parent: snapshotId.nullable().meta({ description: 'The point that its state descends from.' }),
    generation: z.number().int().min(1),
    template: z.string(),
    takenAt: timestamp.meta({ description: 'The instant at which the vCPUs stood still.' }),
    state: z.enum(['good', 'bad']),
    badReason: z.string().nullable().meta({ description: 'Why it cannot be restored, when `state` is `bad`.' }),
    timings: z
      .strictObject({ stoppedMs: milliseconds, frozenMs: milliseconds, totalMs: milliseconds })
      .nullable()
      .meta({
        description:
          'How long the vCPUs stood still, user processes were frozen, and the whole took until it was durable. ' +
          'Null for a snapshot that was found again on disk.',
      }),
  })
  .meta({ id: 'Snapshot' });

export const snapshotBody = z
  .strictObject({ name: name.exactOptional(), note: text(MAX_NOTE_LENGTH).exactOptional() })
  .meta({ id: 'TakeSnapshot' });

export const snapshotParams = z.strictObject({ id: snapshotReference });

export const pageQuery = z.strictObject(page);

export const snapshotList = z
  .strictObject({ snapshots: z.array(snapshot).meta({ description: 'Newest first.' }), nextCursor })
  .meta({ id: 'SnapshotList' });
