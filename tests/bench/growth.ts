/**
 * How what state costs grows: with the memory that was rewritten, with the size of the memory, and with the number of
 * sandboxes; and what a guest notices of being snapshotted every minute. On an installation of its own, by its API.
 *
 *   npm run bench:growth -- [--json FILE] [--full] [--only dirty,size,throughput,restart]
 *
 * `npm run bench:plots -- FILE` draws it.
 */
import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Sandbox } from '@space/sdk';
import type { GrowthReport, Point, Series } from './growth-report.ts';
import { startInstallation } from './installation.ts';
import { TRUE } from './ours.ts';
import { startOfReport } from './report.ts';
import { Samples, summarise } from './samples.ts';
import { stallsOver } from './ticker.ts';

const options = {
  json: { type: 'string' },
  only: { type: 'string' },
  full: { type: 'boolean', default: false },
} as const;
const { values } = parseArgs({ options });

/** For fifty sandboxes of the smallest size. */
const SIZES = { memoryMib: 14_000, poolMib: 0 };
const ROUNDS = values.full ? 100 : 10;
const DIRTY_MIB = [7, 50, 200, 600];
const MEMORY_MIB = [256, 512, 1024, 2048, 4096];
/** What is rewritten where the size is what varies; and the size where that is. */
const LITTLE_MIB = 7;
const ROOMY_MIB = 1024;
const THROUGHPUT_ROUNDS = values.full ? 10 : 2;
const MINUTE_MS = 60_000;
const MANY = 50;
const RESTARTS = values.full ? 10 : 3;
/** Nothing happens by itself. */
const STILL = { snapshots: { everyMs: 'off' as const }, idle: { pauseAfterMs: null } };

/** Rewrites as many MiB of memory as it is told, with what does not compress. */
const REWRITER = `
import os
held = open('/dev/shm/held', 'w+b')
def answer(asked):
    held.seek(0)
    block = os.urandom(1 << 20)
    for _ in range(int(asked)):
        held.write(block)
    held.flush()
`;

/** Hashes and rewrites 32 MiB, over and over; tells how often it has done a piece of some milliseconds. */
const WORKER = `
import hashlib, mmap, threading
memory, done = mmap.mmap(-1, 32 << 20), 0
def work():
    global done
    at = 0
    while True:
        block = hashlib.sha256(memory[at:at + 65536]).digest() * 128
        memory[at:at + len(block)] = block
        at = (at + 65536) % len(memory)
        done += 1
threading.Thread(target=work, daemon=True).start()
def answer(asked):
    return done
`;

/** Pipes rather than streams of the API, which end when the sandbox is paused. */
const LOOP = `
import os
os.mkfifo('/tmp/ask')
os.mkfifo('/tmp/answer')
while True:
    with open('/tmp/ask') as asked:
        said = answer(asked.read())
    with open('/tmp/answer', 'w') as out:
        print(said, file=out)
`;

const say = (text: string) => console.error(text);
const machineAtEnd = startOfReport();
await using installation = await startInstallation(SIZES);
const { accelerator, vmmVersion } = await installation.capabilities();

const parts = { dirty: byDirtyMemory, size: byMemorySize, throughput, restart: manyRestarts };
const asked = values.only?.split(',') ?? Object.keys(parts);
const series: Record<string, Series> = {};
for (const [name, part] of Object.entries(parts)) {
  if (!asked.includes(name)) continue;
  series[name] = await part();
  // What comes next takes minutes, and what there is should not go with it.
  await write();
}
const report = reportOf();
console.log(`${report.machine.cores} × ${report.machine.cpu}, load ${report.machine.load.before}, ${accelerator.name}`);
for (const { varies, points } of Object.values(series)) {
  console.log(`\n${varies}`);
  for (const { x, results } of points)
    console.log(
      `${String(x).padStart(8)}  ${results.map((r) => `${r.name} ${r.p50} ${r.unit} (n ${r.n})`).join('  ')}`,
    );
}

function reportOf(): GrowthReport {
  return { machine: machineAtEnd(vmmVersion, 'template base'), accelerator: accelerator.name, series };
}

