/** Lists, page by page. */
import { decodeCursor, type PageRequest } from '@space/control';
import { type SelectQueryBuilder, sql } from 'kysely';

/** Newest first, and up to one more than the page holds. `time` and `id` are the columns that a cursor is made of. */
export function newestFirst<DB, T extends keyof DB, O>(
  query: SelectQueryBuilder<DB, T, O>,
  { limit, cursor }: PageRequest,
  time = 'created_at',
  id = 'id',
): SelectQueryBuilder<DB, T, O> {
  const [at, key] = [sql.ref(time), sql.ref(id)];
  const ordered = query
    .orderBy(at, 'desc')
    .orderBy(key, 'desc')
    .limit(limit + 1);
  if (cursor === undefined) return ordered;
  const after = decodeCursor(cursor);
  return ordered.where(sql<boolean>`(${at}, ${key}) < (${after.at}, ${after.id})`);
}
