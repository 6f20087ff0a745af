/**
 * How much a vault can still take. `statfs` alone overpromises: Btrfs hands out its device in block groups of data or
 * metadata, and is full as soon as either cannot grow, however much the other has left. A loop file overpromises too:
 * its host may have less room than the file claims.
 *
 * Each running VM may rewrite its whole memory after a snapshot, and each page then needs a new block; a page that finds
 * none kills the VM. So the memory of every life is held in reserve, and whoever wants space gets what is beyond it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, type LifeId, spaceMarks, type VaultSpace } from '@space/core';
import type { BlockGroupSpace } from './allocation.ts';
import { syncFileSystem } from './btrfs.ts';

/** Metadata written per byte of data under frequent snapshots: 0.07 was measured, rounded up to 1/12. */
const METADATA_PER_DATA_BYTE = 1 / 12;
/** Metadata that stays free for deletions and commits: the smaller of 16 MiB and 1 % of the vault. */
const METADATA_FLOOR_BYTES = 16 * 1024 * 1024;
/** Given to the kernel's cleaner before space is said to be short; it drops a snapshot of 512 MB in less. */
const CLEANER_WAIT_MS = 250;

export interface AllocatorFacts {
  readonly deviceBytes: number;
  readonly groups: readonly BlockGroupSpace[];
  /** Free on the file system that holds the loop file; infinite for a device. */
  readonly hostFreeBytes: number;
}

/** The data bytes that can surely be written: neither data, nor the metadata that comes with it, nor the host runs out. */
export function availableBytes({ deviceBytes, groups, hostFreeBytes }: AllocatorFacts): number {
  let allocated = 0;
  let freeData = 0;
  let freeMetadata = 0;
  let metadataCopies = 1;
  for (const { kind, copies, totalBytes, usedBytes } of groups) {
    if (kind !== 'global_reserve') allocated += totalBytes * copies;
    if (kind === 'data') freeData += totalBytes - usedBytes;
    if (kind === 'metadata') {
      freeMetadata += totalBytes - usedBytes;
      metadataCopies = copies;
    }
    if (kind === 'global_reserve') freeMetadata -= totalBytes - usedBytes;
  }
  const unallocated = Math.max(0, deviceBytes - allocated);
  const spareMetadata = freeMetadata - Math.min(METADATA_FLOOR_BYTES, deviceBytes / 100);
  // Data x needs x/12 of metadata: from what is free, the rest from the unallocated, `metadataCopies` times.
  const room = freeData + unallocated;
  const metadataShare = METADATA_PER_DATA_BYTE * metadataCopies;
  const ifMetadataGrows = (room + spareMetadata * metadataCopies) / (1 + metadataShare);
  const ifMetadataIsFull = (spareMetadata + unallocated / metadataCopies) / METADATA_PER_DATA_BYTE;
  return Math.max(0, Math.floor(Math.min(room, ifMetadataGrows, ifMetadataIsFull, hostFreeBytes)));
}

/** The memory of every life, promised to it until it is deleted. */
export class SpaceReserve {
  readonly #memoryBytes = new Map<LifeId, number>();
  readonly #root: string;
  readonly #measure: () => VaultSpace;

  constructor(root: string, measure: () => VaultSpace) {
    this.#root = root;
    this.#measure = measure;
  }

  /**
   * Held before anything is checked, so that two who ask at once do not both get the last bytes. Throws `name_taken` when
   * the life has its share already.
   */
  hold(lifeId: LifeId, memoryBytes: number): void {
    if (this.#memoryBytes.has(lifeId)) throw new AppError('name_taken', `The life ${lifeId} exists already.`);
    this.#memoryBytes.set(lifeId, memoryBytes);
  }

  release(lifeId: LifeId): void {
    this.#memoryBytes.delete(lifeId);
  }

  /** Throws `insufficient_space` unless all that is promised, and `extraBytes`, would still fit. */
  async require(doing: string, extraBytes = 0): Promise<void> {
    const short = this.#shortage(extraBytes) && (await this.#reclaimed(extraBytes));
    if (!short) return;
    const { availableBytes: available, neededBytes: needed, promisedBytes: promised } = short;
    throw new AppError('insufficient_space', {
      detail: `The vault can take ${available} more bytes, but ${doing} needs ${needed} to be free, ${promised} of them for the memory of running sandboxes.`,
      facts: { ...short },
    });
  }

  /** Nothing new is let in where what runs would soon have to stand still. */
  #shortage(extraBytes: number): Shortage | undefined {
    const space = this.#measure();
    const promisedBytes = this.#memoryBytes.values().reduce((sum, bytes) => sum + bytes, 0);
    const neededBytes = promisedBytes + extraBytes + spaceMarks(space.totalBytes).writersBytes;
    if (space.availableBytes >= neededBytes) return undefined;
    return { availableBytes: space.availableBytes, neededBytes, promisedBytes };
  }

  async #reclaimed(extraBytes: number): Promise<Shortage | undefined> {
    await reclaim(this.#root);
    return this.#shortage(extraBytes);
  }
}

/** Lets deletions and rewrites have their effect: the cleaner frees blocks, and the commit after it counts them. */
export async function reclaim(root: string): Promise<void> {
  await syncFileSystem(root);
  await sleep(CLEANER_WAIT_MS);
  await syncFileSystem(root);
}

interface Shortage {
  readonly availableBytes: number;
  readonly neededBytes: number;
  readonly promisedBytes: number;
}
