/**
 * How much of a life is its own: extents that no point shares, hence were written since the last one. It holds after a restart;
 * where a point was deleted it says too much, never too little.
 */
import { open } from 'node:fs/promises';
import { extentsOf } from './extents.ts';
import { PageChoice } from './own-nodes.ts';

interface OwnBytes {
  readonly bytes: number;
  readonly extents: number;
  /** Some of its own, in places that are apart. */
  readonly pages: readonly number[];
}

/** Bytes of the file that no other file shares, and in how many extents all of it lies. What is still dirty is not seen. */
export async function ownBytes(path: string): Promise<OwnBytes> {
  await using file = await open(path, 'r');
  let [bytes, extents] = [0, 0];
  const choice = new PageChoice();
  for await (const some of extentsOf(file.fd, path)) {
    extents += some.length;
    choice.see(some);
    for (const { shared, length } of some) if (!shared) bytes += length;
  }
  return { bytes, extents, pages: choice.pages() };
}
