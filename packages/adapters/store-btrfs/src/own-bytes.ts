/**
 * How much of a life is its own: extents that no point shares, hence were written since the last one. Any user may ask for it,
 * and it holds after a restart; where a point was deleted it says too much, never too little. Layouts are those of the
 * kernel's `linux/fiemap.h`.
 */
import { open } from 'node:fs/promises';
import { ioctl } from './kernel.ts';

const FIEMAP = 0xc020_660b;
const HEAD_BYTES = 32;
const EXTENT_BYTES = 56;
const EXTENTS_PER_CALL = 4096;

const START_OFFSET = 0;
const LENGTH_OFFSET = 8;
const MAPPED_OFFSET = 20;
const ROOM_OFFSET = 24;
const MAX_U64 = 2n ** 64n - 1n;

const EXTENT_LENGTH_OFFSET = 16;
const EXTENT_FLAGS_OFFSET = 40;
const LAST = 0x1;
/** Allocated and never written. */
const UNWRITTEN = 0x800;
const SHARED = 0x2000;

/** Bytes of the file that no other file shares. What is still dirty is not seen. */
export async function ownBytes(path: string): Promise<number> {
  await using file = await open(path, 'r');
  const argument = Buffer.alloc(HEAD_BYTES + EXTENTS_PER_CALL * EXTENT_BYTES);
  let bytes = 0;
  for (let start = 0n; ; ) {
    argument.fill(0, 0, HEAD_BYTES);
    argument.writeBigUInt64LE(start, START_OFFSET);
    argument.writeBigUInt64LE(MAX_U64 - start, LENGTH_OFFSET);
    argument.writeUInt32LE(EXTENTS_PER_CALL, ROOM_OFFSET);
    await ioctl(file.fd, 'FIEMAP', FIEMAP, argument, path);
    const count = argument.readUInt32LE(MAPPED_OFFSET);
    if (count === 0) return bytes;
    for (let index = 0; index < count; index += 1) {
      const at = HEAD_BYTES + index * EXTENT_BYTES;
      const length = argument.readBigUInt64LE(at + EXTENT_LENGTH_OFFSET);
      const flags = argument.readUInt32LE(at + EXTENT_FLAGS_OFFSET);
      if ((flags & (SHARED | UNWRITTEN)) === 0) bytes += Number(length);
      if ((flags & LAST) !== 0) return bytes;
      start = argument.readBigUInt64LE(at) + length;
    }
  }
}
