/**
 * kill -9 of a random process at a random moment under load, again and again. After each: every sandbox is usable within
 * 30 seconds, what was acknowledged is there, and there is no process, life or mount that belongs to nobody.
 *
 * The seed is printed; `SPACE_SEED` repeats its choices (not the timing). `SPACE_FULL=1`: 200 rounds;
 * `SPACE_ROUNDS`: so many.
 */
import { mkdtemp, readdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Sandbox } from '@space/sdk';
import { type Config, processesNaming, startPlatform } from '@space/server';
import { expect, it } from 'vitest';
import { type Daemon, endDaemon, freePort, killRole, ROLES, rolesOf, startDaemon } from './daemon.ts';
import { removeAll, testConfig } from './world.ts';

const ROUNDS = Number(process.env['SPACE_ROUNDS'] ?? (process.env['SPACE_FULL'] === '1' ? 200 : 10));
const SANDBOXES = 3;
const CONVERGE_MS = 30_000;
const TARGETS = ['supervisor', ...ROLES, 'helper', 'database', 'vmm', 'guest'] as const;
type Target = (typeof TARGETS)[number];

/**
 * A snapshot may hold the command that is about to crash the guest, and whoever resumes there goes on with it. So it is for
 * one generation, and looks which one it is right before, by what has run once already and so takes no time. It crashes a
 * sandbox that was paused meanwhile once more, but no recovered one again and again.
 */
const CRASH = `
import os, sys
trigger, generation = os.open("/proc/sysrq-trigger", os.O_WRONLY), os.open("/run/space/generation", os.O_RDONLY)
mine = sys.argv[1].encode()
for key in b"h", b"c":
    if os.pread(generation, 32, 0).strip() == mine: os.write(trigger, key)
`;

interface Place {
  readonly daemon: Daemon;
  readonly config: Config;
  readonly port: number;
}

/** What the test knows of one sandbox: the last number that was acknowledged as written, and as part of a snapshot. */
interface Tracked {
  readonly sandbox: Sandbox;
  attempted: number;
  acknowledged: number;
  snapshotted: number;
}

it(`survives ${ROUNDS} kills under load`, { timeout: ROUNDS * 60_000 + 120_000 }, async () => {
  const seed = Number(process.env['SPACE_SEED'] ?? Date.now() % 1_000_000);
  console.log(`survival: seed ${seed}`);
  const random = seeded(seed);
  const config = testConfig(await mkdtemp('/var/tmp/space-e2e-'));
  const port = await freePort(Math.random);
  let daemon = await startDaemon(config, port);
  try {
    const connection = { baseUrl: daemon.url, apiKey: daemon.apiKey ?? '' };
    const all = await Promise.all(Array.from({ length: SANDBOXES }, () => track(connection)));
    for (let round = 1; round <= ROUNDS; round++) {
      const target = TARGETS[Math.floor(random() * TARGETS.length)] ?? 'supervisor';
      const load = startLoad(all, random);
      await sleep(100 + random() * 1400);
      const where = `seed ${seed}, round ${round}: ${target}`;
      // A long run says how far it is.
      if (ROUNDS > 20) console.log(`${new Date().toISOString()} ${where}`);
      daemon = await kill(target, all, { daemon, config, port }, random);
      await load.stop();
      await expectNothingStray(all, { daemon, config, port }, where, target === 'guest');
    }
  } finally {
    await endDaemon(daemon, 'SIGKILL');
    await (await startPlatform(config)).close();
    await removeAll(config);
  }
});

async function track(connection: { baseUrl: string; apiKey: string }): Promise<Tracked> {
  const sandbox = await Sandbox.create({ ...connection, size: { memoryMib: 256 } });
  await sandbox.files.write('value', '0');
  return { sandbox, attempted: 0, acknowledged: 0, snapshotted: -1 };
}

/** Writes, snapshots, pauses and commands on each sandbox, until stopped; errors are what the kill brings about. */
function startLoad(all: readonly Tracked[], random: () => number): { stop(): Promise<void> } {
  let stopped = false;
  const workers = all.map(async (tracked) => {
    while (!stopped) await step(tracked, random()).catch(() => sleep(50));
  });
  return {
    async stop() {
      stopped = true;
      await Promise.all(workers);
    },
  };
}

