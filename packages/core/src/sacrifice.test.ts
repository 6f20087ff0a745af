import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { SandboxId, SnapshotId } from './ids.ts';
import { decideSacrifice, type SpendablePoint } from './sacrifice.ts';

const MIB = 2 ** 20;
let serial = 0;

function pointOf(owner: string, changes: Partial<SpendablePoint> = {}): SpendablePoint {
  serial += 1;
  return {
    id: `snp_${serial.toString().padStart(16, '0')}` as SnapshotId,
    sandboxId: owner as SandboxId,
    timeMs: serial,
    scheduled: true,
    hold: null,
    changed: { diskBytes: 0, memoryBytes: MIB },
    ...changes,
  };
}

const ids = (points: readonly SpendablePoint[]) => points.map(({ id }) => id);

it('takes the oldest first, what a schedule took before the rest, and never the newest', () => {
  const [kept, first, second, newest] = [pointOf('a', { scheduled: false }), pointOf('a'), pointOf('a'), pointOf('a')];
  expect(ids(decideSacrifice([newest, second, kept, first], 10))).toEqual(ids([first, second, kept]));
  expect(ids(decideSacrifice([newest, second, kept, first], 1))).toEqual(ids([first]));
});

it('takes from whoever holds the most, so that a neighbour keeps what is its own', () => {
  const heavy = Array.from({ length: 5 }, () =>
    pointOf('heavy', { changed: { diskBytes: 90 * MIB, memoryBytes: MIB } }),
  );
  const quiet = Array.from({ length: 20 }, () => pointOf('quiet'));
  expect(new Set(decideSacrifice([...quiet, ...heavy], 4).map(({ sandboxId }) => sandboxId))).toEqual(
    new Set(['heavy']),
  );
  expect(decideSacrifice([...quiet, ...heavy], 6).map(({ sandboxId }) => sandboxId)).toContain('quiet');
});

it('touches nothing that is held, and leaves each sandbox its newest point', () => {
  const point = fc.record({
    owner: fc.constantFrom('a', 'b', 'c'),
    hold: fc.constantFrom(null, 'named', 'pinned', 'needed', 'in_use'),
    scheduled: fc.boolean(),
    memoryBytes: fc.option(fc.nat(MIB), { nil: null }),
  });
  fc.assert(
    fc.property(fc.array(point, { maxLength: 40 }), fc.nat(50), (drawn, count) => {
      const points = drawn.map(({ owner, memoryBytes, ...rest }) =>
        pointOf(owner, {
          ...rest,
          changed: memoryBytes === null ? null : { diskBytes: 0, memoryBytes },
        } as Partial<SpendablePoint>),
      );
      const chosen = decideSacrifice(points, count);
      expect(chosen.length).toBeLessThanOrEqual(count);
      expect(new Set(chosen).size).toBe(chosen.length);
      for (const { hold } of chosen) expect(hold).toBeNull();
      for (const own of Map.groupBy(points, ({ sandboxId }) => sandboxId).values()) {
        expect(chosen).not.toContain(own.toSorted((a, b) => a.timeMs - b.timeMs).at(-1));
      }
      // Asked for enough, it gives all that may go.
      const all = decideSacrifice(points, 100);
      const left = points.filter((one) => one.hold === null && !all.includes(one));
      expect(left.length).toBeLessThanOrEqual(3);
    }),
  );
});
