/**
 * Gives a life nodes of its own before it needs them. After a point it shares with that all nodes of the file system, which tell where its bytes
 * lie. The first write beneath a shared one has the kernel note one more reference for each piece that the node tells of, in the transaction
 * that the next point waits for; with hundreds of points that is most of what a pause takes. What a guest wrote before a point it mostly writes again
 * after it. So a page in each such node is told to be as it is in the point, which makes the node the life's own.
 *
 * Only ahead of time: whatever is not done yet, or fails, the next point does. No byte of a file changes, and nothing counts as changed. A few
 * nodes at a time, each time committed, so that whoever commits meanwhile waits for no more; one life at a time; and it ends when that life is
 * asked for its next point.
 */
import type { LifeId, SnapshotId, VaultFile } from '@space/core';
import type { Extent } from './extents.ts';
import { PAGE_BYTES } from './kernel.ts';
import { Lane } from './lane.ts';

/** Pieces of a file, so many that a node of 4 KiB, which tells of up to 51, rarely has none of its own in each. */
const PIECES = 20;
/** Of one file. Who writes all over a large memory pays for the rest with its points, as it would for all. */
const MOST_PAGES = 512;
const AT_ONCE = 16;
/** Until a guest runs on after its point. One that ends does not go on, and is stopped before. */
const AFTER_POINT_MS = 30;
/** Until one that was restored has done its first work, which has both processors. */
const AFTER_START_MS = 400;
/** Points of which it is known what had been written before them. */
const KNOWN_POINTS = 256;

export type Pages = Readonly<Record<VaultFile, readonly number[]>>;

export interface NodeKeeper {
  /** Has pages noted anew where they are as in the point, and commits. */
  part(lifeId: LifeId, snapshotId: SnapshotId, file: VaultFile, pages: readonly number[]): Promise<void>;
}

/** Chooses, of the extents of a file as they follow one another, a page that was written last in each stretch. */
export class PageChoice {
  readonly #pages: number[] = [];
  #seen = 0;
  #smallest: Extent | null = null;

  see(extents: readonly Extent[]): void {
    for (const extent of extents) {
      // The smallest is not cut in two by it.
      if (!extent.shared && extent.length < (this.#smallest?.length ?? Number.POSITIVE_INFINITY))
        this.#smallest = extent;
      this.#seen += 1;
      if (this.#seen % PIECES === 0) this.#choose();
    }
  }

  pages(): readonly number[] {
    this.#choose();
    return this.#pages;
  }

  #choose(): void {
    if (this.#smallest !== null && this.#pages.length < MOST_PAGES)
      this.#pages.push(this.#smallest.offset / PAGE_BYTES);
    this.#smallest = null;
  }
}

export class OwnNodes {
  readonly #keeper: NodeKeeper;
  readonly #written = new Map<LifeId, Pages>();
  readonly #before = new Map<SnapshotId, Pages>();
  readonly #turns = new Map<LifeId, { ended: boolean; readonly timer: NodeJS.Timeout }>();
  readonly #lane = new Lane(1);

  constructor(keeper: NodeKeeper) {
    this.#keeper = keeper;
  }

  /** What was written since the last point, as it was counted before the next one. */
  wrote(lifeId: LifeId, pages: Pages): void {
    this.#written.set(lifeId, pages);
  }

  /** The life has its point, and goes on unless it is stopped. */
  sealed(lifeId: LifeId, snapshotId: SnapshotId): void {
    const pages = this.#written.get(lifeId);
    if (pages === undefined) return;
    this.#written.delete(lifeId);
    this.#before.set(snapshotId, pages);
    const oldest = this.#before.size > KNOWN_POINTS ? this.#before.keys().next().value : undefined;
    if (oldest !== undefined) this.#before.delete(oldest);
    this.#begin(lifeId, snapshotId, AFTER_POINT_MS);
  }

  /** The life was made of the point. */
  made(lifeId: LifeId, snapshotId: SnapshotId): void {
    this.#begin(lifeId, snapshotId, AFTER_START_MS);
  }

  /** Before its next point, or its end: what is under way does not go on. */
  stop(lifeId: LifeId): void {
    const turn = this.#turns.get(lifeId);
    if (turn === undefined) return;
    turn.ended = true;
    clearTimeout(turn.timer);
    this.#turns.delete(lifeId);
  }

  forget(lifeId: LifeId): void {
    this.stop(lifeId);
    this.#written.delete(lifeId);
  }

  #begin(lifeId: LifeId, snapshotId: SnapshotId, afterMs: number): void {
    this.stop(lifeId);
    const pages = this.#before.get(snapshotId);
    if (pages === undefined) return;
    const begin = () => void this.#part(lifeId, snapshotId, pages, turn).catch(() => undefined);
    const turn = { ended: false, timer: setTimeout(begin, afterMs).unref() };
    this.#turns.set(lifeId, turn);
  }

  async #part(lifeId: LifeId, snapshotId: SnapshotId, pages: Pages, turn: { readonly ended: boolean }): Promise<void> {
    for (const file of ['memory', 'disk'] as const) {
      for (let first = 0; first < pages[file].length; first += AT_ONCE) {
        const some = pages[file].slice(first, first + AT_ONCE);
        await this.#lane.run(async () => {
          if (!turn.ended) await this.#keeper.part(lifeId, snapshotId, file, some);
        });
        if (turn.ended) return;
      }
    }
  }
}
