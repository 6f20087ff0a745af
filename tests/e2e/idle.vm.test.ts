/** Pauses of what is idle, wakes at set times, and figures of what runs, on real microVMs. */
import type { Sandbox } from '@space/sdk';
import { afterAll, beforeAll, type ExpectStatic, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await makeWorld();
});
afterAll(() => world[Symbol.asyncDispose]());

const QUICK = { idle: { pauseAfterMs: 10_000 } };

/** Side by side with the other: both mostly wait. */
const test = it.concurrent;

async function statusWithin(expect: ExpectStatic, sandbox: Sandbox, status: Sandbox['status']): Promise<void> {
  await expect.poll(async () => (await sandbox.refresh()).status, { timeout: 60_000, interval: 500 }).toBe(status);
}

test('pauses the idle one, not one with an open stream, a busy loop or a process that keeps it awake; the next use wakes it', async ({
  expect,
}) => {
  await using quiet = await world.create(QUICK);
  await using watched = await world.create(QUICK);
  await using working = await world.create(QUICK);
  await using kept = await world.create(QUICK);
  await quiet.run('echo once > once');

  const stop = new AbortController();
  const stream = Array.fromAsync(watched.exec('sleep 1000', { signal: stop.signal })).catch(
    (thrown: unknown) => thrown,
  );
  const loop = await working.start('while :; do :; done');
  const keeper = await kept.start('sleep 1000', { keepAwake: true });

  await statusWithin(expect, quiet, 'paused');
  // As long again as the others would have had to be idle.
  const until = performance.now() + 20_000;
  while (performance.now() < until) {
    for (const sandbox of [watched, working, kept]) expect((await sandbox.refresh()).status).toBe('running');
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
  const { now, history } = await working.metrics();
  expect(history.at(-1)?.cpuPercent).toBeGreaterThan(20);
  expect(now?.memoryBytes).toBeGreaterThan(2 ** 20);
  expect(now?.diskBytes).toBeGreaterThan(2 ** 20);

  expect((await quiet.metrics()).now).toBeNull();
  expect((await quiet.refresh()).status).toBe('paused');
  expect((await quiet.run('cat once')).stdout).toBe('once\n');
  expect((await quiet.refresh()).status).toBe('running');

  stop.abort();
  await stream;
  await working.kill(loop.processId);
  await kept.kill(keeper.processId);
  for (const sandbox of [watched, working, kept]) await statusWithin(expect, sandbox, 'paused');
  const response = await fetch(`${world.connection.baseUrl}/v1/operations?sandbox=${quiet.id}`, {
    headers: { authorization: `Bearer ${world.connection.apiKey}` },
  });
  const { operations } = (await response.json()) as { operations: { kind: string; cause: string | null }[] };
  const pauses = operations.filter(({ kind }) => kind === 'pause');
  expect(new Set(pauses.map(({ cause }) => cause))).toEqual(new Set(['idle']));
});

test('is woken at a set time, and by a schedule that runs a command, with what it was doing', async ({ expect }) => {
  await using sandbox = await world.create({ idle: { pauseAfterMs: null } });
  const counter = await sandbox.start('for ((i = 0; ; i++)); do echo $i > new && mv new count; sleep 0.2; done');
  const count = async () => Number((await sandbox.run('until [ -s count ]; do sleep 0.05; done; cat count')).stdout);
  await expect.poll(count, { timeout: 20_000 }).toBeGreaterThan(2);
  const before = await count();
  await sandbox.update({ wakeAt: new Date(Date.now() + 8_000) });
  await sandbox.pause();
  await statusWithin(expect, sandbox, 'running');
  expect(sandbox.fields.wakeAt).toBeNull();
  expect((await sandbox.processes()).map(({ processId }) => processId)).toEqual([counter.processId]);

  const { id, nextRunAt } = await sandbox.schedules.create({
    cron: '* * * * *',
    timeZone: 'Europe/Berlin',
    exec: 'cp count seen; exit 7',
  });
  await sandbox.pause();
  const lastRun = async () => (await sandbox.schedules.get(id)).lastRuns[0];
  await expect.poll(async () => (await lastRun())?.endedAt ?? null, { timeout: 120_000, interval: 500 }).not.toBeNull();
  expect(await lastRun()).toMatchObject({ state: 'failed', dueAt: nextRunAt, exitCode: 7, error: null });
  await sandbox.schedules.update(id, { enabled: false });
  expect(Number((await sandbox.run('cat seen')).stdout)).toBeGreaterThanOrEqual(before);
});
