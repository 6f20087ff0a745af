/** Where the bytes of a file lie. Any user may ask, of files that it can open. Layouts are those of the kernel's `linux/fiemap.h`. */
import { ioctl } from './kernel.ts';

const FIEMAP = 0xc020_660b;
const HEAD_BYTES = 32;
const EXTENT_BYTES = 56;
const EXTENTS_PER_CALL = 4096;

const START_OFFSET = 0;
const LENGTH_OFFSET = 8;
const FLAGS_OFFSET = 16;
const MAPPED_OFFSET = 20;
const ROOM_OFFSET = 24;
const MAX_U64 = 2n ** 64n - 1n;
/** What is being written is waited for. A page may be on the disk a moment before the file knows where. */
const SYNC = 0x1;

const EXTENT_PLACE_OFFSET = 8;
const EXTENT_LENGTH_OFFSET = 16;
const EXTENT_FLAGS_OFFSET = 40;
const LAST = 0x1;
/** Not known, not written yet, packed, or inside of the metadata: then the place says nothing. */
const PLACELESS = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;
/** Allocated and never written. */
const UNWRITTEN = 0x800;
const SHARED = 0x2000;

export interface Extent {
  /** In the file. */
  readonly offset: number;
  readonly length: number;
  /** In the file system: equal for files that share it, until it is freed. Null: it has none. */
  readonly place: number | null;
  readonly shared: boolean;
}

/**
 * In the order of the file, as many at a time as the kernel told at once; holes, and what was never written, are left out. What becomes
 * dirty meanwhile is not seen.
 */
export async function* extentsOf(fd: number, path: string): AsyncGenerator<readonly Extent[], void> {
  const argument = Buffer.alloc(HEAD_BYTES + EXTENTS_PER_CALL * EXTENT_BYTES);
  for (let start = 0n; ; ) {
    argument.fill(0, 0, HEAD_BYTES);
    argument.writeBigUInt64LE(start, START_OFFSET);
    argument.writeBigUInt64LE(MAX_U64 - start, LENGTH_OFFSET);
    argument.writeUInt32LE(start === 0n ? SYNC : 0, FLAGS_OFFSET);
    argument.writeUInt32LE(EXTENTS_PER_CALL, ROOM_OFFSET);
    await ioctl(fd, 'FIEMAP', FIEMAP, argument, path);
    const count = argument.readUInt32LE(MAPPED_OFFSET);
    if (count === 0) return;
    const extents: Extent[] = [];
    let flags = 0;
    for (let index = 0; index < count; index += 1) {
      const at = HEAD_BYTES + index * EXTENT_BYTES;
      const [offset, length] = [readU64(argument, at), readU64(argument, at + EXTENT_LENGTH_OFFSET)];
      flags = argument.readUInt32LE(at + EXTENT_FLAGS_OFFSET);
      start = BigInt(offset + length);
      if ((flags & UNWRITTEN) !== 0) continue;
      const place = (flags & PLACELESS) === 0 ? readU64(argument, at + EXTENT_PLACE_OFFSET) : null;
      extents.push({ offset, length, place, shared: (flags & SHARED) !== 0 });
    }
    yield extents;
    if ((flags & LAST) !== 0) return;
  }
}

/** Exact up to 2⁵³, which no file and no vault of ours reaches. A `bigint` for each of thousands of extents takes longer. */
function readU64(from: Buffer, at: number): number {
  return from.readUInt32LE(at) + from.readUInt32LE(at + 4) * 2 ** 32;
}
