/** What a crashed sandbox goes on from, and so what it has lost. */
import type { Sandbox } from '@space/contract';
import { STARTS } from '@space/core';
import type { RecordedSandbox, RecordedSnapshot, Records } from './records.ts';
import { newestInLine } from './timeline.ts';
import { viewSandbox } from './views.ts';

/** Where more have come after the start, there are points that are newer than it. */
const OPERATIONS_LOOKED_AT = 20;

/**
 * Null: its disk, as it was left. A point of another sandbox, from which this one was forked, holds none of what this one did since; and
 * one of the disk holds less than the disk itself, which is still there.
 */
export async function recoveryPoint(records: Records, seen: RecordedSandbox): Promise<RecordedSnapshot | null> {
  const newest = await newestInLine(records, seen);
  const point = newest === null ? null : await records.findSnapshot(newest);
  const isBest = point?.sandboxId === seen.id && point.state === 'good' && point.kind === 'memory';
  return isBest ? point : null;
}

/** As it is shown, with what it has lost if it crashed. */
export async function showSandbox(records: Records, sandbox: RecordedSandbox): Promise<Sandbox> {
  if (sandbox.settled !== 'crashed' || sandbox.crash === null) return viewSandbox(sandbox);
  const point = await recoveryPoint(records, sandbox);
  if (point === null) return viewSandbox(sandbox);
  return viewSandbox(sandbox, { id: point.id, since: await workedSince(records, sandbox, point.takenAt) });
}

/** What was done before it was paused or rewound is no loss: since the point, or since it was started from it. */
async function workedSince(records: Records, { id, projectId }: RecordedSandbox, takenAt: Date): Promise<Date> {
  const { items } = await records.listOperations({ projectId, sandboxId: id, limit: OPERATIONS_LOOKED_AT });
  const start = items.find(({ kind, outcome }) => STARTS.includes(kind) && outcome === 'ok');
  return start !== undefined && start.startedAt > takenAt ? start.startedAt : takenAt;
}
