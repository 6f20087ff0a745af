/** Where archives are to be collected, in memory, for tests. */
import type { ArchiveRecords, ToCollect } from '../src/archive-records.ts';

export class MemoryArchives implements ArchiveRecords {
  readonly #turn: () => Promise<void>;
  readonly #asked = new Map<string, ToCollect>();

  constructor(turn: () => Promise<void>) {
    this.#turn = turn;
  }

  async ask(space: ToCollect) {
    await this.#turn();
    const before = this.#asked.get(keyOf(space));
    if (before === undefined || before.askedAt < space.askedAt) this.#asked.set(keyOf(space), space);
    return before === undefined;
  }

  async asked(limit: number) {
    await this.#turn();
    return [...this.#asked.values()].toSorted((a, b) => a.askedAt.getTime() - b.askedAt.getTime()).slice(0, limit);
  }

  async collected(space: ToCollect) {
    await this.#turn();
    const now = this.#asked.get(keyOf(space));
    if (now !== undefined && now.askedAt <= space.askedAt) this.#asked.delete(keyOf(space));
  }
}

function keyOf({ projectId, location }: ToCollect): string {
  return `${projectId} ${location}`;
}
