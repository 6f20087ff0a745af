import { randomBytes } from 'node:crypto';
import { type LifeId, newId, type SnapshotId } from '@space/core';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Extent } from './extents.ts';
import { OwnNodes, PageChoice } from './own-nodes.ts';

const PAGE = 4096;
const chance = { bytes: (count: number) => randomBytes(count) };
const newLife = (): LifeId => newId('life', chance);
const newPoint = (): SnapshotId => newId('snapshot', chance);
const extent = (page: number, pages: number, shared: boolean): Extent => {
  return { offset: page * PAGE, length: pages * PAGE, place: page * PAGE, shared };
};

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('a page is chosen in each stretch of pieces in which something was written, the smallest that was', () => {
  const choice = new PageChoice();
  const pieces = Array.from({ length: 60 }, (_, n) => extent(n * 10, 10, true));
  pieces[3] = extent(30, 4, false);
  pieces[7] = extent(70, 1, false);
  pieces[9] = extent(90, 2, false);
  pieces[59] = extent(590, 10, false);
  // As the kernel tells them, in parts.
  choice.see(pieces.slice(0, 5));
  choice.see(pieces.slice(5));
  expect(choice.pages()).toEqual([70, 590]);
});

it('no more pages are chosen of a file than its next point has time for', () => {
  const choice = new PageChoice();
  choice.see(Array.from({ length: 100_000 }, (_, n) => extent(n, 1, false)));
  expect(choice.pages()).toHaveLength(512);
});

interface Parted {
  readonly lifeId: LifeId;
  readonly snapshotId: SnapshotId;
  readonly file: string;
  readonly pages: readonly number[];
}

/** `hold`: the first turn takes until it is called. */
function world() {
  const parted: Parted[] = [];
  const releases: (() => void)[] = [];
  let [running, most] = [0, 0];
  const nodes = new OwnNodes({
    async part(lifeId, snapshotId, file, pages) {
      parted.push({ lifeId, snapshotId, file, pages });
      running += 1;
      most = Math.max(most, running);
      await new Promise<void>((resolve) => releases.push(resolve));
      running -= 1;
    },
  });
  const release = async () => {
    releases.shift()?.();
    await vi.advanceTimersByTimeAsync(0);
  };
  return { nodes, parted, release, most: () => most };
}

const upTo = (count: number) => Array.from({ length: count }, (_, n) => n);

it('after a point its life gets nodes of its own where it had written, a few at a time', async () => {
  const { nodes, parted, release } = world();
  const [lifeId, snapshotId] = [newLife(), newPoint()];
  nodes.wrote(lifeId, { memory: upTo(20), disk: [7] });
  nodes.sealed(lifeId, snapshotId);
  expect(parted).toEqual([]);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(parted).toEqual([{ lifeId, snapshotId, file: 'memory', pages: upTo(16) }]);
  for (let turn = 0; turn < 3; turn++) await release();
  expect(parted.map(({ file, pages }) => [file, ...pages])).toEqual([
    ['memory', ...upTo(16)],
    ['memory', 16, 17, 18, 19],
    ['disk', 7],
  ]);
});

it('one that ends, or is asked for its next point, gets no more; and one that starts from the point, what that life had written', async () => {
  const { nodes, parted, release } = world();
  const [paused, next, snapshotId] = [newLife(), newLife(), newPoint()];
  nodes.wrote(paused, { memory: upTo(40), disk: [] });
  nodes.sealed(paused, snapshotId);
  nodes.forget(paused);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(parted).toEqual([]);
  nodes.made(next, snapshotId);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(parted).toMatchObject([{ lifeId: next, pages: upTo(16) }]);
  nodes.stop(next);
  await release();
  expect(parted).toHaveLength(1);
});

it('lives have their turns one after the other, and one that fails holds up no other', async () => {
  const { nodes, parted, release, most } = world();
  const lives = [newLife(), newLife()];
  for (const lifeId of lives) {
    nodes.wrote(lifeId, { memory: [1], disk: [] });
    nodes.sealed(lifeId, newPoint());
  }
  await vi.advanceTimersByTimeAsync(1_000);
  expect(parted).toHaveLength(1);
  await release();
  expect(parted.map(({ lifeId }) => lifeId)).toEqual(lives);
  await release();
  expect(most()).toBe(1);

  const failing = new OwnNodes({ part: () => Promise.reject(new Error('the point is gone')) });
  const lifeId = newLife();
  failing.wrote(lifeId, { memory: upTo(40), disk: [] });
  failing.sealed(lifeId, newPoint());
  await vi.advanceTimersByTimeAsync(1_000);
});

it('of points beyond the last few hundred nothing is kept', async () => {
  const { nodes, parted } = world();
  const [lifeId, first] = [newLife(), newPoint()];
  for (const snapshotId of [first, ...upTo(256).map(newPoint)]) {
    nodes.wrote(lifeId, { memory: [1], disk: [] });
    nodes.sealed(lifeId, snapshotId);
  }
  nodes.forget(lifeId);
  nodes.made(newLife(), first);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(parted).toEqual([]);
});
