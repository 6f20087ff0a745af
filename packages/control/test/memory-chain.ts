/** The chains in memory, for tests. */
import { DEFAULT_ORGANISATION, type OrganisationId } from '@space/core';
import { entryOfCall } from '../src/chain-entries.ts';
import {
  beginOf,
  type ChainLink,
  type ChainName,
  type ChainPlace,
  type ChainRecords,
  type ChainRequest,
  type ChainState,
  linkBehind,
} from '../src/chain-records.ts';
import type { MemoryAudit } from './memory-audit.ts';

interface Kept extends ChainRequest {
  anchor: ChainPlace;
  head: ChainPlace;
  links: ChainLink[];
}

export class MemoryChain implements ChainRecords {
  readonly #turn: () => Promise<void>;
  readonly #audit: MemoryAudit;
  readonly #chains: Kept[] = [];

  constructor(turn: () => Promise<void>, audit: MemoryAudit) {
    this.#turn = turn;
    this.#audit = audit;
  }

  async linkCalls(limit: number, at: Date) {
    await this.#turn();
    const ended = this.#audit.ended().slice(0, limit);
    for (const one of ended) {
      const { organisationId } = one;
      this.#audit.linked(one, this.append('calls', organisationId, entryOfCall(one), at));
    }
    return ended.length;
  }

  async unlinkedCalls(organisationId: OrganisationId) {
    await this.#turn();
    return this.#audit.unlinked(organisationId);
  }

  async states(organisationId: OrganisationId): Promise<readonly ChainState[]> {
    await this.#turn();
    const own = this.#chains.filter((one) => one.organisationId === organisationId);
    return own.map(({ chain, anchor, head }) => ({ chain, anchor, head })).sort((a, b) => (a.chain < b.chain ? -1 : 1));
  }

  async links({ after, limit, ...request }: ChainRequest & { after: number; limit: number }) {
    await this.#turn();
    const { links } = this.#chainOf(request);
    return links.filter(({ number }) => number > after).slice(0, limit);
  }

  async before({ since, ...request }: ChainRequest & { since: Date }) {
    await this.#turn();
    const found = this.#chainOf(request).links.find(({ at }) => at >= since);
    return found === undefined ? null : found.number - 1;
  }

  async drop(chain: ChainName, { before, kept, limit }: { before: Date; kept: number; limit: number }) {
    await this.#turn();
    for (const one of this.#chains.filter((each) => each.chain === chain)) {
      const young = one.links.findIndex(({ at }) => at >= before);
      const old = Math.max(young < 0 ? one.links.length : young, one.links.length - kept);
      const gone = one.links.splice(0, Math.min(old, limit));
      one.anchor = placeOf(gone.at(-1) ?? one.anchor);
      if (chain === 'calls') this.#audit.dropLinked(one.organisationId, one.anchor.number);
    }
  }

  /** The links themselves, for who wants to spoil them. */
  kept(chain: ChainName): ChainLink[] {
    return this.#chainOf({ organisationId: DEFAULT_ORGANISATION, chain }).links;
  }

  /** In the turn of what it tells of. */
  append(chain: ChainName, organisationId: OrganisationId, entry: string, at: Date): number {
    const kept = this.#chainOf({ organisationId, chain });
    const link = linkBehind(kept.head, { at, entry });
    kept.links.push(link);
    kept.head = placeOf(link);
    return link.number;
  }

  #chainOf(request: ChainRequest): Kept {
    const { organisationId, chain } = request;
    const found = this.#chains.find((one) => one.organisationId === organisationId && one.chain === chain);
    if (found !== undefined) return found;
    const made: Kept = { organisationId, chain, anchor: beginOf(request), head: beginOf(request), links: [] };
    this.#chains.push(made);
    return made;
  }
}

function placeOf({ number, digest }: ChainPlace): ChainPlace {
  return { number, digest };
}
