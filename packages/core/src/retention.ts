/**
 * Which points of a sandbox stay: two pure functions. `nextTime` gives each point its place in the sandbox's own time;
 * `decideRetention` says of each point whether it stays, and why.
 *
 * **Sandbox time.** History ages as the sandbox moves on, not by the clock on the wall: the time between two points counts,
 * but at most a little more than the schedule leaves between them. So a sandbox that was paused for a week, one in which
 * nothing changed, a host that slept and a clock that jumped ahead all leave the last hour as fine as it was. A clock that
 * is set back nearly stops the time until the next point; no two points are of one time. Points therefore stay at least as long as the ladder says.
 *
 * **The ladder.** Each rung cuts time into slots of its `everyMs`, and each slot keeps one point: of those that no schedule
 * took (what a rewind left, a pause, a checkpoint) the oldest, else of those that hold memory, else the oldest. A slot passes to the next rung as a
 * whole, once all of it is older than the rung reaches; and slots of a rung are made of whole slots of the rung before. So
 * a slot that ever held a point holds one until its last rung lets it go.
 */
import type { SnapshotId } from './ids.ts';
import type { SnapshotKind } from './manifest.ts';
import type { Rung, SnapshotPolicy } from './snapshot-policy.ts';

/** Why a point stays whatever the ladder says. */
export type Hold =
  | 'named'
  | 'pinned'
  /** Its sandbox would go on from it. */
  | 'needed'
  /** Something starts from it now, or it is being taken. */
  | 'in_use';

export interface AgingPoint {
  readonly id: SnapshotId;
  /** In sandbox time. */
  readonly timeMs: number;
  readonly scheduled: boolean;
  readonly kind: SnapshotKind;
  readonly hold: Hold | null;
}

export type Fate =
  | { readonly kind: 'keep'; readonly because: Hold | 'each' | 'slot' }
  /** `thinned`: another point of its slot stays. `aged_out`: it is older than the ladder reaches. */
  | { readonly kind: 'collect'; readonly because: 'thinned' | 'aged_out' };

const MIN_GAP_MS = 5 * 60_000;
const MAX_GAP_MS = 60 * 60_000;

/** The most that the time between two points counts. */
export function gapLimitMs({ everyMs }: Pick<SnapshotPolicy, 'everyMs'>): number {
  return everyMs === 'off' ? MAX_GAP_MS : Math.max(MIN_GAP_MS, 2 * everyMs);
}

/** A point in both times: the sandbox's, and the clock's. */
export interface TakenTime {
  readonly timeMs: number;
  readonly takenAtMs: number;
}

/** What time it is for a sandbox whose newest point is `newest`, when the clock says `clockMs`. */
export function sandboxTime(newest: TakenTime, clockMs: number, gapMs: number): number {
  return newest.timeMs + Math.min(gapMs, Math.max(0, clockMs - newest.takenAtMs));
}

/** The time that a point taken now gets: later than that of any before it. */
export function nextTime(newest: TakenTime | null, clockMs: number, gapMs: number): number {
  return newest === null ? 0 : Math.max(newest.timeMs + 1, sandboxTime(newest, clockMs, gapMs));
}

/** `nowMs` in sandbox time. The decision depends on nothing else, so it is the same after a crash, and when made twice. */
export function decideRetention(
  points: readonly AgingPoint[],
  ladder: readonly Rung[],
  nowMs: number,
): ReadonlyMap<SnapshotId, Fate> {
  const slots = new Map<string, AgingPoint>();
  const slotOf = new Map<AgingPoint, string>();
  const fates = new Map<SnapshotId, Fate>();
  for (const point of points) {
    const index = ladder.findIndex((rung) => nowMs - slotEndMs(point, rung) <= rung.forMs);
    const rung = ladder[index];
    if (rung === undefined) {
      fates.set(point.id, { kind: 'collect', because: 'aged_out' });
    } else if (rung.everyMs === 0) {
      fates.set(point.id, { kind: 'keep', because: 'each' });
    } else {
      const slot = `${index} ${Math.floor(point.timeMs / rung.everyMs)}`;
      slotOf.set(point, slot);
      const best = slots.get(slot);
      if (best === undefined || goesBefore(point, best)) slots.set(slot, point);
    }
  }
  for (const [point, slot] of slotOf) {
    const isKept = slots.get(slot) === point;
    fates.set(point.id, isKept ? { kind: 'keep', because: 'slot' } : { kind: 'collect', because: 'thinned' });
  }
  for (const { id, hold } of points) if (hold !== null) fates.set(id, { kind: 'keep', because: hold });
  return fates;
}

function slotEndMs({ timeMs }: AgingPoint, { everyMs }: Rung): number {
  return everyMs === 0 ? timeMs : (Math.floor(timeMs / everyMs) + 1) * everyMs;
}

/** What no schedule took was taken for a reason. */
function goesBefore(a: AgingPoint, b: AgingPoint): boolean {
  if (a.scheduled !== b.scheduled) return !a.scheduled;
  if (a.kind !== b.kind) return a.kind === 'memory';
  if (a.timeMs !== b.timeMs) return a.timeMs < b.timeMs;
  return a.id < b.id;
}