async function write(): Promise<void> {
  if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(reportOf(), null, 2)}\n`);
}

async function byDirtyMemory(): Promise<Series> {
  await using sandbox = await installation.create({ ...STILL, size: { memoryMib: ROOMY_MIB } });
  const rewrite = await startProgram(sandbox, REWRITER);
  const points: Point[] = [];
  for (const mib of DIRTY_MIB) points.push(await costsOf(mib, sandbox, () => rewrite(mib)));
  return { varies: `MiB of memory rewritten since the last snapshot, of ${ROOMY_MIB}`, points };
}

async function byMemorySize(): Promise<Series> {
  const points: Point[] = [];
  for (const memoryMib of MEMORY_MIB) {
    await using sandbox = await installation.create({ ...STILL, size: { memoryMib } });
    const rewrite = await startProgram(sandbox, REWRITER);
    // Some of the memory holds something.
    await rewrite(memoryMib / 4);
    points.push(await costsOf(memoryMib, sandbox, () => rewrite(LITTLE_MIB)));
  }
  return { varies: `MiB of memory, ${LITTLE_MIB} of them rewritten since the last snapshot`, points };
}

/** Snapshots and pauses, each after a rewrite, and what they stored. */
async function costsOf(x: number, sandbox: Sandbox, rewrite: () => Promise<unknown>): Promise<Point> {
  const samples = new Samples();
  await rewrite();
  await sandbox.snapshot();
  const stalls = await stallsOver(sandbox, ROUNDS, async () => {
    await rewrite();
    return async () => {
      const { changed, timings } = await sandbox.snapshot();
      if (timings === null || changed === null) throw new Error('a new snapshot says what it cost');
      samples.add('snapshot.stopped', timings.stoppedMs);
      samples.add('snapshot.total', timings.totalMs);
      samples.add('memory.stored', ((changed.memoryBytes ?? 0) + changed.diskBytes) / 2 ** 20);
    };
  });
  for (const stall of stalls) samples.add('snapshot.guest_stall', stall);
  for (let round = 0; round < ROUNDS; round++) {
    await rewrite();
    await samples.timed('pause', () => sandbox.pause());
    await sandbox.resume();
    samples.add('resume.running', (await installation.lastStart(sandbox.id)).runningMs);
  }
  say(`${x}: done`);
  return pointOf(x, samples);
}

/** Work done in a minute, with a snapshot in it and without, in turns. */
async function throughput(): Promise<Series> {
  await using sandbox = await installation.create({ ...STILL });
  const done = await startProgram(sandbox, WORKER);
  const each = { none: new Samples(), 'every minute': new Samples() };
  for (let round = 0; round < THROUGHPUT_ROUNDS; round++) {
    for (const [name, samples] of Object.entries(each)) {
      const [before, startedAt] = [await done(0), performance.now()];
      if (name !== 'none') await sandbox.snapshot();
      await sleep(MINUTE_MS - (performance.now() - startedAt));
      const pieces = (await done(0)) - before;
      samples.add('rate.pieces', (pieces * 1000) / (performance.now() - startedAt));
      say(`throughput ${name}: done`);
    }
  }
  const points = Object.entries(each).map(([x, samples]) => pointOf(x, samples));
  return { varies: 'snapshots of a guest that hashes and rewrites 32 MiB without rest', points };
}

/** All processes of the platform are killed while its sandboxes run. */
async function manyRestarts(): Promise<Series> {
  const samples = new Samples();
  const all: Sandbox[] = [];
  for (let one = 0; one < MANY; one++) {
    const sandbox = await installation.create({ ...STILL, size: { memoryMib: 256 } });
    await sandbox.run(TRUE);
    all.push(sandbox);
  }
  say(`${MANY} sandboxes run`);
  for (let round = 0; round < RESTARTS; round++) {
    const startedAt = performance.now();
    await samples.timed('restart.ready', () => installation.restart());
    await Promise.all(all.map((sandbox) => sandbox.run(TRUE)));
    samples.add('restart.all_answered', performance.now() - startedAt);
  }
  for (const sandbox of all) await sandbox.delete();
  return {
    varies: 'sandboxes that run while all processes of the platform are killed',
    points: [pointOf(MANY, samples)],
  };
}

function pointOf(x: number | string, samples: Samples): Point {
  return { x, results: samples.names().map((name) => summarise(name, samples.of(name))) };
}

type Ask = (asked: number) => Promise<number>;

/** Starts a program in the guest that answers. */
async function startProgram(sandbox: Sandbox, source: string): Promise<Ask> {
  await sandbox.files.write('/tmp/program.py', `${source}${LOOP}`);
  await sandbox.start(['python3', '/tmp/program.py']);
  await sandbox.run('until [ -p /tmp/answer ]; do sleep 0.05; done');
  return async (asked) => {
    const { stdout } = await sandbox.run(`echo ${asked} > /tmp/ask; cat /tmp/answer`, { timeoutMs: 120_000 });
    return Number(stdout);
  };
}
