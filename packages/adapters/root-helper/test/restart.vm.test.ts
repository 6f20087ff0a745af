/** The helper is killed in the middle of each verb, at ever later moments, and started again: what is repeated then works. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { glob, link, mkdir, readdir, readFile, rmdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, KeyBytes } from '@space/core';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { loopsOf, makeWorld, RUN, SEALED, SEALED_VIEW, SIZE, type World } from './world.ts';

/** Longer than each verb takes when it is not disturbed, on a machine that is not busy. */
const SPANS_MS = { openVault: 120, closeVault: 60, startVmm: 30, equipVmm: 8, endVmm: 12, clearVmm: 6 } as const;
const MOMENTS = 10;
/** Of an encrypted vault, which takes longer. */
const SEALED_MOMENTS = 6;

let world: World;
beforeAll(async () => {
  world = await makeWorld();
});
afterAll(() => world?.[Symbol.asyncDispose]());

/** Asks, and kills the helper so long after it. */
async function disturbed<T>(ask: () => Promise<T>, afterMs: number): Promise<T> {
  const asked = ask();
  asked.catch(() => undefined);
  await sleep(afterMs);
  try {
    process.kill(world.process.pid ?? 0, 'SIGKILL');
  } catch {
    // Dead already, and not there again.
  }
  return await asked;
}

const moments = (verb: keyof typeof SPANS_MS): number[] =>
  Array.from({ length: MOMENTS }, (_, index) => (SPANS_MS[verb] * index) / MOMENTS);

async function mountsOfVault(): Promise<string[]> {
  const lines = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n');
  return lines.filter((line) => line.includes(world.folder)).map((line) => line.split(' ')[4] ?? '');
}

it('openVault and closeVault', async () => {
  const { helper } = world;
  const uuids = new Set<string>();
  for (const [index, afterMs] of moments('openVault').entries()) {
    uuids.add((await disturbed(() => helper.openVault('default'), afterMs)).uuid);
    expect(await mountsOfVault()).toEqual([join(world.folder, 'vault/mnt')]);
    expect(loopsOf(world.config)).toHaveLength(1);
    await disturbed(() => helper.closeVault('default'), moments('closeVault')[index] ?? 0);
    expect(await mountsOfVault()).toEqual([]);
    expect(loopsOf(world.config)).toEqual([]);
  }
  expect(uuids.size).toBe(1);
});

it('createVault, openVault, closeVault and removeVault of an encrypted one', async () => {
  const { helper } = world;
  const key = new KeyBytes(Uint8Array.from({ length: 64 }, (_, index) => index));
  const folder = join(world.folder, 'vaults', SEALED);
  const moment = (spanMs: number, index: number) => (spanMs * index) / SEALED_MOMENTS;
  for (let index = 0; index < SEALED_MOMENTS; index++) {
    const wish = { sizeBytes: 2 ** 28, key, token: 'wrapped' };
    await disturbed(() => helper.createVault(SEALED, wish), moment(600, index));
    expect((await readdir(folder)).filter((name) => name.includes('new'))).toEqual([]);
    await disturbed(() => helper.openVault(SEALED, key), moment(300, index));
    expect((await mountsOfVault()).toSorted()).toEqual([join(folder, 'mnt'), join(folder, 'plain')]);
    expect(loopsOf(world.config, SEALED_VIEW)).toHaveLength(1);
    await disturbed(() => helper.closeVault(SEALED), moment(120, index));
    expect(await mountsOfVault()).toEqual([]);
    expect(loopsOf(world.config, SEALED_VIEW)).toEqual([]);
    await disturbed(() => helper.removeVault(SEALED), moment(30, index));
    expect(existsSync(folder)).toBe(false);
  }
}, 120_000);

it('startVmm fails as unavailable or has its effect, and can be repeated', async () => {
  const { helper } = world;
  for (const afterMs of moments('startVmm')) {
    const first = await disturbed(() => world.start(), afterMs).catch((thrown: unknown) => thrown);
    if (first instanceof Error) expect(first).toMatchObject({ name: AppError.name, code: 'unavailable' });
    await helper.endVmm(RUN);
    await helper.clearVmm(RUN);
    expect(await world.remains()).toEqual([]);
    const { pid } = await world.start();
    expect(await readdir(`/proc/${pid}/fd`)).toContain('3');
    await helper.endVmm(RUN);
    await helper.clearVmm(RUN);
  }
});

it('equipVmm, endVmm and clearVmm', async () => {
  const { helper } = world;
  const life = await world.makeLife();
  for (const [index, afterMs] of moments('equipVmm').entries()) {
    const spare = `spare-1-2-${index}`;
    // A helper that was killed once its work was done is found out by this call, which may be repeated, and not by the next.
    await helper.clearVmm(spare);
    await world.start(spare);
    const control = world.connect(spare);
    // Its other end is killed below.
    control.socket.on('error', () => undefined);
    const given = { lifeId: RUN, place: 'own', size: SIZE };
    const numbers = await disturbed(() => helper.equipVmm(spare, given, control.descriptor()), afterMs);
    expect(await readdir(world.config.runDir)).toEqual([RUN]);
    const { pid } = JSON.parse(await readFile(join(world.config.runDir, RUN, 'vmm.json'), 'utf8'));
    const uid = Number(await readFile(join(world.config.runDir, RUN, 'uid'), 'utf8'));
    for (const [file, number] of [
      ['disk.img', numbers.disk],
      ['memory', numbers.memory],
    ] as const) {
      expect(await stat(join(life, file))).toMatchObject({ uid, ino: (await stat(`/proc/${pid}/fd/${number}`)).ino });
    }
    await disturbed(() => helper.endVmm(RUN), moments('endVmm')[index] ?? 0);
    await disturbed(() => helper.clearVmm(RUN), moments('clearVmm')[index] ?? 0);
    control.socket.destroy();
    expect(await world.remains()).toEqual([]);
  }
});

it('its start removes the cgroups of uids that nobody holds and that have no process, and no others', async (context) => {
  const parents = await Array.fromAsync(glob('/sys/fs/cgroup/{space,*/space}'));
  if (parents.length === 0) return context.skip();
  const { first, count, registry } = world.config.uids;
  // The last of the range is no VMM's.
  const [abandoned, inUse, held, foreign] = [first + count - 2, first + count - 3, first + count - 4, first + count];
  const groupsOf = (uid: number) => parents.map((parent) => join(parent, `vmm-${uid}`));
  const sleeper = spawn('sleep', ['600']);
  try {
    for (const path of [abandoned, inUse, held, foreign].flatMap(groupsOf)) await mkdir(path);
    for (const path of groupsOf(inUse)) await writeFile(join(path, 'cgroup.procs'), `${sleeper.pid}`);
    await writeFile(join(world.folder, 'held'), `${held}`);
    await link(join(world.folder, 'held'), join(registry, `${held}`));
    process.kill(world.process.pid ?? 0, 'SIGKILL');
    await vi.waitFor(() => expect(groupsOf(abandoned).filter(existsSync)).toEqual([]), 10_000);
    // It answers once it has started, and then nothing more is removed.
    await world.helper.endVmm(RUN);
    for (const path of [inUse, held, foreign].flatMap(groupsOf)) expect(existsSync(path)).toBe(true);
  } finally {
    const ended = once(sleeper, 'close');
    sleeper.kill('SIGKILL');
    await ended;
    const remains = [abandoned, inUse, held, foreign].flatMap(groupsOf).filter(existsSync);
    for (const path of remains) await vi.waitFor(() => rmdir(path), 5_000);
  }
});
