/**
 * A fault at each step of each way between two installations, on either side. As in `faults.test.ts` the steps are those that were
 * recorded when nothing went wrong, and after the fault the call, repeated, succeeds, and all that was promised holds.
 */
import { describe, expect, it } from 'vitest';
import { History, type Known } from './client.ts';
import { checkBoth, type Pair, watchClaims } from './moving-checks.ts';
import { Book, MovingClient } from './moving-client.ts';
import { OneFault, type Place } from './one-fault.ts';
import { isPossible } from './schedule.ts';
import { FAULTS, type Fault } from './steps.ts';
import { World } from './world.ts';

/** Every so many; with `SPACE_FULL=1` each. */
const SAMPLED = process.env['SPACE_FULL'] === '1' ? 1 : 16;
const LIMIT_MS = 12 * 60 * 60_000;
/** What the platforms ask for by themselves meanwhile is no step of the way. */
const IDLE_MS = 61_000;

interface Scene {
  readonly pair: Pair;
  readonly book: Book;
  readonly sandbox: Known;
}
type Way = (scene: Scene) => Promise<unknown>;

const nothing: Way = ({ pair }) => pair[0].world.time.sleep(IDLE_MS);
const leave: Way = ({ pair, sandbox }) => pair[0].leave(sandbox);
const archiveOf = ({ book }: Scene) => book.moves.at(-1)?.archive ?? '';

const WAYS: readonly (readonly [string, { readonly before: Way; readonly way: Way }])[] = [
  ['out of a running sandbox', { before: async () => undefined, way: leave }],
  ['out of a paused sandbox', { before: ({ pair, sandbox }) => pair[0].pause(sandbox), way: leave }],
  ['in', { before: leave, way: (scene) => scene.pair[1].arrive(scene.sandbox, archiveOf(scene)) }],
  ['back, by an undo', { before: leave, way: ({ pair, sandbox }) => pair[0].undo(sandbox) }],
  [
    'out of a copy',
    { before: async () => undefined, way: ({ pair, sandbox }) => pair[0].export(sandbox, { timeline: true }) },
  ],
  [
    'in of a copy',
    {
      before: ({ pair, sandbox }) => pair[0].export(sandbox, { timeline: false }),
      way: ({ pair, book }) => pair[1].import(book.copies.at(-1) ?? never()),
    },
  ],
];

type FarPlace = Place & { readonly site: 0 | 1 };

interface Cell {
  readonly before: Way;
  readonly way: Way;
  readonly at?: FarPlace & { readonly fault: Fault };
}

async function play({ before, way, at }: Cell): Promise<readonly FarPlace[]> {
  const fates = ([0, 1] as const).map((site) => new OneFault(at?.site === site ? at : null));
  const arm = (armed: boolean) => {
    for (const fate of fates) fate.armed = armed;
  };
  const worldOf = (site: 0 | 1, beside?: World) =>
    new World({ seed: 1, memory: 'in_place', fate: () => fates[site] ?? never(), ...(beside ? { beside } : {}) });
  const a = worldOf(0);
  const b = worldOf(1, a);
  const steps: FarPlace[] = [];
  let twice: Error | null = null;
  watchClaims([a, b], (violation) => {
    twice ??= violation;
  });
  const record = recordSteps([a, b], steps);
  await a.time.run(async () => {
    const history = new History(a);
    history.follow(b);
    const book = new Book();
    const pairOf = (name: string): Pair => [
      new MovingClient(history, `${name}a`, a, book),
      new MovingClient(history, `${name}b`, b, book),
    ];
    await Promise.all([a.boot(), b.boot()]);
    const pair = pairOf('p');
    const sandbox = await pair[0].create('scene');
    await pair[0].mark(sandbox);
    await pair[0].snapshot(sandbox);
    await pair[0].mark(sandbox);
    const scene = { pair, book, sandbox };
    await before(scene);
    record.on = true;
    arm(true);
    const told = await way(scene);
    record.on = false;
    if (way === nothing) return;
    arm(false);
    // What dies takes what was not in a point with it; its user decides.
    if (at?.fault !== 'kill vmm' && isRefused(told))
      throw new Error(`the retry failed: ${sandbox.happenings.at(-1)?.text}`);
    await checkBoth(pairOf('z'));
  }, LIMIT_MS);
  if (twice !== null) throw twice;
  return steps;
}

function recordSteps(worlds: readonly World[], steps: FarPlace[]) {
  const record = { on: false };
  const counts = new Map<string, number>();
  for (const [at, { steps: taken }] of worlds.entries()) {
    const watch = taken.onStep;
    taken.onStep = (label, step) => {
      watch(label, step);
      if (!record.on) return;
      const nth = (counts.get(`${at} ${label}`) ?? 0) + 1;
      counts.set(`${at} ${label}`, nth);
      steps.push({ label, step, nth, site: at as 0 | 1 });
    };
  }
  return record;
}

function isRefused(told: unknown): boolean {
  return typeof told === 'object' && told !== null && 'kind' in told && told.kind !== 'ok';
}

function never(): never {
  throw new Error('a scene has what its way needs');
}

describe('a fault at any step of a way between installations', { timeout: 1_200_000 }, () => {
  it.each(WAYS)('%s', async (_, { before, way }) => {
    const ignored = new Set((await play({ before, way: nothing })).map(({ label, site }) => `${site} ${label}`));
    const places = (await play({ before, way })).filter(({ label, site }) => !ignored.has(`${site} ${label}`));
    const cells = places.flatMap((place) => {
      return FAULTS.filter((fault) => isPossible(fault, place.step)).map((fault) => ({ ...place, fault }));
    });
    expect(cells.length).toBeGreaterThan(100);
    const failures: string[] = [];
    for (const at of cells.filter((_, index) => index % SAMPLED === 0)) {
      await play({ before, way, at }).catch((thrown: unknown) =>
        failures.push(`${at.fault} at ${at.label} #${at.nth} of ${'ab'[at.site]}: ${String(thrown)}`),
      );
    }
    expect(failures).toEqual([]);
  });
});