async function step(tracked: Tracked, choice: number): Promise<void> {
  const { sandbox } = tracked;
  if (choice < 0.5) {
    tracked.attempted += 1;
    const value = tracked.attempted;
    await sandbox.files.write('value', `${value}`, { signal: AbortSignal.timeout(20_000) });
    tracked.acknowledged = value;
  } else if (choice < 0.7) {
    const value = tracked.acknowledged;
    await sandbox.snapshot();
    tracked.snapshotted = value;
  } else if (choice < 0.85) {
    const value = tracked.acknowledged;
    await sandbox.pause();
    tracked.snapshotted = value;
  } else {
    await sandbox.run(['/bin/true'], { signal: AbortSignal.timeout(20_000) });
  }
}

async function kill(target: Target, all: readonly Tracked[], place: Place, random: () => number): Promise<Daemon> {
  const { daemon, config, port } = place;
  switch (target) {
    case 'supervisor':
      await endDaemon(daemon, 'SIGKILL');
      return startDaemon(config, port);
    case 'control':
    case 'node':
    case 'gateway':
      await killRole(daemon, target);
      return daemon;
    case 'helper':
      await killOneNaming(`${config.runDir}/helper/config`, daemon, random);
      return daemon;
    case 'database':
      await killOneNaming(`${config.dataDir}/control/postgres`, daemon, random);
      return daemon;
    case 'vmm':
      await killOneNaming(`${config.dataDir}/vaults/default/mnt/lives`, daemon, random);
      return daemon;
    case 'guest': {
      // The kernel and the agent, which is its first process, go together.
      const { sandbox } = all[Math.floor(random() * all.length)] ?? {};
      const options = { user: 'root', signal: AbortSignal.timeout(20_000) };
      const generation = (await sandbox?.files.read('/run/space/generation').catch(() => '')) ?? '';
      await sandbox?.run(['/usr/bin/python3', '-c', CRASH, generation.trim()], options).catch(() => undefined);
      return daemon;
    }
  }
}

async function killOneNaming(text: string, daemon: Daemon, random: () => number): Promise<void> {
  const pids = (await processesNaming(text))
    .map((name) => Number(name.split(' ')[1]))
    .filter((pid) => pid !== daemon.process.pid);
  const pid = pids[Math.floor(random() * pids.length)];
  try {
    if (pid !== undefined) process.kill(pid, 'SIGKILL');
  } catch {
    // It ended by itself in this very moment.
  }
}

/** Usable: a command reads the value. True: it is one that was written, and not older than what was promised. */
async function converge(tracked: Tracked, where: string): Promise<void> {
  const { sandbox } = tracked;
  const deadline = Date.now() + CONVERGE_MS;
  let recovered = false;
  for (;;) {
    try {
      await sandbox.refresh();
      if (sandbox.status === 'crashed') {
        recovered = true;
        await sandbox.resume();
      }
      const value = Number(await sandbox.files.read('value'));
      const oldest = recovered && tracked.snapshotted >= 0 ? tracked.snapshotted : tracked.acknowledged;
      expect(value, `${where}: lost what was acknowledged`).toBeGreaterThanOrEqual(oldest);
      expect(value, `${where}: read what was never written`).toBeLessThanOrEqual(tracked.attempted);
      tracked.acknowledged = value;
      if (recovered) tracked.attempted = value;
      return;
    } catch (error) {
      if (error instanceof Error && error.name === 'AssertionError') throw error;
      if (Date.now() > deadline)
        throw new Error(`${where}: ${sandbox.id} is ${sandbox.status} and not usable`, { cause: error });
      await sleep(200);
    }
  }
}

/** All run, each with one VMM; one folder per life, one process per role. `again`: a sandbox may crash once more. */
async function expectNothingStray(
  all: readonly Tracked[],
  { daemon, config }: Place,
  where: string,
  again: boolean,
): Promise<void> {
  const lives = `${config.dataDir}/vaults/default/mnt/lives`;
  for (const tracked of all) await converge(tracked, where);
  const running = async () => {
    if (again) for (const tracked of all) await converge(tracked, where);
    return { vmms: (await processesNaming(lives)).length, states: await Promise.all(all.map(stateOf)) };
  };
  await expect
    .poll(running, { timeout: CONVERGE_MS, message: `${where}: VMMs` })
    .toEqual({ vmms: all.length, states: all.map(() => 'running') });
  await expect
    .poll(async () => (await readdir(lives)).length, { timeout: CONVERGE_MS, message: `${where}: lives` })
    .toBe(all.length);
  await expect
    .poll(async () => [...(await rolesOf(daemon)).keys()].sort(), { timeout: CONVERGE_MS, message: `${where}: roles` })
    .toEqual([...ROLES].sort());
}

async function stateOf({ sandbox }: Tracked): Promise<string> {
  await sandbox.refresh();
  return sandbox.status;
}

/** mulberry32. */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
