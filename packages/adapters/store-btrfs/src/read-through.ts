/**
 * Reads files through, so that the file system compares every block with its checksum: one that is damaged is an I/O error.
 * Points share most of their blocks, and each is read once in a while only. What is read is not left in the page cache.
 */
import { open } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '@space/core';
import { type Extent, extentsOf } from './extents.ts';
import { errnoOf } from './failures.ts';
import { forgetCached } from './kernel.ts';
import { Lane } from './lane.ts';

const PIECE_BYTES = 2 ** 20;
/** After each piece: at most 40 MiB a second. */
const PAUSE_MS = 25;
/** A block that was freed may hold something else by now. */
const SEEN_FOR_MS = 12 * 60 * 60_000;
/** What is seen is forgotten when it is more than this, and read again. */
const MAX_SEEN = 500_000;

export class ReadThrough {
  readonly #pauseMs: number;
  readonly #lane = new Lane(1);
  readonly #piece = Buffer.alloc(PIECE_BYTES);
  readonly #end = new AbortController();
  /** By place, how many bytes from there on have been read well. */
  readonly #seen = new Map<number, number>();
  #seenSince = 0;

  constructor({ pauseMs = PAUSE_MS } = {}) {
    this.#pauseMs = pauseMs;
  }

  /** For the whole of the vault's life: checks fail as `unavailable`. */
  stop(): void {
    this.#end.abort(new AppError('unavailable', 'The vault is being closed.'));
  }

  /** Throws a plain `Error` that says where a file is damaged. One file at a time. */
  check(path: string): Promise<void> {
    return this.#lane.run(async () => {
      this.#forgetOld();
      await using file = await open(path, 'r');
      for await (const some of extentsOf(file.fd, path)) {
        for (const extent of some) {
          if (extent.place !== null && (this.#seen.get(extent.place) ?? 0) >= extent.length) continue;
          await this.#read(file, path, extent);
          if (extent.place !== null) this.#seen.set(extent.place, extent.length);
        }
      }
    });
  }

  async #read(file: Awaited<ReturnType<typeof open>>, path: string, { offset, length }: Extent): Promise<void> {
    for (let at = offset; at < offset + length; ) {
      this.#end.signal.throwIfAborted();
      const { bytesRead } = await file
        .read(this.#piece, 0, Math.min(PIECE_BYTES, offset + length - at), at)
        .catch((thrown: unknown) => {
          if (errnoOf(thrown) !== 'EIO') throw thrown;
          throw new Error(`its ${basename(path)} is damaged at byte ${at} or within ${PIECE_BYTES} after it`);
        });
      forgetCached(file.fd, at, bytesRead);
      // The last extent of a file ends with its block, the file perhaps before.
      if (bytesRead === 0) return;
      at += bytesRead;
      await sleep(this.#pauseMs);
    }
  }

  #forgetOld(): void {
    const now = Date.now();
    if (this.#seen.size <= MAX_SEEN && now - this.#seenSince < SEEN_FOR_MS) return;
    this.#seen.clear();
    this.#seenSince = now;
  }
}
