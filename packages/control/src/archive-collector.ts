/**
 * Has what archives have left removed from their storage: after one was deleted, and after an export that failed. It is asked for in the
 * records, so that it outlives the process; the work is the node's, and gives way to exports and imports. One at a time.
 *
 * Where that is always in use, it would wait for ever: so one that was put off for long insists, and those who come wait for it.
 *
 * What an export sends belongs to nothing until its index is there. So it is asked for before the first piece is sent, whatever may
 * become of export, process and database, and no more once the export has ended well.
 */
import { AppError, type ProjectId } from '@space/core';
import type { ArchiveRecords, ToCollect } from './archive-records.ts';
import { Backoff } from './backoff.ts';
import type { ControlPorts } from './ports.ts';

const LOOKED_AT = 100;
/** A collection that was put off for so long insists. */
const PATIENCE_MS = 15 * 60_000;

/** What is under way here in one space: exports, and removals of archives. */
interface UnderWay {
  readonly askedAt: Date;
  /** Whether nobody had asked before them. */
  readonly isNew: Promise<boolean>;
  count: number;
  /** Whether anything is left by them. */
  isLeft: boolean;
}

/** Told whether all that was sent is named by an archive. */
export type EndOfChange = (leavesNothing: boolean) => Promise<void>;

export class ArchiveCollector {
  readonly #ports: ControlPorts;
  readonly #archives: ArchiveRecords;
  readonly #backoff: Backoff<string>;
  readonly #stop = new AbortController();
  readonly #underWay = new Map<string, UnderWay>();
  /** Since when each is put off, on a clock that never goes back. */
  readonly #putOff = new Map<string, number>();
  #working: Promise<void> | null = null;

  constructor(ports: ControlPorts) {
    this.#ports = ports;
    this.#archives = ports.records.archives;
    this.#backoff = new Backoff(ports.clock);
  }

  /**
   * Before something that may leave pieces that nothing names: an export, or the removal of an archive. What it returns is to be called
   * when that has ended; until then nothing is collected there, since what is to be collected is not known.
   */
  async expect(projectId: ProjectId, location: string): Promise<EndOfChange> {
    const space = { projectId, location, askedAt: new Date(this.#ports.clock.now()) };
    const key = keyOf(space);
    const present = this.#underWay.get(key);
    const one = present ?? { askedAt: space.askedAt, isNew: this.#archives.ask(space), count: 0, isLeft: false };
    one.count += 1;
    this.#underWay.set(key, one);
    const end: EndOfChange = async (leavesNothing) => {
      one.count -= 1;
      if (!leavesNothing) one.isLeft = true;
      if (one.count > 0) return;
      this.#underWay.delete(key);
      // If it stays asked for, that is one look too many.
      if ((await one.isNew) && !one.isLeft)
        await this.#archives.collected({ ...space, askedAt: one.askedAt }).catch(() => undefined);
    };
    try {
      await one.isNew;
      return end;
    } catch (thrown) {
      one.count -= 1;
      if (one.count === 0) this.#underWay.delete(key);
      throw thrown;
    }
  }

  /** What is begun here ends by itself; see `settled`. */
  async round(): Promise<void> {
    if (this.#working !== null || this.#stop.signal.aborted) return;
    const asked = await this.#archives.asked(LOOKED_AT);
    const keys = new Set(asked.map(keyOf));
    this.#backoff.retain(keys);
    for (const key of this.#putOff.keys()) if (!keys.has(key)) this.#putOff.delete(key);
    const nowMs = this.#ports.clock.monotonicMs();
    for (const key of keys) if (!this.#putOff.has(key)) this.#putOff.set(key, nowMs);
    const next = asked.find((one) => this.#mayCollect(keyOf(one)) && this.#backoff.mayTry(keyOf(one)));
    if (next === undefined) return;
    this.#working = this.#collect(next)
      .catch((err: unknown) => {
        this.#backoff.failed(keyOf(next));
        const { projectId, location } = next;
        if (!this.#stop.signal.aborted)
          this.#ports.logger.warn({ projectId, location, err }, 'archives were not collected');
      })
      .finally(() => {
        this.#working = null;
      });
  }

  #mayCollect(key: string): boolean {
    return !this.#underWay.has(key) || this.#insists(key);
  }

  #insists(key: string): boolean {
    const nowMs = this.#ports.clock.monotonicMs();
    return nowMs - (this.#putOff.get(key) ?? nowMs) >= PATIENCE_MS;
  }

  async settled(): Promise<void> {
    await this.#working;
  }

  /** What is under way is given up, and done by the next process. */
  close(): void {
    this.#stop.abort(new AppError('unavailable', 'The server is shutting down.'));
  }

  async #collect(space: ToCollect): Promise<void> {
    const { projectId, location } = space;
    const insists = this.#insists(keyOf(space));
    const collected = await this.#ports.node.collectArchives({ projectId, location, insists }, this.#stop.signal);
    if (collected === null) return this.#backoff.failed(keyOf(space));
    this.#ports.logger.info({ projectId, location, ...collected }, 'archives were collected');
    if (collected.resisted > 0) return this.#backoff.failed(keyOf(space));
    this.#putOff.delete(keyOf(space));
    // What is under way here may leave more.
    if (this.#underWay.has(keyOf(space))) return;
    await this.#archives.collected(space);
    this.#backoff.forget(keyOf(space));
  }
}

function keyOf({ projectId, location }: ToCollect): string {
  return `${projectId} ${location}`;
}
