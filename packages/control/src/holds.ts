/** Which points of a sandbox stay whatever the ladder says, and whatever a vault is short of. */
import type { AgingPoint, Hold, SnapshotId } from '@space/core';
import type { AgingSnapshot, RecordedSandbox } from './records.ts';
import type { Pins } from './timeline.ts';

/** What sandboxes that do not run would go on from, whosever points those are. */
export function headsOf(all: readonly RecordedSandbox[]): ReadonlySet<SnapshotId> {
  return new Set(all.flatMap(({ settled, head }) => (settled !== 'running' && head !== null ? [head] : [])));
}

/** The points of a sandbox that were taken, oldest first. */
export function inOrder<T extends AgingSnapshot>(points: readonly T[]): readonly T[] {
  return points.filter(({ state }) => state !== 'taking').toSorted((a, b) => a.timeMs - b.timeMs);
}

/** `points` as `inOrder` gives them. */
export function agingOf(
  sandbox: RecordedSandbox,
  points: readonly AgingSnapshot[],
  { heads, pins }: { readonly heads: ReadonlySet<SnapshotId>; readonly pins: Pins },
): readonly AgingPoint[] {
  const needed = new Set([...heads, ...neededBy(sandbox, points)]);
  return points.map((point) => {
    const { id, timeMs, kind, cause } = point;
    return { id, timeMs, kind, scheduled: cause === 'rolling', hold: holdOf(point, needed, pins) };
  });
}

function holdOf({ id, name, pinned }: AgingSnapshot, needed: ReadonlySet<SnapshotId>, pins: Pins): Hold | null {
  if (name !== null) return 'named';
  if (pinned) return 'pinned';
  if (needed.has(id)) return 'needed';
  return pins.has(id) ? 'in_use' : null;
}

/** What a sandbox would go on from: where it is paused, and the tip of its line, should its VM end now. */
function neededBy(
  { settled, head, generation }: RecordedSandbox,
  points: readonly AgingSnapshot[],
): readonly SnapshotId[] {
  const tip = points.findLast((point) => point.state === 'good' && point.generation === generation);
  return [settled === 'running' ? null : head, tip?.id ?? null].filter((id) => id !== null);
}
