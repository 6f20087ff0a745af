/** What left sandboxes, in memory, for tests. */
import type { SandboxId } from '@space/core';
import type { RecordedEgress, RecordsOfEgress } from '../src/egress-records.ts';
import { paginate } from '../src/page.ts';
import type { PageRequest } from '../src/records.ts';

export class MemoryEgress implements RecordsOfEgress {
  readonly #turn: () => Promise<void>;
  #records: RecordedEgress[] = [];

  constructor(turn: () => Promise<void>) {
    this.#turn = turn;
  }

  async add(records: readonly RecordedEgress[]) {
    await this.#turn();
    this.#records.push(...records);
  }

  async list(page: PageRequest & { readonly sandboxId: SandboxId }) {
    await this.#turn();
    return this.#newestFirst(page);
  }

  async trim(sandboxId: SandboxId, kept: number) {
    await this.#turn();
    const { items } = this.#newestFirst({ sandboxId, limit: kept });
    this.#records = this.#records.filter((one) => one.sandboxId !== sandboxId || items.includes(one));
  }

  async dropBefore(at: Date) {
    await this.#turn();
    this.#records = this.#records.filter((one) => one.at >= at);
  }

  #newestFirst({ sandboxId, ...page }: PageRequest & { readonly sandboxId: SandboxId }) {
    return paginate(
      this.#records.filter((one) => one.sandboxId === sandboxId),
      page,
      (one) => one.at,
    );
  }
}
