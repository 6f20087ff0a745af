/**
 * Which points go when a vault has less left than is promised to what runs: before new sandboxes are refused for long, and so
 * that no running guest has to stand still. Pure.
 *
 * Whoever holds the most history gives first, its oldest point first, and what a schedule took before what was taken for a
 * reason. So one who fills a vault pays for it with its own past before its neighbours do. Nothing that is held goes: neither
 * named nor pinned points, nor the one that a sandbox would go on from; nor the newest of a sandbox, whatever it is.
 *
 * How much a point gives back is not foretold: its blocks may be shared with others. A few go at a time, and then the vault is
 * measured.
 */
import type { Changed } from './cadence.ts';
import type { SandboxId } from './ids.ts';
import type { AgingPoint } from './retention.ts';

export interface SpendablePoint extends Pick<AgingPoint, 'id' | 'timeMs' | 'scheduled' | 'hold'> {
  readonly sandboxId: SandboxId;
  /** Since the one before it: about what it takes. */
  readonly changed: Changed | null;
}

/** At most `count`, in the order in which they should go. */
export function decideSacrifice(points: readonly SpendablePoint[], count: number): readonly SpendablePoint[] {
  const givers = [...Map.groupBy(points, ({ sandboxId }) => sandboxId).values()].map((own) => {
    const inOrder = own.toSorted((a, b) => a.timeMs - b.timeMs);
    const free = inOrder.slice(0, -1).filter(({ hold }) => hold === null);
    return {
      weight: free.reduce((sum, point) => sum + weightOf(point), 0),
      scheduled: free.filter(({ scheduled }) => scheduled),
      others: free.filter(({ scheduled }) => !scheduled),
    };
  });
  const chosen: SpendablePoint[] = [];
  for (const part of ['scheduled', 'others'] as const) {
    while (chosen.length < count) {
      const giver = givers.filter((one) => one[part].length > 0).toSorted((a, b) => b.weight - a.weight)[0];
      const point = giver?.[part].shift();
      if (giver === undefined || point === undefined) break;
      giver.weight -= weightOf(point);
      chosen.push(point);
    }
  }
  return chosen;
}

function weightOf({ changed }: SpendablePoint): number {
  return changed === null ? 0 : changed.diskBytes + changed.memoryBytes;
}
