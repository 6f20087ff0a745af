/** Rolling snapshots and the timeline, on real microVMs. */
import { readdir } from 'node:fs/promises';
import type { Sandbox, Timeline } from '@space/sdk';
import { afterAll, beforeAll, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await makeWorld();
});
afterAll(() => world[Symbol.asyncDispose]());

/** Side by side: all of them mostly wait for the next point. */
const test = it.concurrent;

/** Under emulation on a busy machine, a stall passes the default budget now and then. */
const EVERY_10_S = { everyMs: 10_000, budgetMs: 2_000 };

async function timelineWith(sandbox: Sandbox, fits: (timeline: Timeline) => boolean, ms = 90_000): Promise<Timeline> {
  const deadline = performance.now() + ms;
  for (;;) {
    const timeline = await sandbox.timeline();
    if (fits(timeline)) return timeline;
    if (performance.now() > deadline) throw new Error(`it did not come to that: ${JSON.stringify(timeline)}`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

test('is snapshotted while it changes, and not while it does not', async ({ expect }) => {
  await using working = await world.create({ snapshots: EVERY_10_S });
  await using quiet = await world.create({ snapshots: EVERY_10_S, idle: { pauseAfterMs: null } });
  await quiet.run('echo once > once');
  await working.start('while :; do head -c 8388608 /dev/urandom > data; sync; sleep 1; done');
  const { snapshots, policy } = await timelineWith(working, (seen) => seen.snapshots.length >= 4, 120_000);
  expect(policy).toMatchObject(EVERY_10_S);
  for (const [index, point] of snapshots.entries()) {
    expect(point).toMatchObject({ cause: 'rolling', pinned: false, state: 'good' });
    expect(point.parent).toBe(snapshots[index + 1]?.id ?? null);
    expect(point.timings?.frozenMs).toBeGreaterThan(0);
  }
  const changed = snapshots.slice(0, 2).map((point) => point.changed?.diskBytes ?? 0);
  for (const bytes of changed) expect(bytes).toBeGreaterThan(8 * 2 ** 20);
  // A fresh file system is still busy with itself for a while; once it has settled, nothing is taken.
  await timelineWith(quiet, ({ snapshots: [newest] }) => ageMs(newest?.takenAt) > 3 * EVERY_10_S.everyMs, 150_000);
});

function ageMs(takenAt: string | undefined): number {
  return takenAt === undefined ? 0 : Date.now() - Date.parse(takenAt);
}

test('goes back to how it was at a time, and retention collects', async ({ expect }) => {
  await using sandbox = await world.create({ snapshots: EVERY_10_S });
  await sandbox.files.write('f', 'one');
  const { snapshots: early } = await timelineWith(sandbox, ({ snapshots }) => snapshots.length >= 1);
  const at = early[0]?.takenAt ?? '';
  await sandbox.files.write('f', 'two');
  await timelineWith(sandbox, ({ snapshots }) => snapshots.length > early.length);
  const [fork] = await sandbox.fork(1, { from: { at } });
  expect(await fork?.files.read('f')).toBe('one');
  const { forks } = await sandbox.timeline();
  expect(forks).toEqual([{ sandboxId: fork?.id, name: null, from: early[0]?.id }]);
  await fork?.delete();
  const kept = await sandbox.rewind({ at });
  expect(await sandbox.files.read('f')).toBe('one');
  await sandbox.rewind(kept ?? '');
  expect(await sandbox.files.read('f')).toBe('two');
  // A shorter ladder holds from now on: what it lets go of is gone from the vault, too.
  await sandbox.update({ snapshots: { everyMs: 'off', retention: [{ forMs: 1, everyMs: 0 }] } });
  const pinned = await sandbox.snapshot();
  const left = await timelineWith(sandbox, ({ snapshots }) => snapshots.length === 1, 120_000);
  expect(left.snapshots[0]?.id).toBe(pinned.id);
  const points = `${world.config.dataDir}/vaults/default/mnt/points`;
  const own = new Set([...early, kept].map((point) => `${point?.id}`));
  await expect.poll(async () => (await readdir(points)).filter((id) => own.has(id)), { timeout: 30_000 }).toEqual([]);
});

test('goes on with points of the disk where memory would cost more than its budget; a rewind to one boots', async ({
  expect,
}) => {
  await using sandbox = await world.create({ snapshots: { everyMs: 10_000, budgetMs: 10 } });
  // So many do not stand still in 10 ms, on whatever machine.
  await sandbox.start('for i in $(seq 200); do sleep 1000 & done; wait');
  await sandbox.run('echo kept > state; sync');
  const isDisk = ({ kind }: { kind: string }) => kind === 'disk';
  const { snapshots } = await timelineWith(sandbox, (seen) => seen.snapshots.some(isDisk));
  const point = snapshots.findLast(isDisk);
  expect(point).toMatchObject({ degraded: 'over_budget', timings: { stoppedMs: 0, frozenMs: 0 } });
  await sandbox.run('echo late > state; touch /dev/shm/late');
  const kept = await sandbox.rewind(point ?? '');
  expect((await sandbox.run('cat state; ls /dev/shm; pgrep -c sleep || true')).stdout).toBe('kept\n0\n');
  await sandbox.rewind(kept ?? '');
  expect((await sandbox.run('cat state; ls /dev/shm; pgrep -c sleep')).stdout).toBe('late\nlate\n200\n');
});

test('is snapshotted at the end of a command that is marked', async ({ expect }) => {
  await using sandbox = await world.create({ snapshots: { everyMs: 'off' } });
  await sandbox.run('echo done > state', { checkpoint: true });
  const { snapshots } = await sandbox.timeline();
  expect(snapshots.map(({ cause }) => cause)).toEqual(['checkpoint']);
  await sandbox.run('rm state');
  await sandbox.rewind(snapshots[0] ?? '');
  expect(await sandbox.files.read('state')).toBe('done\n');
});
