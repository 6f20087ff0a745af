/**
 * Brings the newest point of each sandbox that asks for it into an archive, again and again: so no more is lost with a host than what is
 * newer. When one is due is core's to say (`archiving.ts`).
 *
 * - A point is durable already, and is read beside whatever the sandbox does: no operation begins, nothing stands still, nobody is woken.
 * - One at a time, the longest overdue first, and never for more than half of the time for one sandbox.
 * - Only what has changed since the last archive is read. Where there is no newer point, there is nothing to do.
 * - A failure is recorded with the sandbox, told as an event, and tried again with growing pauses.
 */
import {
  AppError,
  archiveOverdueMs,
  asAppError,
  type PolicyChoice,
  type ProjectId,
  policyOf,
  type RegularArchive,
  type SandboxId,
  type Settled,
} from '@space/core';
import type { ArchiveCollector } from './archive-collector.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import type { ArchivedLast, Archiving, RecordedSandbox, RecordedSnapshot } from './records.ts';
import { findSnapshot } from './scope.ts';
import { pinned } from './timeline.ts';

/** How soon one that had nothing new is looked at again. */
const LOOK_EVERY_MS = 20_000;
const KEPT_HERE: readonly Settled[] = ['running', 'out_of_space', 'paused', 'crashed'];

interface Due {
  readonly sandbox: RecordedSandbox;
  readonly archive: RegularArchive;
  readonly overdueMs: number;
}

export class RegularArchives {
  readonly #machinery: Machinery;
  readonly #collector: ArchiveCollector;
  /** When each was looked at in vain, on a clock that never goes back. */
  readonly #looks = new Map<SandboxId, number>();
  readonly #stop = new AbortController();
  #working: Promise<void> | null = null;

  constructor(machinery: Machinery, collector: ArchiveCollector) {
    this.#collector = collector;
    this.#machinery = machinery;
  }

  /** What is begun here ends by itself; see `settled`. */
  async round(sandboxes: readonly RecordedSandbox[]): Promise<void> {
    const ids = new Set(sandboxes.map(({ id }) => id));
    for (const id of this.#looks.keys()) if (!ids.has(id)) this.#looks.delete(id);
    if (this.#working !== null || this.#stop.signal.aborted) return;
    const { records, logger } = this.#machinery.ports;
    const ofProjects = await records.tenants.snapshotPolicies();
    const due = sandboxes.flatMap((sandbox) => this.#dueOf(sandbox, ofProjects) ?? []);
    const [first] = due.toSorted((a, b) => b.overdueMs - a.overdueMs);
    if (first === undefined) return;
    this.#working = this.#attempt(first, ofProjects)
      .catch((err: unknown) => logger.warn({ sandboxId: first.sandbox.id, err }, 'a regular archive was not recorded'))
      .finally(() => {
        this.#working = null;
      });
  }

  /** When what is under way has ended. */
  async settled(): Promise<void> {
    await this.#working;
  }

  /** What is under way is given up, and done again by the next process. */
  close(): void {
    this.#stop.abort(new AppError('unavailable', 'The server is shutting down.'));
  }

  #dueOf(sandbox: RecordedSandbox, ofProjects: ReadonlyMap<ProjectId, PolicyChoice>): Due | null {
    const { clock } = this.#machinery.ports;
    const { id, settled, archiving, snapshotPolicy, projectId } = sandbox;
    const { archive } = policyOf(snapshotPolicy, ofProjects.get(projectId) ?? {});
    if (archive === 'off' || !KEPT_HERE.includes(settled)) return null;
    const lookedMs = this.#looks.get(id);
    if (lookedMs !== undefined && clock.monotonicMs() - lookedMs < LOOK_EVERY_MS) return null;
    const track = {
      triedAtMs: archiving === null ? null : Date.parse(archiving.triedAt),
      tookMs: archiving?.tookMs ?? 0,
      failures: archiving?.failure?.count ?? 0,
    };
    const overdueMs = archiveOverdueMs(track, archive.everyMs, clock.now());
    return overdueMs < 0 ? null : { sandbox, archive, overdueMs };
  }

  async #attempt(seen: Due, ofProjects: ReadonlyMap<ProjectId, PolicyChoice>): Promise<void> {
    const { ports, pins } = this.#machinery;
    const { history } = ports.records;
    // What was seen may be from before the last attempt was recorded.
    const now = await ports.records.findSandbox(seen.sandbox.id);
    const due = now === null ? null : this.#dueOf(now, ofProjects);
    if (due === null) return;
    const { sandbox, archive } = due;
    const { location } = archive;
    const newest = await history.tip(sandbox.id, sandbox.generation);
    const before = sandbox.archiving?.last ?? null;
    if (newest === null || (before?.snapshotId === newest.id && before.location === location)) {
      this.#looks.set(sandbox.id, ports.clock.monotonicMs());
      return;
    }
    this.#looks.delete(sandbox.id);
    const startedMs = ports.clock.monotonicMs();
    const note = async (changes: Pick<Archiving, 'last' | 'failure'>) => {
      const at = new Date(ports.clock.now());
      const tookMs = Math.round(ports.clock.monotonicMs() - startedMs);
      await history.noteArchiving(sandbox, { ...changes, triedAt: at.toISOString(), tookMs }, at);
    };
    try {
      const point = await pinned(pins, () => findSnapshot(ports.records, sandbox.projectId, newest.id));
      const last = await this.#bring(sandbox, point, location).finally(() => pins.unpin(point.id));
      await note({ last, failure: null });
    } catch (thrown) {
      // It is nobody's failure, and is not counted as one.
      if (this.#stop.signal.aborted) return;
      const { code } = asAppError(thrown);
      ports.logger.warn({ sandboxId: sandbox.id, location, code, err: thrown }, 'a regular archive was not made');
      await note({ last: before, failure: { code, count: (sandbox.archiving?.failure?.count ?? 0) + 1 } });
    }
  }

  async #bring(sandbox: RecordedSandbox, point: RecordedSnapshot, location: string): Promise<ArchivedLast> {
    const { node } = this.#machinery.ports;
    const { id: sandboxId, vault, template, projectId, archiving } = sandbox;
    const last = archiving?.last ?? null;
    const base = last?.location === location ? last.archive : null;
    const order = { vault, sandboxId, location, projectId, template, points: [point.id], base };
    const ended = await this.#collector.expect(projectId, location);
    let leavesNothing = false;
    try {
      for await (const event of node.exportPoints(order, this.#stop.signal)) {
        if (event.kind !== 'done') continue;
        leavesNothing = true;
        return { archive: event.archive, location, snapshotId: point.id, takenAt: point.takenAt.toISOString() };
      }
    } finally {
      await ended(leavesNothing);
    }
    throw new AppError('link_lost', 'The export ended without its result.');
  }
}
