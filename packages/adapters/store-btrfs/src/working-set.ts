/**
 * What a guest touches first. A life that comes from a point has a memory file of which nothing is cached, so its guest, as it
 * wakes, stands still at each page that it needs while one is read. But what wakes is the same kernel and agent every time:
 * the parts that the first guest of a size had touched soon after its start are read ahead for the next ones, beside their
 * restore.
 *
 * Only a hint: a guest that needs other pages is slower, and never wrong.
 */
import { open } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { cachedPages, PAGE_BYTES } from './kernel.ts';

/** A guest that has touched less is not awake yet; one that touches more at once does something of its own. */
const MIN_BYTES = 4 * 1024 * 1024;
const MAX_BYTES = 64 * 1024 * 1024;
/** Of larger guests, looking takes longer than it gains. */
const MAX_MEMORY_BYTES = 2 * 1024 ** 3;
const BLOCK_BYTES = 16 * 1024;
/** Looked at before others get their turn: a millisecond or two. */
const LOOK_BYTES = 64 * 1024 * 1024;
/** Read at once, by each of so many readers: two of libuv's four threads stay free. */
const PIECE_BYTES = 256 * 1024;
const READERS = 2;

interface Piece {
  readonly offset: number;
  readonly length: number;
}

export class WorkingSets {
  /** By the size of the memory. Learnt once: what is read ahead is cached too, so a second look would only add to it. */
  readonly #pieces = new Map<number, readonly Piece[]>();

  knows(memoryBytes: number): boolean {
    return this.#pieces.has(memoryBytes) || memoryBytes > MAX_MEMORY_BYTES;
  }

  /** Reads ahead what is known for this size. */
  async readAhead(memoryPath: string, memoryBytes: number): Promise<void> {
    const pieces = this.#pieces.get(memoryBytes);
    if (pieces === undefined) return;
    await using memory = await open(memoryPath, 'r');
    const left = pieces.values();
    // What is read goes to the page cache; the bytes themselves are not wanted.
    const nowhere = Buffer.allocUnsafe(PIECE_BYTES);
    const read = async () => {
      for (const { offset, length } of left) await memory.read(nowhere, 0, length, offset);
    };
    await Promise.all(Array.from({ length: READERS }, read));
  }

  /** Looks what is cached of a memory of which nothing was, a while ago. */
  async learn(memoryPath: string, memoryBytes: number): Promise<void> {
    if (this.knows(memoryBytes)) return;
    await using memory = await open(memoryPath, 'r');
    const blocks: number[] = [];
    for (let offset = 0; offset < memoryBytes; offset += LOOK_BYTES) {
      await nextTurn();
      const pages = cachedPages(memory.fd, offset, Math.min(LOOK_BYTES, memoryBytes - offset));
      for (let page = 0; page < pages.length; page += BLOCK_BYTES / PAGE_BYTES)
        if (pages[page] === 1) blocks.push((offset + page * PAGE_BYTES) / BLOCK_BYTES);
    }
    const pieces = piecesOf(blocks);
    const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
    if (bytes >= MIN_BYTES && bytes <= MAX_BYTES) this.#pieces.set(memoryBytes, pieces);
  }
}

/** Blocks with at most one between them are read together, up to the length of a piece. */
export function piecesOf(blocks: readonly number[]): readonly Piece[] {
  const pieces: { offset: number; length: number }[] = [];
  for (const block of blocks) {
    const end = (block + 1) * BLOCK_BYTES;
    const last = pieces.at(-1);
    const near = last !== undefined && end - (last.offset + last.length) <= 2 * BLOCK_BYTES;
    if (near && end - last.offset <= PIECE_BYTES) last.length = end - last.offset;
    else pieces.push({ offset: end - BLOCK_BYTES, length: BLOCK_BYTES });
  }
  return pieces;
}
