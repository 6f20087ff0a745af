/** The outbox in memory, for tests. */
import { AppError } from '@space/core';
import {
  CURSOR_AHEAD,
  type EventRecords,
  type EventsRequest,
  type NewEvent,
  type RecordedEvent,
} from '../src/event-records.ts';

export class MemoryEvents implements EventRecords {
  readonly #turn: () => Promise<void>;
  #events: RecordedEvent[] = [];
  #count = 0;
  #floor = 0;

  constructor(turn: () => Promise<void>) {
    this.#turn = turn;
  }

  /** In the turn of the change that they tell of. */
  put(events: readonly NewEvent[]): void {
    for (const event of events) this.#events.push({ ...event, cursor: `0-${++this.#count}` });
  }

  async list({ after, projectId, organisationId, limit }: EventsRequest) {
    await this.#turn();
    const from = after === null ? this.#floor : placeOf(after);
    if (from < this.#floor) throw new AppError('events_lost', 'What came right after the cursor is no longer kept.');
    if (from > this.#count) throw new AppError('events_lost', CURSOR_AHEAD);
    const own = this.#events.filter(
      (one) =>
        placeOf(one.cursor) > from &&
        (one.projectId === projectId || (one.organisationId !== null && one.organisationId === organisationId)),
    );
    return own.slice(0, limit);
  }

  async latest() {
    await this.#turn();
    return `0-${this.#count}`;
  }

  async dropBefore(time: Date) {
    await this.#turn();
    for (const { at, cursor } of this.#events) if (at < time) this.#floor = Math.max(this.#floor, placeOf(cursor));
    this.#events = this.#events.filter(({ at }) => at >= time);
  }
}

function placeOf(cursor: string): number {
  const [tx, number] = cursor.split('-').map(Number);
  // Nothing is of a later transaction than the first here.
  return tx === 0 ? (number ?? 0) : Number.POSITIVE_INFINITY;
}
