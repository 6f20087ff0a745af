/**
 * Which pieces the indexes of a space name. An index is what its digest says, for ever, so what one names is read once: all that are
 * there already before a collection has the space to itself, which then reads the few that came meanwhile.
 *
 * One of which something is missing or damaged names less than it once may, when that has been sent again: so it is read each time, and
 * what it names is not kept.
 */
import { AppError, type Archive, type ArchiveKey, type Digest, type ProjectId } from '@space/core';
import { type ChunkPlan, Chunks } from './chunks.ts';
import { type ArchivedFile, MAX_INDEX_BYTES } from './format.ts';
import { digestOf } from './pieces.ts';
import { outlineOf } from './sealed-index.ts';

export interface NamesPlan extends ChunkPlan {
  readonly archive: Archive;
  readonly space: ProjectId;
}

/** Asked before each thing that is read; false: reading ends. */
type GoesOn = () => Promise<boolean>;

export class Names {
  readonly #plan: NamesPlan;
  readonly #chunks: Chunks;
  readonly #read = new Set<string>();
  readonly #named = new Set<string>();

  constructor(plan: NamesPlan) {
    this.#plan = plan;
    this.#chunks = new Chunks(plan);
  }

  /**
   * All that is named now, and by indexes that have gone since the last call. Null: it was not to go on.
   * Throws `archive_unsupported` for an index that is whole and of no known format: it may be a later version's.
   */
  async all(goesOn: GoesOn): Promise<{ has(digest: Digest): boolean } | null> {
    const { archive, space, signal } = this.#plan;
    const passing: Set<string>[] = [];
    for await (const key of archive.list(space, 'indexes', signal)) {
      if (key.kind !== 'index' || this.#read.has(shortOf(key.digest))) continue;
      if (!(await goesOn())) return null;
      const found = await this.#namedBy(key, goesOn);
      if (found === null) return null;
      if (!found.isWhole) passing.push(found.names);
      else {
        this.#read.add(shortOf(key.digest));
        for (const name of found.names) this.#named.add(name);
      }
    }
    return {
      has: (digest) => {
        const name = shortOf(digest);
        return this.#named.has(name) || passing.some((names) => names.has(name));
      },
    };
  }

  /** An index that is not what its name says can never be imported, and names nothing. */
  async #namedBy(key: ArchiveKey & { readonly digest: Digest }, goesOn: GoesOn) {
    const { archive, signal } = this.#plan;
    const names = new Set<string>();
    const bytes = await archive.get(key, MAX_INDEX_BYTES, signal).catch(unlessDamaged);
    if (bytes === null || digestOf(bytes) !== key.digest) return { names, isWhole: false };
    let isWhole = true;
    for (const file of outlineOf(bytes).files) {
      if (!(await goesOn())) return null;
      if (!(await this.#nameAll(file, names))) isWhole = false;
    }
    return { names, isWhole };
  }

  /** Whether all was there. A part of a table that was read names nothing new. */
  async #nameAll(file: ArchivedFile, names: Set<string>): Promise<boolean> {
    const parts = file.table.filter((digest) => digest !== null).map(shortOf);
    const isNew = parts.some((part) => !this.#named.has(part) && !names.has(part));
    for (const part of parts) names.add(part);
    if (!isNew) return true;
    const table = await this.#chunks.getTable(file).catch(unlessDamaged);
    for (let piece = 0; table !== null && piece < table.pieces; piece++) {
      const digest = table.get(piece);
      if (digest !== null) names.add(shortOf(digest));
    }
    return table !== null;
  }
}

/** Half the bytes that the text takes: there may be millions. */
function shortOf(digest: Digest): string {
  return Buffer.from(digest, 'hex').toString('latin1');
}

function unlessDamaged(thrown: unknown): null {
  if (thrown instanceof AppError && thrown.code === 'archive_damaged') return null;
  throw thrown;
}
