/**
 * A file of nothing that is dropped when the vault is full. To pause or delete a sandbox its record is written first, so
 * a record must find room when guests have taken all of it; else nothing could be freed any more.
 */
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { commitTransaction } from './commits.ts';
import { writeSynced } from './durable.ts';
import { errnoOf } from './failures.ts';
import { BALLAST, type Layout } from './layout.ts';

const BALLAST_BYTES = 4 * 1024 * 1024;

/** Lays it, unless it lies there or there is no room for it yet. */
export async function layBallast(layout: Layout): Promise<void> {
  const path = join(layout.root, BALLAST);
  try {
    if (await isWhole(path)) return;
    await writeSynced(path, Buffer.alloc(BALLAST_BYTES));
  } catch (thrown) {
    if (errnoOf(thrown) !== 'ENOSPC') throw thrown;
    await rm(path, { force: true });
  }
}

/** Runs `write`; if it finds no room, drops the ballast and runs it once more. */
export async function withBallast(layout: Layout, write: () => Promise<void>): Promise<void> {
  try {
    await write();
  } catch (thrown) {
    if (errnoOf(thrown) !== 'ENOSPC') throw thrown;
    await rm(join(layout.root, BALLAST), { force: true });
    // Freed blocks can be used again only after the transaction that freed them.
    await commitTransaction(layout.root);
    await write();
  }
}

async function isWhole(path: string): Promise<boolean> {
  try {
    return (await stat(path)).size === BALLAST_BYTES;
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return false;
    throw thrown;
  }
}
