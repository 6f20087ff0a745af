/** Chunks of one space: packed on their way out, unpacked and checked on their way in. */
import { AppError, type Archive, type Digest, type Packer, type ProjectId } from '@space/core';
import type { ArchivedFile } from './format.ts';
import { THREAD_PACKER } from './packer.ts';
import { digestOf, isZeros, PIECE_BYTES, PieceTable, partsOf } from './pieces.ts';

/** What packing may add to bytes that do not get smaller. */
const MAX_CHUNK_BYTES = PIECE_BYTES + 4096;

export interface ChunkPlan {
  readonly archive: Archive;
  readonly space: ProjectId;
  /** Left out: threads. */
  readonly packer?: Packer;
  readonly signal?: AbortSignal;
}

export class Chunks {
  readonly #archive: Archive;
  readonly #space: ProjectId;
  readonly #packer: Packer;
  readonly #signal: AbortSignal | undefined;

  constructor({ archive, space, packer = THREAD_PACKER, signal }: ChunkPlan) {
    this.#archive = archive;
    this.#space = space;
    this.#packer = packer;
    this.#signal = signal;
  }

  /** Null for zeros, of which nothing is kept; else its digest, and how many bytes were sent: 0 when it lies there. */
  async put(bytes: Uint8Array): Promise<{ readonly digest: Digest | null; readonly sentBytes: number }> {
    this.#signal?.throwIfAborted();
    if (isZeros(bytes)) return { digest: null, sentBytes: 0 };
    const digest = digestOf(bytes);
    const key = { kind: 'chunk', space: this.#space, digest } as const;
    if (await this.#archive.has(key, this.#signal)) return { digest, sentBytes: 0 };
    const packed = await this.#packer.pack(bytes);
    await this.#archive.put(key, packed, this.#signal);
    return { digest, sentBytes: packed.length };
  }

  /** Throws `archive_damaged` when it is missing, or is not what its name says. */
  async get(digest: Digest, length: number): Promise<Uint8Array> {
    this.#signal?.throwIfAborted();
    const packed = await this.#archive.get(
      { kind: 'chunk', space: this.#space, digest },
      MAX_CHUNK_BYTES,
      this.#signal,
    );
    if (packed === null) throw damaged(digest, 'is not there');
    const bytes = await this.#packer.unpack(packed, PIECE_BYTES).catch((thrown: unknown) => {
      throw damaged(digest, 'cannot be unpacked', thrown);
    });
    if (bytes.length !== length) throw damaged(digest, `holds ${bytes.length} bytes and not ${length}`);
    if (digestOf(bytes) !== digest) throw damaged(digest, 'does not have the digest that it is named by');
    return bytes;
  }

  async putTable(table: PieceTable, sizeBytes: number): Promise<ArchivedFile['table']> {
    const parts: (Digest | null)[] = [];
    for (let part = 0; part < partsOf(sizeBytes); part++) parts.push((await this.put(table.part(part))).digest);
    return parts;
  }

  async getTable({ sizeBytes, table }: ArchivedFile): Promise<PieceTable> {
    const whole = new PieceTable(sizeBytes);
    for (const [part, digest] of table.entries()) {
      const place = whole.part(part);
      if (digest !== null) place.set(await this.get(digest, place.length));
    }
    return whole;
  }
}

function damaged(digest: Digest, why: string, cause?: unknown): AppError {
  const context = { detail: `A chunk of the archive ${why}: ${digest}.`, facts: { chunk: digest } };
  return new AppError('archive_damaged', context, cause === undefined ? undefined : { cause });
}
