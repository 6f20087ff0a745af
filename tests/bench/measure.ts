/** The measurements: the node's own times for what happens inside it, a client's times for what goes over the API. */
import type { Sandbox } from '@space/sdk';
import type { Platform } from '@space/server';
import { makeWorld, type World } from '../e2e/world.ts';

export interface Measured {
  readonly accelerator: string;
  readonly vmm: string;
  readonly samples: ReadonlyMap<string, readonly number[]>;
}

export async function measure(rounds: number, say: (text: string) => void): Promise<Measured> {
  await using world = await makeWorld();
  const samples = new Samples();
  say('building the ready snapshot');
  await using sandbox = await world.create();
  await sandbox.run('true');
  const { accelerator, vmmVersion } = await world.platform.node.capabilities();
  for (let round = 1; round <= rounds; round++) {
    if (round % 20 === 0) say(`round ${round} of ${rounds}`);
    await samples.timed('exec', () => sandbox.run(['/bin/true']));
    await snapshotRound(sandbox, samples);
    await cloneRound(world, samples);
    await pauseRound(sandbox, world.platform, samples);
  }
  for (let round = 1; round <= Math.ceil(rounds / 5); round++) await forkRound(sandbox, samples);
  return { accelerator: accelerator.name, vmm: vmmVersion, samples: samples.all };
}

class Samples {
  readonly all = new Map<string, number[]>();

  add(name: string, ms: number): void {
    const times = this.all.get(name);
    if (times === undefined) this.all.set(name, [ms]);
    else times.push(ms);
  }

  async timed<T>(name: string, action: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    const result = await action();
    this.add(name, performance.now() - startedAt);
    return result;
  }
}

/** The guest has written a little since the last snapshot, as one that does something has. */
async function snapshotRound(sandbox: Sandbox, samples: Samples): Promise<void> {
  await sandbox.run('head -c 1000000 /dev/urandom > work');
  const { timings } = await samples.timed('snapshot.call', () => sandbox.snapshot());
  if (timings === null) throw new Error('a new snapshot has no timings');
  samples.add('snapshot.stopped', timings.stoppedMs);
  samples.add('snapshot.frozen', timings.frozenMs);
  samples.add('snapshot.total', timings.totalMs);
}

/** A copy of the ready snapshot, as create makes it: when its vCPUs run, when it is the user's, and its first command. */
async function cloneRound(world: World, samples: Samples): Promise<void> {
  const sandbox = await samples.timed('create.call', () => world.create());
  const life = lastLife(world.platform, sandbox);
  samples.add('create.running', life.runningMs);
  samples.add('create.ready', life.readyMs);
  await samples.timed('create.first_command', () => sandbox.run(['/bin/true']));
  await sandbox.delete();
}

async function pauseRound(sandbox: Sandbox, platform: Platform, samples: Samples): Promise<void> {
  await samples.timed('pause', () => sandbox.pause());
  await samples.timed('resume.call', () => sandbox.resume());
  const life = lastLife(platform, sandbox);
  samples.add('resume.running', life.runningMs);
  samples.add('resume.ready', life.readyMs);
  await samples.timed('resume.first_command', () => sandbox.run(['/bin/true']));
}

async function forkRound(sandbox: Sandbox, samples: Samples): Promise<void> {
  const point = await sandbox.snapshot();
  const [child] = await samples.timed('fork.1', () => sandbox.fork(1));
  await child?.delete();
  await samples.timed('rewind', () => sandbox.rewind(point));
}

function lastLife(platform: Platform, sandbox: Sandbox) {
  const life = platform.startedLives.get(sandbox.id);
  if (life === undefined) throw new Error(`${sandbox.id} was not seen to start`);
  return life;
}
