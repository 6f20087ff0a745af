/** Each ordered pair of operations on one sandbox at once, with many orders of their steps. No faults: see the fault matrix. */
import { describe, expect, it } from 'vitest';
import { checkAll } from './checks.ts';
import { Client, History } from './client.ts';
import { ACTS, type ActName, type Scene, type Setting, type Standing, setScene } from './operations.ts';
import { Random } from './random.ts';
import type { Fate } from './steps.ts';
import { World } from './world.ts';

const NAMES = Object.keys(ACTS) as ActName[];
const ORDERS = process.env['SPACE_FULL'] === '1' ? 60 : 1;
const LIMIT_MS = 6 * 60 * 60_000;
type Needs = Omit<Setting, 'standing'>;
/** What the platform does by itself, and what the scene needs for it. */
const UNASKED: Partial<Record<ActName, Needs>> = {
  idle: { idle: true },
  'expiry by pause': { expiry: 'pause' },
  'expiry by delete': { expiry: 'delete' },
  collection: { collected: true },
};
/** Idle for long enough by then. */
const IDLE_MS = 12_000;

function drawn(random: Random): Fate {
  return {
    delayMs: () => (random.happens(0.02) ? random.below(200) : 0.1 + random.part() ** 2 * 4),
    faultAt: () => null,
  };
}

/** At which the other begins. */
async function momentOf(name: ActName, { world }: Scene): Promise<void> {
  const earliestMs = world.time.nowMs + (name === 'idle' ? IDLE_MS : 0);
  const deadline = world.time.nowMs + 60_000;
  let seen = false;
  const step = name === 'idle' ? 'link.usage' : 'records.snapshotsOf';
  if (UNASKED[name]?.expiry !== undefined) {
    world.onDue = () => {
      seen = true;
    };
  } else {
    world.steps.onStep = (label) => {
      if (label === step && world.time.nowMs >= earliestMs) seen = true;
    };
  }
  while (!seen && world.time.nowMs < deadline) await world.time.sleep(1);
}

async function race(names: readonly [ActName, ActName], standing: Standing, seed: number): Promise<void> {
  const random = new Random(seed);
  const memory = random.happens(0.5) ? 'in_place' : 'written';
  const world = new World({ seed, memory, fate: () => drawn(random) });
  await world.time.run(async () => {
    await world.boot();
    const history = new History(world);
    const setting = { standing, ...UNASKED[names[0]], ...UNASKED[names[1]] };
    const scene = await setScene(world, new Client(history, 'p'), setting);
    const [a, b] = names.map((name, index) => ({ act: ACTS[name], client: new Client(history, 'ab'[index] ?? '') }));
    const unasked = names.find((name) => UNASKED[name] !== undefined);
    const moment = unasked === undefined ? Promise.resolve() : momentOf(unasked, scene);
    const begin = async (one: typeof a, name: ActName) => {
      if (UNASKED[name] === undefined) {
        await moment;
        await world.time.sleep(random.below(random.happens(0.5) ? 5 : 40));
      }
      await one?.act(one.client, scene);
    };
    await Promise.all([begin(a, names[0]), begin(b, names[1])]);
    await checkAll(history, new Client(history, 'z'));
  }, LIMIT_MS);
}

/** A sandbox has one expiry. */
const isPossible = (first: ActName, second: ActName) =>
  first === second || UNASKED[first]?.expiry === undefined || UNASKED[second]?.expiry === undefined;
const PAIRS = NAMES.flatMap((first) =>
  NAMES.filter((second) => isPossible(first, second)).map((second) => [first, second] as const),
);

describe('two at once, on one sandbox', () => {
  it.each(PAIRS)('%s and %s', { timeout: 600_000 }, async (first, second) => {
    for (const standing of ['running', 'paused', 'crashed'] as const) {
      for (let seed = 1; seed <= ORDERS; seed++) {
        await expect(race([first, second], standing, seed), `${standing}, seed ${seed}`).resolves.toBeUndefined();
      }
    }
  });
});
