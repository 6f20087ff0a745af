/**
 * Lists in E2B's order, with its filters and pages. Sandboxes come so from the records; of named snapshots all of a project are read,
 * up to a limit, and a page of them is shown.
 */
import type { Caller, Snapshot, UseCases } from '@space/contract';
import { E2bError } from '../errors.ts';

const OUR_PAGE = 1000;
const MAX_READ = 20_000;

export function allSnapshots(useCases: UseCases, caller: Caller): Promise<readonly Snapshot[]> {
  return readAll(async (cursor) => {
    const { snapshots, nextCursor } = await useCases.listSnapshots(caller, { limit: OUR_PAGE, ...cursor });
    return { items: snapshots, nextCursor };
  });
}

interface OurPage<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
}

async function readAll<T>(read: (cursor: { readonly cursor?: string }) => Promise<OurPage<T>>): Promise<readonly T[]> {
  const all: T[] = [];
  let cursor: { readonly cursor?: string } = {};
  for (;;) {
    const { items, nextCursor } = await read(cursor);
    all.push(...items);
    if (nextCursor === null) return all;
    if (all.length >= MAX_READ) throw new E2bError(400, `More than ${MAX_READ} cannot be listed by this API.`);
    cursor = { cursor: nextCursor };
  }
}

export type Order = 'asc' | 'desc';

export interface Keyed {
  readonly id: string;
  /** ISO 8601. */
  readonly at: string;
}

export interface AskedPage {
  readonly order: Order;
  readonly limit: number;
  readonly token: string | undefined;
}

export interface ShownPage<T> {
  readonly items: readonly T[];
  /** Undefined: it is the last. */
  readonly next: string | undefined;
}

/** Those of one instant are in the order of their ids, whichever way. */
export function pageOf<T extends Keyed>(all: readonly T[], { order, limit, token }: AskedPage): ShownPage<T> {
  const sorted = all.toSorted((a, b) => compare(a, b, order));
  const after = token === undefined ? undefined : parseToken(token, order);
  const rest = after === undefined ? sorted : sorted.filter((one) => compare(one, after, order) > 0);
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  return { items, next: rest.length > limit && last !== undefined ? tokenOf(last, order) : undefined };
}

function compare(a: Keyed, b: Keyed, order: Order): number {
  const byTime = Date.parse(a.at) - Date.parse(b.at);
  if (byTime !== 0) return order === 'asc' ? byTime : -byTime;
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}

export function tokenOf({ id, at }: Keyed, order: Order): string {
  return Buffer.from(`${at}__${id}${order === 'asc' ? '__asc' : ''}`).toString('base64url');
}

const TOKEN = /^([0-9T:.Z-]{20,30})__([a-z0-9_]{10,40}?)(__asc)?$/;

export function parseToken(token: string, order: Order): Keyed {
  const [, at, id, asc] = TOKEN.exec(Buffer.from(token, 'base64url').toString()) ?? [];
  if (
    at === undefined ||
    id === undefined ||
    Number.isNaN(Date.parse(at)) ||
    (asc !== undefined) !== (order === 'asc')
  ) {
    throw new E2bError(400, 'Invalid next token');
  }
  return { at, id };
}

/** Labels to filter by: a query in a query, escaped once more. */
export function parseMetadata(text: string): Readonly<Record<string, string>> {
  const pairs = decoded(text)
    .split('&')
    .filter((pair) => pair !== '');
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      return [decoded(at < 0 ? pair : pair.slice(0, at)), at < 0 ? '' : decoded(pair.slice(at + 1))];
    }),
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new E2bError(400, 'Invalid metadata');
  }
}
