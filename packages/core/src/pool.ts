/**
 * What the pool of ready sandboxes does next, and which of its members go first. A *kind* is one ready snapshot, so one
 * vault, template and size; a *member* is a microVM started from it that nobody owns yet. Pure: the node does it.
 *
 * Members are a convenience, and take only what nobody wants: filling leaves room for another sandbox of the size beside the
 * member, and when memory is wanted members go, those first whose kind was asked for the longest ago.
 *
 * Vaults share the pool: where there are several, nothing is kept for one in which nobody creates, though it is open; and what has no
 * member at all gets one in the place of another vault's second.
 */
import type { VaultName } from './ids.ts';

/** Of one kind, however often it is asked for: each takes memory, and the processors while it is filled. */
export const MAX_MEMBERS = 4;
/** So many are kept as were asked for in this time, and at least one. */
const DEMAND_MS = 10 * 60_000;
/** A kind that nobody asked for in this time is not kept ready. */
const KEPT_MS = 60 * 60_000;
const FIRST_BACKOFF_MS = 5_000;
const MAX_BACKOFF_MS = 5 * 60_000;

/** Times are on the monotonic clock. */
export interface PoolKind<K> {
  readonly key: K;
  readonly vault: VaultName;
  /** What one member takes, its VMM included. */
  readonly needMib: number;
  /** Ready, or being filled. */
  readonly members: number;
  readonly knownAtMs: number;
  /** The last times at which a create asked for it. */
  readonly askedAtMs: readonly number[];
  /** How many fills failed in a row, and when the last did. */
  readonly failures: number;
  readonly failedAtMs: number;
}

export interface PoolRoom {
  /** What all members together may take; 0: there is no pool. */
  readonly budgetMib: number;
  readonly takenMib: number;
  /** Of the node's memory, promised to nobody and taken by no member. */
  readonly freeMib: number;
}

export type PoolStep<K> = { readonly kind: 'fill' | 'give_up'; readonly key: K };

/** Null: all is as it should be, for now. */
export function nextPoolStep<K>(kinds: readonly PoolKind<K>[], room: PoolRoom, nowMs: number): PoolStep<K> | null {
  const inUse = vaultsInUse(kinds, nowMs);
  const wanted = new Map(kinds.map((kind) => [kind.key, inUse.has(kind.vault) ? wantedOf(kind, nowMs) : 0]));
  const wantedHere = ({ key }: PoolKind<K>) => wanted.get(key) ?? 0;
  const surplus = kinds.find((kind) => kind.members > wantedHere(kind));
  if (surplus !== undefined) return { kind: 'give_up', key: surplus.key };
  const lacking = kinds
    .filter((kind) => kind.members < wantedHere(kind) && mayTry(kind, nowMs))
    .toSorted((a, b) => a.members - b.members || lastWantedMs(b) - lastWantedMs(a));
  const next = lacking.find((kind) => fits(kind, room));
  if (next !== undefined) return { kind: 'fill', key: next.key };
  const [poorest] = lacking;
  const richest = poorest?.members === 0 ? richestBeside(poorest, kinds, room) : undefined;
  return richest === undefined ? null : { kind: 'give_up', key: richest.key };
}

/** Those in which somebody creates; where there is only one, that one. */
function vaultsInUse(kinds: readonly PoolKind<unknown>[], nowMs: number): ReadonlySet<VaultName> {
  const all = new Set(kinds.map(({ vault }) => vault));
  if (all.size <= 1) return all;
  const isAsked = ({ askedAtMs }: PoolKind<unknown>) =>
    nowMs - (askedAtMs.at(-1) ?? Number.NEGATIVE_INFINITY) <= KEPT_MS;
  return new Set(kinds.filter(isAsked).map(({ vault }) => vault));
}

/** Of another vault, with more than one member, without one of which there is room for the first of this kind. */
function richestBeside<K>(poor: PoolKind<K>, kinds: readonly PoolKind<K>[], room: PoolRoom): PoolKind<K> | undefined {
  const without = ({ needMib }: PoolKind<K>) => {
    return { ...room, takenMib: room.takenMib - needMib, freeMib: room.freeMib + needMib };
  };
  const rich = kinds.filter((kind) => kind.vault !== poor.vault && kind.members > 1 && fits(poor, without(kind)));
  return rich.toSorted((a, b) => b.members - a.members)[0];
}

/** When a create last asked for it; of one that is new, since when it is known. Members of the earliest go first. */
export function lastWantedMs({ askedAtMs, knownAtMs }: Pick<PoolKind<unknown>, 'askedAtMs' | 'knownAtMs'>): number {
  return askedAtMs.at(-1) ?? knownAtMs;
}

function wantedOf(kind: PoolKind<unknown>, nowMs: number): number {
  if (nowMs - lastWantedMs(kind) > KEPT_MS) return 0;
  const asked = kind.askedAtMs.filter((atMs) => nowMs - atMs <= DEMAND_MS).length;
  return Math.min(MAX_MEMBERS, Math.max(1, asked));
}

function fits({ needMib }: PoolKind<unknown>, { budgetMib, takenMib, freeMib }: PoolRoom): boolean {
  return needMib <= budgetMib - takenMib && 2 * needMib <= freeMib;
}

function mayTry({ failures, failedAtMs }: PoolKind<unknown>, nowMs: number): boolean {
  if (failures === 0) return true;
  return nowMs - failedAtMs >= Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (failures - 1));
}
