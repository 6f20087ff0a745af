/** Changes that wait for no disk. */
import { sql } from 'kysely';

/**
 * Returned by a statement that is a transaction by itself: it is on the disk with the next transaction that is waited for, of any
 * connection, since all share one log.
 */
export const waitForNoDisk = sql<string>`set_config('synchronous_commit', 'off', true)`.as('durability');
