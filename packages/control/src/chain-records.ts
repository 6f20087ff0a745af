/**
 * The part of the records that nobody can change unseen: of each organisation two chains of links, what callers did and what left
 * sandboxes. A link holds its entry and a digest over it and the digest before, so whoever changes, takes out or slips in one breaks
 * all that follow. Links are only added; the oldest go together, and their last digest stays as the anchor of those behind.
 *
 *     anchor 41 ◄── 42 ◄── 43 ◄── … ◄── head
 */
import { createHash } from 'node:crypto';
import type { OrganisationId } from '@space/core';

export const CHAINS = ['calls', 'egress'] as const;
export type ChainName = (typeof CHAINS)[number];

/** A place in a chain, and what all before it comes to. In hex. */
export interface ChainPlace {
  readonly number: number;
  readonly digest: string;
}

export interface ChainLink extends ChainPlace {
  /** When it was linked. */
  readonly at: Date;
  /** JSON, exactly as it went into the digest. */
  readonly entry: string;
}

export interface ChainState {
  readonly chain: ChainName;
  /** The last that is gone. */
  readonly anchor: ChainPlace;
  readonly head: ChainPlace;
}

export interface ChainRequest {
  readonly organisationId: OrganisationId;
  readonly chain: ChainName;
}

export interface ChainRecords {
  /** Links calls that have ended, so many at most, and answers how many. */
  linkCalls(limit: number, at: Date): Promise<number>;
  /** How many calls have not ended, or were not linked yet. */
  unlinkedCalls(organisationId: OrganisationId): Promise<number>;
  /** Of chains that have begun. */
  states(organisationId: OrganisationId): Promise<readonly ChainState[]>;
  /** In order, behind a number. */
  links(request: ChainRequest & { readonly after: number; readonly limit: number }): Promise<readonly ChainLink[]>;
  /** The number before the first that was linked at the time or later; null: there is none. */
  before(request: ChainRequest & { readonly since: Date }): Promise<number | null>;
  /** What was linked before the time, and the oldest beyond so many, goes; of a chain no more than `limit` at once. */
  drop(chain: ChainName, old: { readonly before: Date; readonly kept: number; readonly limit: number }): Promise<void>;
}

/** Where a chain begins: not where that of anybody else does. */
export function beginOf({ organisationId, chain }: ChainRequest): ChainPlace {
  const digest = createHash('sha256').update(`space audit\n${organisationId}\n${chain}\n`).digest('hex');
  return { number: 0, digest };
}

export function linkBehind(last: ChainPlace, { at, entry }: Pick<ChainLink, 'at' | 'entry'>): ChainLink {
  const number = last.number + 1;
  const said = `${number}\n${at.toISOString()}\n${entry}`;
  const digest = createHash('sha256').update(Buffer.from(last.digest, 'hex')).update(said).digest('hex');
  return { number, digest, at, entry };
}

/** The last that is as it was linked, and the number of the first that is not; null: all are. */
export function follow(
  from: ChainPlace,
  links: readonly ChainLink[],
): { readonly last: ChainPlace; readonly brokenAt: number | null } {
  let last = from;
  for (const link of links) {
    const expected = linkBehind(last, link);
    if (link.number !== expected.number || link.digest !== expected.digest) return { last, brokenAt: last.number + 1 };
    last = expected;
  }
  return { last, brokenAt: null };
}
