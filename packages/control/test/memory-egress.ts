/** What left sandboxes, in memory, for tests. */
import type { EgressPosition, SandboxId } from '@space/core';
import { entryOfChange, entryOfEgress } from '../src/chain-entries.ts';
import type { RecordedEgress, RecordsOfEgress, TakenEgress } from '../src/egress-records.ts';
import { paginate } from '../src/page.ts';
import type { PageRequest } from '../src/records.ts';
import type { MemoryChain } from './memory-chain.ts';

export class MemoryEgress implements RecordsOfEgress {
  readonly #turn: () => Promise<void>;
  readonly #chain: MemoryChain;
  #records: RecordedEgress[] = [];
  #position: EgressPosition | null = null;

  constructor(turn: () => Promise<void>, chain: MemoryChain) {
    this.#turn = turn;
    this.#chain = chain;
  }

  async position() {
    await this.#turn();
    return this.#position;
  }

  async add({ records, changes, position, linkedAt }: TakenEgress, behind: EgressPosition | null) {
    await this.#turn();
    if (this.#position?.instance !== behind?.instance || this.#position?.next !== behind?.next) return;
    this.#position = position;
    for (const one of changes) this.#chain.append('egress', one.organisationId, entryOfChange(one), linkedAt);
    for (const { organisationId, ...one } of records) {
      this.#chain.append('egress', organisationId, entryOfEgress(one), linkedAt);
      this.#records.push(one);
    }
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
