import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { LifeId } from './ids.ts';
import { judgeSpace, mayGoOn, spaceMarks, type WatchedLife } from './space.ts';

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
const TOTAL = 100 * GIB;
const { edgeBytes, restBytes, writersBytes, calmBytes } = spaceMarks(TOTAL);

function life(name: string, overrides: Partial<WatchedLife> = {}): WatchedLife {
  return { lifeId: `lif_${name}` as LifeId, memoryBytes: GIB, stopped: null, writtenBytes: 0, ...overrides };
}
const judge = (availableBytes: number, lives: readonly WatchedLife[], totalBytes = TOTAL) =>
  judgeSpace({ totalBytes, availableBytes }, lives);

describe('a vault that runs out of space', () => {
  it('is short as soon as less is left than the memory of its lives', () => {
    expect(judge(2 * GIB + writersBytes, [life('a'), life('b')])).toMatchObject({ short: false, stop: [] });
    expect(judge(2 * GIB + writersBytes - 1, [life('a'), life('b')])).toMatchObject({ short: true, stop: [] });
  });

  it('stops who writes most to its disk first, and nobody who does not write', () => {
    const lives = [life('idle'), life('little', { writtenBytes: MIB }), life('most', { writtenBytes: 32 * MIB })];
    expect(judge(writersBytes - 1, lives).stop).toEqual([{ lifeId: 'lif_most', as: 'writer' }]);
    expect(judge(writersBytes, lives).stop).toEqual([]);
    expect(judge(writersBytes - 1, [life('idle')]).stop).toEqual([]);
  });

  it('lets go on who writes little, until that is much of what is left', () => {
    const lives = [life('little', { writtenBytes: MIB })];
    expect(judge(edgeBytes + 33 * MIB, lives).stop).toEqual([]);
    expect(judge(edgeBytes + 32 * MIB, lives).stop).toEqual([{ lifeId: 'lif_little', as: 'writer' }]);
  });

  it('stops all at the edge', () => {
    const lives = [life('idle'), life('writer', { writtenBytes: MIB }), life('stopped', { stopped: 'all' })];
    expect(judge(edgeBytes - 1, lives).stop).toEqual([
      { lifeId: 'lif_idle', as: 'all' },
      { lifeId: 'lif_writer', as: 'writer' },
    ]);
  });

  it('lets go on, one at a time, first those that did not write', () => {
    const lives = [life('writer', { stopped: 'writer' }), life('a', { stopped: 'all' }), life('b', { stopped: 'all' })];
    expect(judge(restBytes - 1, lives).letGoOn).toBeNull();
    expect(judge(restBytes, lives).letGoOn).toBe('lif_a');
    expect(judge(calmBytes - 1, lives.slice(0, 1)).letGoOn).toBeNull();
    expect(judge(calmBytes, lives.slice(0, 1)).letGoOn).toBe('lif_writer');
    expect(mayGoOn({ totalBytes: TOTAL, availableBytes: TOTAL }, life('runs'))).toBe(false);
  });

  it('lets nobody go on where it stops somebody', () => {
    fc.assert(
      fc.property(fc.nat(4 * writersBytes), fc.array(anyLife, { maxLength: 6 }), (available, lives) => {
        const { stop, letGoOn } = judge(available, lives);
        if (stop.length > 0) expect(letGoOn).toBeNull();
      }),
    );
  });

  it('keeps a part of a small vault only', () => {
    expect(spaceMarks(GIB).edgeBytes).toBe(GIB / 16);
    expect(spaceMarks(TOTAL).edgeBytes).toBe(256 * MIB);
  });

  it('is never emptied by guests that write to memory and disk as fast as a machine can, and every look late', () => {
    const guest = fc.record({ memory: fc.integer({ min: 64, max: 8192 }), disk: fc.integer({ min: 0, max: 1 }) });
    fc.assert(
      fc.property(
        fc.array(guest, { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 300, max: 20_000 }),
        fc.integer({ min: 0, max: 200 }),
        (guests, availableMib, lateMs) => {
          expect(leastAvailable(guests, availableMib * MIB, lateMs)).toBeGreaterThan(0);
        },
      ),
    );
  });
});

const anyLife = fc
  .record({
    stopped: fc.constantFrom(null, 'writer' as const, 'all' as const),
    writtenBytes: fc.nat(10 * MIB),
    name: fc.nat(9_999).map(String),
  })
  .map(({ name, ...rest }) => life(name, rest));

/** All guests together take a gigabyte a second; each look comes late, and a stop takes effect 20 ms after it. */
function leastAvailable(
  guests: readonly { memory: number; disk: number }[],
  available: number,
  lateMs: number,
): number {
  const stopped = new Set<number>();
  const written = guests.map(() => 0);
  let left = available;
  let pending: { atMs: number; which: readonly number[] } | null = null;
  let lookAtMs = lateMs;
  for (let nowMs = 0; nowMs < 60_000 && stopped.size < guests.length; nowMs++) {
    for (const [index, { disk }] of guests.entries()) {
      if (stopped.has(index)) continue;
      const bytes = 1_000_000 / guests.length;
      left -= bytes;
      if (disk === 1) written[index] = (written[index] ?? 0) + bytes;
    }
    if (pending !== null && nowMs >= pending.atMs) {
      for (const index of pending.which) stopped.add(index);
      pending = null;
    }
    if (nowMs < lookAtMs) continue;
    const lives = guests.map(({ memory }, index) =>
      life(`${index}`, {
        memoryBytes: memory * MIB,
        stopped: stopped.has(index) ? 'all' : null,
        writtenBytes: written[index] ?? 0,
      }),
    );
    written.fill(0);
    const { stop, nextLookMs } = judge(left, lives);
    const which = stop.map(({ lifeId }) => Number(lifeId.slice('lif_'.length)));
    if (which.length > 0) pending = { atMs: nowMs + 20, which };
    lookAtMs = nowMs + nextLookMs + lateMs;
  }
  return left;
}
