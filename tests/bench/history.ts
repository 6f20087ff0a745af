/**
 * What history costs: `node tests/bench/history.ts [points [idle,writing,many]]`, as root. Prints what an idle guest rewrites by itself, how long a
 * guest that writes is held up by a schedule of 10 s, what a point takes as their number grows, and how long an fsync
 * in a guest takes while 100 points are removed.
 */
import { execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sandbox } from '@space/sdk';
import { deleteSnapshot } from '@space/sdk';
import { makeWorld, type World } from '../e2e/world.ts';

type SandboxId = Parameters<World['platform']['node']['changed']>[0];

const POINTS = Number(process.argv[2] ?? 250);
const OFF = { snapshots: { everyMs: 'off' as const }, idle: { pauseAfterMs: null } };
const WRITER = 'while :; do head -c 2097152 /dev/urandom > data; sync; sleep 0.2; done';
/** Prints how long each fsync of 4 KiB took, in microseconds. */
const FSYNC = `
import os, sys, time
f = os.open('probe', os.O_CREAT | os.O_WRONLY)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    os.pwrite(f, os.urandom(4096), 0)
    start = time.monotonic()
    os.fsync(f)
    print(int((time.monotonic() - start) * 1e6))
    time.sleep(0.02)
`;

await using world = await makeWorld();
print(
  `kernel ${execFileSync('uname', ['-r']).toString().trim()}, load ${(await readFile('/proc/loadavg', 'utf8')).split(' ')[0]}`,
);
const parts = { idle, writing, many };
const asked = process.argv[3]?.split(',') ?? Object.keys(parts);
for (const [name, part] of Object.entries(parts)) if (asked.includes(name)) await part();

async function idle(): Promise<void> {
  await using sandbox = await world.create(OFF);
  await sandbox.run('true');
  await sandbox.snapshot();
  for (let seconds = 10; seconds <= 120; seconds += 10) {
    await sleep(10_000);
    if (seconds === 60) await sandbox.snapshot();
    const changed = await world.platform.node.changed(sandbox.id as SandboxId);
    print(`idle for ${seconds} s: memory ${kib(changed?.memoryBytes)} KiB, disk ${kib(changed?.diskBytes)} KiB`);
  }
}

async function writing(): Promise<void> {
  await using sandbox = await world.create({ snapshots: { everyMs: 10_000, budgetMs: 2_000 } });
  await sandbox.start(WRITER);
  await sleep(150_000);
  const { snapshots, skipped } = await sandbox.timeline();
  print(`writing guest, every 10 s: ${snapshots.length} points, ${skipped.length} skipped`);
  print(`  frozen, ms: ${quantiles(snapshots.map(({ timings }) => timings?.frozenMs ?? 0))}`);
  print(`  stopped, ms: ${quantiles(snapshots.map(({ timings }) => timings?.stoppedMs ?? 0))}`);
  print(
    `  changed, MiB: ${quantiles(snapshots.map(({ changed: c }) => ((c?.diskBytes ?? 0) + (c?.memoryBytes ?? 0)) / 2 ** 20))}`,
  );
}

async function many(): Promise<void> {
  await using sandbox = await world.create(OFF);
  const { processId } = await sandbox.start(WRITER);
  const taken = [];
  for (let count = 0; count < POINTS; count += 1) taken.push(await sandbox.snapshot());
  for (const [from, to] of [
    [0, 50],
    [POINTS - 50, POINTS],
  ] as const) {
    const part = taken.slice(from, to);
    print(`points ${from} to ${to}: frozen ${quantiles(part.map(({ timings }) => timings?.frozenMs ?? 0))}`);
    print(`  in all, ms: ${quantiles(part.map(({ timings }) => timings?.totalMs ?? 0))}`);
  }
  await sandbox.kill(processId);
  await sandbox.files.write('probe.py', FSYNC);
  print(`fsync, ms, alone: ${quantiles(await fsyncs(sandbox, 15))}`);
  const removing = (async () => {
    const start = performance.now();
    for (const { id } of taken.slice(0, 100)) {
      await deleteSnapshot(id, world.connection);
      await sleep(100);
    }
    return performance.now() - start;
  })();
  const during = await fsyncs(sandbox, 25);
  print(`fsync, ms, while 100 points are removed (${Math.round(await removing)} ms): ${quantiles(during)}`);
}

async function fsyncs(sandbox: Sandbox, seconds: number): Promise<readonly number[]> {
  const { stdout } = await sandbox.run(`python3 probe.py ${seconds}`);
  return stdout
    .trim()
    .split('\n')
    .map((us) => Number(us) / 1000);
}

function quantiles(values: readonly number[]): string {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) =>
    (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0).toFixed(1);
  return `n ${values.length}  p50 ${at(0.5)}  p95 ${at(0.95)}  max ${at(1)}`;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function kib(bytes: number | undefined): number {
  return Math.round((bytes ?? 0) / 1024);
}
