/**
 * A file as pieces of one length. The table of a file is the digests of its pieces, one after another, 32 zero bytes for a
 * piece of nothing but zeros; a table is itself kept as pieces.
 */
import { hash } from 'node:crypto';
import type { Digest } from '@space/core';

/** Small enough that a page that changed costs little, large enough that storage is not asked too often. */
export const PIECE_BYTES = 256 * 1024;
const DIGEST_BYTES = 32;
const PIECES_PER_PART = PIECE_BYTES / DIGEST_BYTES;
/** As in a vault: far above any of ours. */
export const MAX_DEVICE_STATE_BYTES = 64 * 2 ** 20;

const ZEROS = Buffer.alloc(PIECE_BYTES);

function piecesOf(sizeBytes: number): number {
  return Math.ceil(sizeBytes / PIECE_BYTES);
}

/** Of a table. */
export function partsOf(sizeBytes: number): number {
  return Math.ceil(piecesOf(sizeBytes) / PIECES_PER_PART);
}

export function pieceLength(sizeBytes: number, piece: number): number {
  return Math.min(PIECE_BYTES, sizeBytes - piece * PIECE_BYTES);
}

export function isZeros(bytes: Uint8Array): boolean {
  return ZEROS.subarray(0, bytes.length).equals(bytes);
}

export function digestOf(bytes: Uint8Array): Digest {
  return hash('sha256', bytes, 'hex') as Digest;
}

/** Null stands for zeros. */
export class PieceTable {
  readonly #bytes: Buffer;

  constructor(sizeBytes: number) {
    this.#bytes = Buffer.alloc(piecesOf(sizeBytes) * DIGEST_BYTES);
  }

  get(piece: number): Digest | null {
    const digest = this.#bytes.subarray(piece * DIGEST_BYTES, (piece + 1) * DIGEST_BYTES);
    return isZeros(digest) ? null : (digest.toString('hex') as Digest);
  }

  set(piece: number, digest: Digest | null): void {
    if (digest === null) this.#bytes.fill(0, piece * DIGEST_BYTES, (piece + 1) * DIGEST_BYTES);
    else this.#bytes.write(digest, piece * DIGEST_BYTES, 'hex');
  }

  get pieces(): number {
    return this.#bytes.length / DIGEST_BYTES;
  }

  /** As it is kept. A view: what is written to it is written to the table. */
  part(part: number): Buffer {
    return this.#bytes.subarray(part * PIECE_BYTES, (part + 1) * PIECE_BYTES);
  }
}
