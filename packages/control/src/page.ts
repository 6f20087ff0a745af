/**
 * Cursors: lists are ordered newest first by (time, id), and a cursor is the pair of the last item, in base64url. It stays
 * right while items come and go, unlike an offset.
 */
import { AppError } from '@space/core';
import type { Page, PageRequest } from './records.ts';

export interface Position {
  readonly at: Date;
  readonly id: string;
}

function encodeCursor({ at, id }: Position): string {
  return Buffer.from(`${at.getTime()} ${id}`).toString('base64url');
}

/** Throws `bad_request`. */
export function decodeCursor(cursor: string): Position {
  const [, time, id] = /^(\d{1,15}) ([a-z0-9_]{1,40})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (time === undefined || id === undefined) throw new AppError('bad_request', 'The cursor is not one of ours.');
  return { at: new Date(Number(time)), id };
}

/** The page of `rows`, which hold up to limit + 1 items in order. */
export function pageOf<T extends { readonly id: string }>(
  rows: readonly T[],
  limit: number,
  timeOf: (row: T) => Date,
): Page<T> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  const next = rows.length > limit && last !== undefined ? encodeCursor({ at: timeOf(last), id: last.id }) : null;
  return { items, next };
}

/** Orders, skips and cuts in memory. */
export function paginate<T extends { readonly id: string }>(
  all: readonly T[],
  { limit, cursor }: PageRequest,
  timeOf: (row: T) => Date,
): Page<T> {
  const after = cursor === undefined ? null : decodeCursor(cursor);
  const older = (row: T, than: Position) => {
    const difference = timeOf(row).getTime() - than.at.getTime();
    return difference < 0 || (difference === 0 && row.id < than.id);
  };
  const ordered = all.toSorted((a, b) => (older(a, { at: timeOf(b), id: b.id }) ? 1 : -1));
  const rest = after === null ? ordered : ordered.filter((row) => older(row, after));
  return pageOf(rest, limit, timeOf);
}
