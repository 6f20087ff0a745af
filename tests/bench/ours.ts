/** What is measured of SPACE: what a client sees of each call, and the times that the platform tells with its answers. */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { ForkError, type Sandbox } from '@space/sdk';
import type { Installation } from './installation.ts';
import type { Samples } from './samples.ts';
import { stallsOver } from './ticker.ts';

export const TRUE = ['/bin/true'];
/** The guest has written a little since the last point, as one that does something has. */
export const DIRTY = 'head -c 1000000 /dev/urandom > work';

/** What the guest holds, here and in the baseline: a program with data that does not compress, and that rests. */
export const WORKING_SET_MIB = 128;
export const HOLD_WORKING_SET = [
  'python3',
  '-c',
  `import os, time
data = [os.urandom(1 << 20) for _ in range(${WORKING_SET_MIB})]
open('/dev/shm/held', 'w').close()
time.sleep(1e9)`,
];
export const WAIT_FOR_WORKING_SET = 'until [ -e /dev/shm/held ]; do sleep 0.05; done';

export interface Ours {
  readonly installation: Installation;
  readonly samples: Samples;
  readonly sandbox: Sandbox;
}

/**
 * Commands in a warmed VM, and the smallest thing that the agent is asked: which processes there are. Each by itself, so that none is
 * timed in another's wake; what the first commands after a verb take is that verb's `first_command`.
 */
export async function answerRound({ samples, sandbox }: Ours, count: number): Promise<void> {
  for (let round = 0; round < count; round++) await sandbox.run(TRUE);
  for (let round = 0; round < count; round++) await samples.timed('exec', () => sandbox.run(TRUE));
  for (let round = 0; round < count; round++) await samples.timed('ping', () => sandbox.processes());
}

/** Once with a member in the pool, and once with none, before it is filled again. What is measured next is not beside a fill. */
export async function createRound({ installation, samples }: Ours): Promise<void> {
  const create = async (name: string) => {
    const startedAt = performance.now();
    const sandbox = await samples.timed(name, () => installation.create());
    await sandbox.run(TRUE);
    samples.add(`${name}.first_command`, performance.now() - startedAt);
    return sandbox;
  };
  const before = await installation.poolFilled();
  const made = [await create('create.pool'), await create('create.clone')];
  if ((await installation.poolHits()) !== before + 1)
    throw new Error('the first create was no hit, or the second one was');
  for (const sandbox of made) await sandbox.delete();
  await installation.poolFilled();
}

export async function snapshotRound({ samples, sandbox }: Ours): Promise<void> {
  await sandbox.run(DIRTY);
  const { timings } = await samples.timed('snapshot.call', () => sandbox.snapshot());
  if (timings === null) throw new Error('a new snapshot has no timings');
  samples.add('snapshot.stopped', timings.stoppedMs);
  samples.add('snapshot.frozen', timings.frozenMs);
  samples.add('snapshot.total', timings.totalMs);
}

export async function pauseRound({ installation, samples, sandbox }: Ours): Promise<void> {
  await sandbox.run(DIRTY);
  await samples.timed('pause', () => sandbox.pause());
  const startedAt = performance.now();
  await samples.timed('resume.call', () => sandbox.resume());
  await sandbox.run(TRUE);
  samples.add('resume.first_command', performance.now() - startedAt);
  samples.add('resume.running', (await installation.lastStart(sandbox.id)).runningMs);
}

export async function forkRound({ installation, samples, sandbox }: Ours): Promise<void> {
  await sandbox.run(DIRTY);
  const calledAt = Date.now();
  const startedAt = performance.now();
  const copies = await samples.timed('fork.1', () => sandbox.fork(1));
  for (const copy of copies) {
    await copy.run(TRUE);
    samples.add('fork.first_command', performance.now() - startedAt);
    const { orderedAt, runningMs } = await installation.lastStart(copy.id);
    samples.add('fork.running', orderedAt - calledAt + runningMs);
    await copy.delete();
  }
}

export async function manyForksRound({ samples, sandbox }: Ours): Promise<void> {
  await sandbox.run(DIRTY);
  const copies = await samples
    .timed('fork.10', () => sandbox.fork(10))
    .catch(async (thrown: unknown) => {
      if (thrown instanceof ForkError) for (const copy of thrown.sandboxes) await copy.delete();
      throw thrown;
    });
  for (const copy of copies) await copy.delete();
}

/** With the present kept, as it is unless one asks otherwise. */
export async function rewindRound({ samples, sandbox }: Ours): Promise<void> {
  const point = await sandbox.snapshot();
  await sandbox.run(DIRTY);
  await samples.timed('rewind', () => sandbox.rewind(point));
}

/** Without, as the baseline does it. */
export async function discardingRewindRound({ installation, samples, sandbox }: Ours): Promise<void> {
  const point = await sandbox.snapshot();
  await sandbox.run(DIRTY);
  await samples.timed('rewind.discard', () => sandbox.rewind(point, { keepPresent: false }));
  samples.add('rewind.running', (await installation.lastStart(sandbox.id)).runningMs);
}

/** The longest gap of a 1 ms ticker in the guest, by its own clock, over each of some snapshots. */
export async function stallRound({ samples, sandbox }: Ours, count: number): Promise<void> {
  const stalls = await stallsOver(sandbox, count, async () => {
    await sandbox.run(DIRTY);
    return () => sandbox.snapshot();
  });
  for (const stall of stalls) samples.add('snapshot.guest_stall', stall);
}

const IDLE_SIZE = { memoryMib: 256 };
const IDLE_MS = 5_000;

/** What sandboxes that do nothing take of the host: their VMMs' proportional set size. */
export async function idleRound({ installation, samples }: Ours, count: number): Promise<void> {
  await installation.poolFilled();
  const before = await installation.vmmPids();
  const idle: Sandbox[] = [];
  for (let one = 0; one < count; one++) {
    const sandbox = await installation.create({ size: IDLE_SIZE });
    await sandbox.run(TRUE);
    idle.push(sandbox);
  }
  await sleep(IDLE_MS);
  for (const pid of await installation.vmmPids()) {
    if (before.has(pid)) continue;
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
    samples.add('memory.idle', Number(/^Pss:\s+(\d+) kB$/m.exec(rollup)?.[1]) / 1024);
  }
  for (const sandbox of idle) await sandbox.delete();
}
