/**
 * A packed body, unpacked for the eyes of a reviewer and for nothing else: what leaves, and what the digest is of, stays as it came.
 * The body is a guest's: so no more comes out than can be shown, and nothing of what is not plainly one packed whole.
 */
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { type HeldRequest, MAX_UNPACKED_BYTES, type UnpackedBody } from '@space/core';

type Unpacker = Transform & { readonly bytesWritten: number };

const UNPACKERS: Readonly<Record<string, () => Unpacker>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};

/** Null: it is not packed, or not in a way that can be told. */
export async function unpack({ headers, body }: Pick<HeldRequest, 'headers' | 'body'>): Promise<UnpackedBody | null> {
  const said = headers.filter(([name]) => name.toLowerCase() === 'content-encoding').map(([, value]) => value);
  const coding = said.length === 1 ? (said[0] ?? '').trim().toLowerCase() : '';
  const make = Object.hasOwn(UNPACKERS, coding) ? UNPACKERS[coding] : undefined;
  if (make === undefined || body.length === 0) return null;
  const unpacker = make();
  try {
    unpacker.end(body);
    const { bytes, isWhole } = await atMost(unpacker, MAX_UNPACKED_BYTES);
    // Bytes behind its end are read by some and not by others.
    if (isWhole && unpacker.bytesWritten !== body.length) return null;
    return { bytes, isWhole, coding };
  } catch {
    return null;
  } finally {
    unpacker.destroy();
  }
}

async function atMost(
  stream: Transform,
  length: number,
): Promise<{ readonly bytes: Buffer; readonly isWhole: boolean }> {
  const parts: Buffer[] = [];
  let left = length;
  for await (const part of stream as AsyncIterable<Buffer>) {
    parts.push(part.subarray(0, left));
    if (part.length > left) return { bytes: Buffer.concat(parts), isWhole: false };
    left -= part.length;
  }
  return { bytes: Buffer.concat(parts), isWhole: true };
}
