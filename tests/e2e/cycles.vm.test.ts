/**
 * Pause, fork and rewind, composed, twenty times over: each cycle works on what the one before left, so that a fault that
 * shows only the second time shows.
 */
import type { Sandbox, Snapshot } from '@space/sdk';
import { expect, it } from 'vitest';
import { ask, placeWitness, type Testimony } from './witness.ts';
import { makeWorld } from './world.ts';

const CYCLES = process.env['SPACE_FULL'] === '1' ? 20 : 10;

it(`keeps files, memory, an open deleted file, clock and randomness through ${CYCLES} cycles`, {
  timeout: 600_000,
}, async () => {
  await using world = await makeWorld(undefined, { encrypted: true });
  let sandbox: Sandbox = await world.create();
  const first = await placeWitness(sandbox);
  const seenRandom = new Set([first.random]);
  let count = first.count;

  const check = async (of: Sandbox, cycle: number): Promise<Testimony> => {
    const seen = await ask(of);
    expect(seen, `cycle ${cycle}`).toMatchObject({ word: first.word, held: first.word, pid: first.pid });
    expect(seenRandom.has(seen.random), `cycle ${cycle}: randomness repeats`).toBe(false);
    seenRandom.add(seen.random);
    expect(await of.files.read('cycle'), `cycle ${cycle}`).toBe(`${cycle}`);
    return seen;
  };

  for (let cycle = 1; cycle <= CYCLES; cycle++) {
    await sandbox.files.write('cycle', `${cycle}`);
    await sandbox.pause();
    const woken = await check(sandbox, cycle);
    expect(woken.count).toBeGreaterThan(count);
    const point: Snapshot = await sandbox.snapshot();
    const [child] = await sandbox.fork(1);
    if (child === undefined) throw new Error('no child');
    await sandbox.files.write('cycle', 'overwritten');
    await sandbox.rewind(point);
    const rewound = await check(sandbox, cycle);
    const forked = await check(child, cycle);
    expect(forked.machine).not.toBe(rewound.machine);
    // Every other cycle goes on with the child, so forks of forks and their rewinds come about.
    const [kept, dropped] = cycle % 2 === 0 ? [child, sandbox] : [sandbox, child];
    count = cycle % 2 === 0 ? forked.count : rewound.count;
    await dropped.delete();
    sandbox = kept;
  }
  await sandbox.delete();
  const { node } = world.platform;
  expect(await node.inspectAll()).toEqual([]);
});
