/** The chains of the audit: what has ended is linked in rounds, what is old goes, and anybody may check and take away the rest. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AuditExportEvent, AuditVerification, Caller, Input } from '@space/contract';
import { type OrganisationId, SharedPlaces } from '@space/core';
import {
  beginOf,
  CHAINS,
  type ChainLink,
  type ChainName,
  type ChainPlace,
  type ChainState,
  follow,
} from './chain-records.ts';
import type { ControlPorts } from './ports.ts';
import { retryUnavailable } from './retry.ts';
import { stoppable } from './streams.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const PIECE = 1_000;
const LOOK_EVERY_MS = 500;
const MAX_FOLLOWERS = 100;
/** Each reads all there is; an organisation alone has half of them. */
const MAX_READERS = 4;
/** Of calls, in one round. */
const LINKED_AT_ONCE = 500;
const MAX_TURNS = 20;
const DROPPED_AT_ONCE = 20_000;
/** However many links a sandbox causes, its organisation keeps so many. */
const KEPT: Readonly<Record<ChainName, { readonly ms: number; readonly links: number }>> = {
  calls: { ms: 400 * DAY_MS, links: 10_000_000 },
  egress: { ms: 30 * DAY_MS, links: 1_000_000 },
};

export class Chain {
  readonly #ports: ControlPorts;
  readonly #followers = new SharedPlaces(MAX_FOLLOWERS, 'streams that follow the audit');
  readonly #readers = new SharedPlaces(MAX_READERS, 'checks of the audit');

  constructor(ports: ControlPorts) {
    this.#ports = ports;
  }

  /** Links the calls that have ended. */
  async round(): Promise<void> {
    const { records, clock } = this.#ports;
    for (let turn = 0; turn < MAX_TURNS; turn++) {
      if ((await records.chain.linkCalls(LINKED_AT_ONCE, new Date(clock.now()))) < LINKED_AT_ONCE) return;
    }
  }

  async dropOld(): Promise<void> {
    const { records, clock } = this.#ports;
    for (const chain of CHAINS) {
      const { ms, links } = KEPT[chain];
      await records.chain.drop(chain, { before: new Date(clock.now() - ms), kept: links, limit: DROPPED_AT_ONCE });
    }
  }

  async verify({ principal, signal }: Caller): Promise<AuditVerification> {
    const { organisationId } = principal;
    const leave = this.#readers.enter(organisationId);
    try {
      const chains: AuditVerification['chains'] = [];
      for (const state of await this.#states(organisationId)) {
        chains.push(await this.#verifyOne(organisationId, state, signal));
      }
      return {
        organisation: organisationId,
        chains,
        notLinked: await this.#ports.records.chain.unlinkedCalls(organisationId),
      };
    } finally {
      leave();
    }
  }

  export(caller: Caller, input: Input<'exportAudit'>): AsyncIterable<AuditExportEvent> {
    return stoppable(caller.signal, (signal) => this.#export({ ...caller, signal }, input));
  }

  async #verifyOne(
    organisationId: OrganisationId,
    { chain, anchor, head }: ChainState,
    signal: AbortSignal,
  ): Promise<AuditVerification['chains'][number]> {
    const found = (brokenAt: number | null, why: string | null) => {
      return { chain, dropped: anchor.number, last: head.number, digest: head.digest, brokenAt, why };
    };
    const begin = beginOf({ organisationId, chain });
    if (anchor.number === 0 && anchor.digest !== begin.digest) return found(1, 'It does not begin where it should.');
    let last: ChainPlace = anchor;
    while (last.number < head.number) {
      signal.throwIfAborted();
      const links = await this.#links(organisationId, chain, last.number);
      // What was linked since the head was looked up is not its business.
      const result = follow(
        last,
        links.filter(({ number }) => number <= head.number),
      );
      if (result.brokenAt !== null) return found(result.brokenAt, 'It is not what was linked, or links are missing.');
      if (result.last.number === last.number) return found(last.number + 1, 'Links are missing at the end.');
      last = result.last;
    }
    return last.digest === head.digest ? found(null, null) : found(head.number, 'The head is not that of its links.');
  }

  async *#export(caller: Caller, input: Input<'exportAudit'>): AsyncGenerator<AuditExportEvent, void> {
    const { chain: only, since, last, follow: goesOn } = input;
    const { organisationId } = caller.principal;
    const leave = goesOn ? this.#followers.enter(organisationId) : null;
    try {
      const places = new Map<ChainName, number>();
      for (;;) {
        for (const chain of CHAINS.filter((one) => only === undefined || one === only)) {
          if (!places.has(chain)) {
            const from = await this.#placeToBegin({ organisationId, chain, since, last });
            yield { type: 'anchor', organisation: organisationId, chain, ...from };
            places.set(chain, from.number);
          }
          yield* this.#linksOf(caller, chain, places);
        }
        if (!goesOn) return;
        await sleep(LOOK_EVERY_MS, undefined, { signal: caller.signal });
      }
    } finally {
      leave?.();
    }
  }

  async *#linksOf(
    { principal, signal }: Caller,
    chain: ChainName,
    places: Map<ChainName, number>,
  ): AsyncGenerator<AuditExportEvent, void> {
    for (;;) {
      signal.throwIfAborted();
      const links = await this.#links(principal.organisationId, chain, places.get(chain) ?? 0);
      for (const { at, entry, ...place } of links) {
        yield { type: 'link', chain, ...place, at: at.toISOString(), entry: JSON.parse(entry) };
        places.set(chain, place.number);
      }
      if (links.length < PIECE) return;
    }
  }

  /** What the first link that is given stands behind. */
  async #placeToBegin(asked: {
    readonly organisationId: OrganisationId;
    readonly chain: ChainName;
    readonly since: string | undefined;
    readonly last: number | undefined;
  }): Promise<ChainPlace> {
    const { organisationId, chain, since, last } = asked;
    const state = (await this.#states(organisationId)).find((one) => one.chain === chain);
    if (state === undefined) return beginOf({ organisationId, chain });
    const { anchor, head } = state;
    const { records } = this.#ports;
    const request = { organisationId, chain };
    const bySince = since === undefined ? null : await records.chain.before({ ...request, since: new Date(since) });
    if (since !== undefined && bySince === null) return head;
    const number = Math.max(bySince ?? 0, last === undefined ? 0 : head.number - last, anchor.number);
    if (number === anchor.number) return anchor;
    const [link] = await records.chain.links({ ...request, after: number - 1, limit: 1 });
    return link === undefined ? anchor : { number: link.number, digest: link.digest };
  }

  #links(organisationId: OrganisationId, chain: ChainName, after: number): Promise<readonly ChainLink[]> {
    const { records } = this.#ports;
    return retryUnavailable(() => records.chain.links({ organisationId, chain, after, limit: PIECE }));
  }

  #states(organisationId: OrganisationId): Promise<readonly ChainState[]> {
    return retryUnavailable(() => this.#ports.records.chain.states(organisationId));
  }
}
