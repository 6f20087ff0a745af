/**
 * What has left or was refused, one record for each request and for each connection of which nothing could be read: kept
 * until somebody has taken it, up to a number. What was lost is counted in the next record of its sandbox.
 */
import type { EgressRecord, EgressRecords, SandboxId } from '@space/core';

const MAX_KEPT = 20_000;
const MAX_TAKEN = 1_000;

export type NewRecord = Omit<EgressRecord, 'lostBefore'>;

export class Recorder {
  #first = 1;
  readonly #kept: EgressRecord[] = [];
  /** Of sandboxes of which no record is kept that could say it. */
  readonly #lost = new Map<SandboxId, number>();

  add(record: NewRecord): void {
    this.#kept.push({ ...record, lostBefore: this.#lost.get(record.sandboxId) ?? 0 });
    this.#lost.delete(record.sandboxId);
    if (this.#kept.length > MAX_KEPT) this.#loseOldest();
  }

  /** Those behind a position that an earlier answer gave; what lies before it has been taken, and is forgotten. */
  take(after: number): Omit<EgressRecords, 'instance'> {
    const taken = Math.max(0, Math.min(after + 1 - this.#first, this.#kept.length));
    this.#kept.splice(0, taken);
    this.#first += taken;
    const records = this.#kept.slice(0, MAX_TAKEN);
    return { records, next: this.#first - 1 + records.length };
  }

  #loseOldest(): void {
    const gone = this.#kept.shift();
    if (gone === undefined) return;
    this.#first++;
    const count = gone.lostBefore + 1;
    const index = this.#kept.findIndex(({ sandboxId }) => sandboxId === gone.sandboxId);
    const next = this.#kept[index];
    if (next === undefined) this.#lost.set(gone.sandboxId, count);
    else this.#kept[index] = { ...next, lostBefore: next.lostBefore + count };
  }
}
