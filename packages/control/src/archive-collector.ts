/**
 * Has what archives have left removed from their storage: after one was deleted, and after an export that failed. It is asked for in the
 * records, so that it outlives the process; the work is the node's, and gives way to exports and imports. One at a time.
 */
import { AppError, type ProjectId } from '@space/core';
import type { ArchiveRecords, ToCollect } from './archive-records.ts';
import { Backoff } from './backoff.ts';
import type { ControlPorts } from './ports.ts';

const LOOKED_AT = 100;

export class ArchiveCollector {
  readonly #ports: ControlPorts;
  readonly #archives: ArchiveRecords;
  readonly #backoff: Backoff<string>;
  readonly #stop = new AbortController();
  #working: Promise<void> | null = null;

  constructor(ports: ControlPorts) {
    this.#ports = ports;
    this.#archives = ports.records.archives;
    this.#backoff = new Backoff(ports.clock);
  }

  ask(projectId: ProjectId, location: string): Promise<void> {
    return this.#archives.ask({ projectId, location, askedAt: new Date(this.#ports.clock.now()) });
  }

  /** What is begun here ends by itself; see `settled`. */
  async round(): Promise<void> {
    if (this.#working !== null || this.#stop.signal.aborted) return;
    const asked = await this.#archives.asked(LOOKED_AT);
    this.#backoff.retain(new Set(asked.map(keyOf)));
    const next = asked.find((one) => this.#backoff.mayTry(keyOf(one)));
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

  async settled(): Promise<void> {
    await this.#working;
  }

  /** What is under way is given up, and done by the next process. */
  close(): void {
    this.#stop.abort(new AppError('unavailable', 'The server is shutting down.'));
  }

  async #collect(space: ToCollect): Promise<void> {
    const { projectId, location } = space;
    const collected = await this.#ports.node.collectArchives({ projectId, location }, this.#stop.signal);
    if (collected === null) return this.#backoff.failed(keyOf(space));
    this.#ports.logger.info({ projectId, location, ...collected }, 'archives were collected');
    if (collected.resisted > 0) return this.#backoff.failed(keyOf(space));
    await this.#archives.collected(space);
    this.#backoff.forget(keyOf(space));
  }
}

function keyOf({ projectId, location }: ToCollect): string {
  return `${projectId} ${location}`;
}
