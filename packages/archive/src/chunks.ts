/**
 * Chunks of one space: packed on their way out, unpacked and checked on their way in. With a key, pieces are sealed too, and named by
 * keyed digests. Tables never are: they hold names alone, which tell nothing, and a collection reads them without a key.
 */
import { AppError, type Archive, type Digest, type KeyBytes, type Packer, type ProjectId } from '@space/core';
import type { ArchivedFile } from './format.ts';
import { THREAD_PACKER } from './packer.ts';
import { ArchiveSealer } from './piece-seal.ts';
import { digestOf, isZeros, PIECE_BYTES, PieceTable, partsOf } from './pieces.ts';

/** What packing and sealing may add to bytes that do not get smaller. */
const MAX_CHUNK_BYTES = PIECE_BYTES + 4096;

export interface ChunkPlan {
  readonly archive: Archive;
  readonly space: ProjectId;
  /** Left out: threads. */
  readonly packer?: Packer;
  /** Of the archives; it is not wiped here. Left out or null: they are not encrypted. */
  readonly key?: KeyBytes | null;
  readonly signal?: AbortSignal;
}

interface Sent {
  readonly digest: Digest | null;
  readonly sentBytes: number;
}

export class Chunks {
  readonly #archive: Archive;
  readonly #space: ProjectId;
  readonly #packer: Packer;
  readonly #sealer: ArchiveSealer | null;
  readonly #signal: AbortSignal | undefined;

  constructor({ archive, space, packer = THREAD_PACKER, key = null, signal }: ChunkPlan) {
    this.#sealer = key === null ? null : new ArchiveSealer(key, space);
    this.#archive = archive;
    this.#space = space;
    this.#packer = packer;
    this.#signal = signal;
  }

  /** Null for zeros, of which nothing is kept; else its digest, and how many bytes were sent: 0 when it lies there. */
  put(bytes: Uint8Array): Promise<Sent> {
    return this.#put(bytes, this.#sealer);
  }

  /** Throws `archive_damaged` when it is missing, or is not what its name says. */
  async get(digest: Digest, length: number): Promise<Uint8Array> {
    const sealer = this.#sealer;
    if (sealer === null) return this.#getPlain(digest, length);
    const packed = sealer.openPiece(digest, await this.#fetch(digest));
    if (packed === null) throw damaged(digest, 'does not open as what it is named');
    return this.#unpack(digest, packed, length);
  }

  async #put(bytes: Uint8Array, sealer: ArchiveSealer | null): Promise<Sent> {
    this.#signal?.throwIfAborted();
    if (isZeros(bytes)) return { digest: null, sentBytes: 0 };
    const digest = sealer === null ? digestOf(bytes) : sealer.nameOf(bytes);
    const key = { kind: 'chunk', space: this.#space, digest } as const;
    if (await this.#archive.has(key, this.#signal)) return { digest, sentBytes: 0 };
    const packed = await this.#packer.pack(bytes);
    const sent = sealer === null ? packed : sealer.sealPiece(digest, packed);
    await this.#archive.put(key, sent, this.#signal);
    return { digest, sentBytes: sent.length };
  }

  async #getPlain(digest: Digest, length: number): Promise<Uint8Array> {
    const bytes = await this.#unpack(digest, await this.#fetch(digest), length);
    if (digestOf(bytes) !== digest) throw damaged(digest, 'does not have the digest that it is named by');
    return bytes;
  }

  async #fetch(digest: Digest): Promise<Uint8Array> {
    this.#signal?.throwIfAborted();
    const key = { kind: 'chunk', space: this.#space, digest } as const;
    const bytes = await this.#archive.get(key, MAX_CHUNK_BYTES, this.#signal);
    if (bytes === null) throw damaged(digest, 'is not there');
    return bytes;
  }

  async #unpack(digest: Digest, packed: Uint8Array, length: number): Promise<Uint8Array> {
    const bytes = await this.#packer.unpack(packed, PIECE_BYTES).catch((thrown: unknown) => {
      throw damaged(digest, 'cannot be unpacked', thrown);
    });
    if (bytes.length !== length) throw damaged(digest, `holds ${bytes.length} bytes and not ${length}`);
    return bytes;
  }

  async putTable(table: PieceTable, sizeBytes: number): Promise<ArchivedFile['table']> {
    const parts: (Digest | null)[] = [];
    for (let part = 0; part < partsOf(sizeBytes); part++) parts.push((await this.#put(table.part(part), null)).digest);
    return parts;
  }

  async getTable({ sizeBytes, table }: ArchivedFile): Promise<PieceTable> {
    const whole = new PieceTable(sizeBytes);
    for (const [part, digest] of table.entries()) {
      const place = whole.part(part);
      if (digest !== null) place.set(await this.#getPlain(digest, place.length));
    }
    return whole;
  }
}

function damaged(digest: Digest, why: string, cause?: unknown): AppError {
  const context = { detail: `A chunk of the archive ${why}: ${digest}.`, facts: { chunk: digest } };
  return new AppError('archive_damaged', context, cause === undefined ? undefined : { cause });
}
