/**
 * Two operations on one sandbox at once, on real microVMs: a sample of the matrix that the simulation goes through whole.
 * A mark is a line in a file on the disk, and the same line in a file in memory: so a state tells which commands it has seen,
 * and whether its disk and its memory are of one instant.
 */
import { setTimeout } from 'node:timers/promises';
import { Sandbox, type Snapshot, type SpaceError } from '@space/sdk';
import { processesNaming } from '@space/server';
import { expect, it } from 'vitest';
import { livesIn, type World } from './world.ts';

const MARK = (text: string) => `echo ${text} >> disk && echo ${text} >> /dev/shm/memory`;
const MARKS = 'cat disk; echo --; cat /dev/shm/memory';

interface Scene {
  readonly world: World;
  readonly sandbox: Sandbox;
  /** Of the first mark alone. */
  readonly point: Snapshot;
  /** What came of it beside the sandbox. */
  readonly made: Sandbox[];
}

type Act = (scene: Scene) => Promise<unknown>;

const ACTS = {
  create: async ({ world, point, made }) => made.push(await world.create({ snapshot: point.id })),
  exec: ({ sandbox }) => sandbox.run(MARK('second')),
  pause: ({ sandbox }) => sandbox.pause(),
  resume: ({ sandbox }) => sandbox.resume(),
  snapshot: ({ sandbox }) => sandbox.snapshot(),
  fork: async ({ sandbox, made }) => made.push(...(await sandbox.fork(1))),
  rewind: ({ sandbox, point }) => sandbox.rewind(point),
  delete: ({ sandbox }) => sandbox.delete(),
  // From now on nothing that is not pinned stays, and what goes is gone within a round.
  collection: ({ sandbox }) => sandbox.update({ snapshots: { everyMs: 'off', retention: [{ forMs: 1, everyMs: 0 }] } }),
} satisfies Record<string, Act>;
type Name = keyof typeof ACTS;

const SAMPLE: readonly (readonly [Name, Name])[] = [
  ['exec', 'pause'],
  ['exec', 'rewind'],
  ['snapshot', 'fork'],
  ['pause', 'resume'],
  ['rewind', 'collection'],
  ['fork', 'delete'],
];
const MORE: readonly (readonly [Name, Name])[] = [
  ['create', 'delete'],
  ['exec', 'snapshot'],
  ['exec', 'fork'],
  ['exec', 'delete'],
  ['pause', 'snapshot'],
  ['pause', 'rewind'],
  ['resume', 'rewind'],
  ['snapshot', 'rewind'],
  ['snapshot', 'delete'],
  ['rewind', 'delete'],
  ['fork', 'rewind'],
  ['pause', 'delete'],
  ['snapshot', 'collection'],
  ['create', 'collection'],
];

/** What one of two may be told because of the other. */
const BECAUSE_OF_THE_OTHER = ['operation_in_progress', 'superseded', 'link_lost', 'wrong_state'];
const BECAUSE_DELETED = ['not_found', 'superseded', 'link_lost', 'vm_lost', 'wrong_state'];

export function raceCases(world: () => World): void {
  const pairs =
    process.env['SPACE_FULL'] === '1' ? [...SAMPLE, ...MORE, ...SAMPLE.map(([a, b]) => [b, a] as const)] : SAMPLE;
  it.each(pairs)('%s and %s have some order, and what fails can be repeated', async (first, second) => {
    const sandbox = await world().create({ size: { memoryMib: 256 }, snapshots: { everyMs: 'off' } });
    await sandbox.run(MARK('first'));
    const scene: Scene = { world: world(), sandbox, point: await sandbox.snapshot(), made: [] };
    const names = [first, second] as const;
    const results = await Promise.all(
      names.map(async (name, index) => {
        // They begin a few milliseconds apart, the one or the other first.
        await setTimeout(Math.random() * 40 * (index + Math.random()));
        return ACTS[name](scene).then(
          () => 'ok',
          (thrown: SpaceError) => thrown.code,
        );
      }),
    );
    const told = `${first}: ${results[0]}, ${second}: ${results[1]}`;
    if (names.includes('delete')) await staysDeleted(scene, results, told);
    else await goesOn(scene, names, results, told);
    for (const one of scene.made) {
      expect(await marksOf(one, told)).toMatch(names.includes('exec') ? /^first\n(second\n)?$/ : /^first\n$/);
      await one.delete();
    }
    await sandbox.delete();
    await nothingLeft(world());
  });
}

/** Of the memory and the disk, which say the same. */
async function marksOf(sandbox: Sandbox, told: string): Promise<string> {
  const [disk, memory] = (await sandbox.run(MARKS)).stdout.split('--\n');
  expect(memory, told).toBe(disk);
  return disk ?? '';
}

async function goesOn(scene: Scene, names: readonly Name[], results: readonly string[], told: string): Promise<void> {
  for (const result of results) expect(['ok', ...BECAUSE_OF_THE_OTHER], told).toContain(result);
  const seen = await marksOf(scene.sandbox, told);
  // A command that was acknowledged is there, but where a rewind may have come after it.
  const isCertain = names.includes('exec') && results[names.indexOf('exec')] === 'ok' && !names.includes('rewind');
  expect(seen, told).toMatch(isCertain ? /^first\nsecond\n$/ : /^first\n(second\n)?$/);
  for (const [index, name] of names.entries()) if (results[index] !== 'ok') await ACTS[name](scene);
}

async function staysDeleted({ world, sandbox }: Scene, results: readonly string[], told: string): Promise<void> {
  for (const result of results) expect(['ok', ...BECAUSE_DELETED], told).toContain(result);
  await sandbox.delete();
  const found = Sandbox.connect(sandbox.id, world.connection);
  await expect(found, told).rejects.toMatchObject({ code: 'not_found' });
}

/** A VMM and a folder for each sandbox that runs, and for nothing else. */
async function nothingLeft({ platform, config }: World): Promise<void> {
  const lives = `${config.dataDir}/vaults/default/mnt/lives`;
  const running = async () =>
    (await platform.node.inspectAll()).flatMap(({ life }) => (life === null ? [] : [life])).sort();
  await expect.poll(() => livesIn(config), { timeout: 20_000 }).toEqual(await running());
  await expect
    .poll(async () => (await processesNaming(lives)).length, { timeout: 20_000 })
    .toBe((await running()).length);
}
