/**
 * What has left or was refused, one record for each request and for each connection of which nothing could be read: kept
 * until somebody has taken it, up to a number. What was lost is counted.
 */
import type { EgressRecord, EgressRecords } from '@space/core';

const MAX_KEPT = 20_000;
const MAX_TAKEN = 1_000;

export class Recorder {
  #first = 1;
  #lost = 0;
  readonly #kept: EgressRecord[] = [];

  add(record: EgressRecord): void {
    this.#kept.push(record);
    if (this.#kept.length <= MAX_KEPT) return;
    this.#kept.shift();
    this.#first++;
    this.#lost++;
  }

  /** Those behind a position that an earlier answer gave; what lies before it has been taken, and is forgotten. */
  take(after: number): Omit<EgressRecords, 'instance'> {
    const taken = Math.max(0, Math.min(after + 1 - this.#first, this.#kept.length));
    this.#kept.splice(0, taken);
    this.#first += taken;
    const records = this.#kept.slice(0, MAX_TAKEN);
    return { records, next: this.#first - 1 + records.length, lost: this.#lost };
  }
}
