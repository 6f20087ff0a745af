/**
 * What a week of points costs: `node test/week.ts [clustered|random|places [points [rest]]]`, as root. A guest of 512 MiB is snapshotted again and
 * again with nothing in between, or so many milliseconds, and every point is kept, while a neighbour writes and syncs 4 KiB in the same vault.
 *
 * - `clustered` rewrites 512 KiB of memory in pieces of 64 KiB before each point, three of four in a working set that wanders,
 *   and appends 64 KiB to its disk: 10,080 points, one a minute for a week.
 * - `random` rewrites 100 pages of 4 KiB anywhere in its memory: 1,000 points. No layout of files is worse.
 * - `places` rewrites the same 330 places of one or two pages, 12 others, and 1 MiB in four pieces: 400 points, each as a pause takes it, with half a
 *   second between them, in which the vault does what it does ahead of the next point. It is what an agent's guest was seen to do.
 *
 * Before the first point and after the last the vault is closed and opened again, its points are listed, and each is read, as a node
 * does when it starts. `TMPDIR=/dev/shm` keeps the loop file in memory, so that no disk is measured. SIGINT ends the points early, and what
 * follows is measured with those that there are.
 */
import { createHash, randomBytes, randomFillSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { open, readFile, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { type AgingPoint, decideRetention, type LifeId, newId, type SnapshotId } from '@space/core';
import { manifestFor } from '@space/testkit/vault-suite';
import { openVault } from '../src/index.ts';
import { makeFolder, takeDown } from './world.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const MEMORY_BYTES = 512 * MIB;
const DISK_BYTES = 8192 * MIB;
const VAULT_BYTES = 40 * 1024 * MIB;
const REMOVED = 200;
const REMOVAL_PAUSE_MS = 100;
const MINUTE_MS = 60_000;

const KINDS = { clustered: 10_080, random: 1_000, places: 400 } as const;
const asked = process.argv[2] ?? 'clustered';
const kind = asked === 'random' || asked === 'places' ? asked : 'clustered';
const count = Number(process.argv[3] ?? KINDS[kind]);
const restMs = Number(process.argv[4] ?? (kind === 'places' ? 500 : 0));
const chance = { bytes: (length: number) => randomBytes(length) };
const deviceState = randomBytes(136_000);
const size = { vcpus: 1, memoryMib: MEMORY_BYTES / MIB, diskMib: DISK_BYTES / MIB };
const say = (line: string) => process.stdout.write(`${line}\n`);

/** Where the guest writes before point `n`, and how much each time. */
function memoryWrites(n: number): readonly { readonly at: number; readonly bytes: number }[] {
  const anywhere = (bytes: number) => ({ at: Math.floor(Math.random() * (MEMORY_BYTES / bytes)) * bytes, bytes });
  if (kind === 'random') return Array.from({ length: 100 }, () => anywhere(4 * KIB));
  if (kind === 'places') return placesOf(n);
  const hot = ((n * 16 * KIB) % (MEMORY_BYTES - 16 * MIB)) & ~(64 * KIB - 1);
  return Array.from({ length: 8 }, (_, piece) =>
    piece % 4 === 3 ? anywhere(64 * KIB) : { at: hot + Math.floor(Math.random() * 256) * 64 * KIB, bytes: 64 * KIB },
  );
}

const PLACES = Array.from({ length: 330 }, (_, place) => ({
  at: Math.floor(Math.random() * (300 * 256)) * 4 * KIB,
  bytes: (1 + (place % 2)) * 4 * KIB,
}));

/** What the page cache took in lies in a region of its own, which comes round. */
function placesOf(n: number): readonly { readonly at: number; readonly bytes: number }[] {
  const once = () => ({ at: Math.floor(Math.random() * (300 * 256)) * 4 * KIB, bytes: 8 * KIB });
  const cached = Array.from({ length: 4 }, (_, piece) => ({
    at: 400 * MIB + ((n * 4 + piece) % 64) * 256 * KIB,
    bytes: 256 * KIB,
  }));
  return [...PLACES, ...Array.from({ length: 12 }, once), ...cached];
}

function manifestOf(snapshotId: SnapshotId) {
  const sha256 = createHash('sha256').update(deviceState).digest('hex');
  return { ...manifestFor(snapshotId), size, deviceState: { sha256, sizeBytes: deviceState.byteLength } };
}

function quantiles(values: readonly number[]): string {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) =>
    (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0).toFixed(1);
  return `p50 ${at(0.5)} p95 ${at(0.95)} max ${at(1)}`;
}

async function timed<T>(into: number[], work: () => Promise<T>): Promise<T> {
  const start = performance.now();
  try {
    return await work();
  } finally {
    into.push(performance.now() - start);
  }
}

/** In a thread of its own, so that nothing of ours holds it up. */
const NEIGHBOUR = `
const { parentPort, workerData } = require('node:worker_threads');
const fs = require('node:fs');
const file = fs.openSync(workerData, 'w');
const bytes = Buffer.alloc(4096, 1);
setInterval(() => {
  const start = performance.now();
  fs.writeSync(file, bytes, 0, 4096, 0);
  fs.fdatasyncSync(file);
  parentPort.postMessage(performance.now() - start);
}, 50);
`;

const options = await makeFolder(VAULT_BYTES);
const { folder } = options;
let vault = await openVault(options);
const mount = join(folder, 'mnt');
const uuid = (await readFile('/proc/self/mountinfo', 'utf8')).includes(mount)
  ? JSON.parse(readFileSync(join(mount, 'vault.json'), 'utf8')).id
  : '';
const used = (group: string) => Number(readFileSync(`/sys/fs/btrfs/${uuid}/allocation/${group}/bytes_used`, 'utf8'));
/** What a node does with it when it starts. */
async function restart(): Promise<void> {
  const [closing, opening, listing, reading]: [number[], number[], number[], number[]] = [[], [], [], []];
  await timed(closing, () => vault.close());
  await timed(opening, async () => {
    vault = await openVault(options);
  });
  const found = await timed(listing, () => vault.points());
  await timed(reading, async () => {
    for (const id of found) await vault.readPoint(id);
  });
  const [close, open, list, read] = [closing, opening, listing, reading].map(([ms = 0]) => ms.toFixed(1));
  say(`with ${found.length} points: closed in ${close}, opened in ${open}, listed in ${list}, all read in ${read}`);
}

let syncs: number[] = [];
const takeSyncs = () => {
  const taken = syncs;
  syncs = [];
  return quantiles(taken);
};
try {
  await writeFile(join(folder, 'root.img'), randomBytes(64 * MIB));
  await truncate(join(folder, 'root.img'), DISK_BYTES);
  await vault.importImage('root', join(folder, 'root.img'));
  await restart();
  const lifeId: LifeId = newId('life', chance);
  const source = { kind: 'image', digest: 'root', diskBytes: DISK_BYTES, memoryBytes: MEMORY_BYTES } as const;
  const files = await vault.createLife(lifeId, source);
  await using memory = await open(files.memory, 'r+');
  await using disk = await open(files.disk, 'r+');
  const filling = randomBytes(8 * MIB);
  for (let at = 0; at < MEMORY_BYTES; at += filling.length) await memory.write(filling, 0, filling.length, at);
  await vault.flush(lifeId);
  let neighbour = new Worker(NEIGHBOUR, { eval: true, workerData: join(mount, 'neighbour') });
  neighbour.on('message', (ms: number) => syncs.push(ms));
  await sleep(10_000);
  say(`${kind}, ${count} points, Linux ${(await readFile('/proc/sys/kernel/osrelease', 'utf8')).trim()}; ms`);
  say(`fsync of the neighbour alone: ${takeSyncs()}`);

  const piece = Buffer.alloc(256 * KIB);
  const points: SnapshotId[] = [];
  let flushes: number[] = [];
  let seals: number[] = [];
  const report = Math.max(50, Math.floor(count / 10));
  const tell = async () => {
    const looks: number[] = [];
    const { extents } = await timed(looks, () => vault.changed(lifeId));
    const load = (await readFile('/proc/loadavg', 'utf8')).split(' ')[0];
    say(
      `${points.length} points (load ${load}): flush ${quantiles(flushes)} | seal ${quantiles(seals)}` +
        ` | look ${looks[0]?.toFixed(0)}, ${extents} extents | fsync ${takeSyncs()} | data ${Math.round(used('data') / MIB)} MiB, metadata ${Math.round(used('metadata') / MIB)} MiB`,
    );
    [flushes, seals] = [[], []];
  };
  let stopped = false;
  process.once('SIGINT', () => {
    stopped = true;
  });
  for (let n = 0; n < count && !stopped; n += 1) {
    for (const { at, bytes } of memoryWrites(n)) await memory.write(randomFillSync(piece, 0, bytes), 0, bytes, at);
    if (kind !== 'random') {
      await disk.write(piece, 0, 64 * KIB, 64 * MIB + ((n * 64 * KIB) % (DISK_BYTES / 2)));
    }
    const snapshotId = newId('snapshot', chance);
    await timed(flushes, async () => {
      if (kind === 'places') {
        await Promise.all([vault.changed(lifeId), vault.flush(lifeId, { dataOnly: true })]);
        return;
      }
      await vault.flush(lifeId);
      await vault.flush(lifeId);
    });
    await timed(seals, () => vault.seal(lifeId, manifestOf(snapshotId), deviceState));
    points.push(snapshotId);
    await sleep(restMs);
    if (points.length % report === 0) await tell();
  }
  if (points.length % report !== 0) await tell();

  const aging: AgingPoint[] = points.map((id, n) => ({
    id,
    timeMs: n * MINUTE_MS,
    scheduled: true,
    kind: 'memory',
    hold: null,
  }));
  const decisions: number[] = [];
  const ladder = [{ forMs: 7 * 24 * 60 * MINUTE_MS, everyMs: 0 }];
  await timed(decisions, async () => decideRetention(aging, ladder, (count + 100) * MINUTE_MS));
  say(`retention of ${points.length} points decided in ${decisions[0]?.toFixed(1)}`);

  for (const [name, from] of [
    ['oldest', points[0]],
    ['newest', points.at(-1)],
  ] as const) {
    if (from === undefined) continue;
    const clones: number[] = [];
    const fork: LifeId = newId('life', chance);
    await timed(clones, () => vault.createLife(fork, { kind: 'point', snapshotId: from }));
    await vault.deleteLife(fork);
    say(`a life from the ${name} point made in ${clones[0]?.toFixed(1)}`);
  }

  await neighbour.terminate();
  await memory.close();
  await disk.close();
  await restart();
  neighbour = new Worker(NEIGHBOUR, { eval: true, workerData: join(mount, 'neighbour') });
  neighbour.on('message', (ms: number) => syncs.push(ms));
  takeSyncs();
  const removals: number[] = [];
  const before = used('metadata') + used('data');
  for (const id of points.slice(0, Math.min(REMOVED, points.length / 2))) {
    await timed(removals, () => vault.deletePoint(id));
    await sleep(REMOVAL_PAUSE_MS);
  }
  say(`${removals.length} removed: ${quantiles(removals)} each | fsync meanwhile ${takeSyncs()}`);
  const start = performance.now();
  let last = used('metadata') + used('data');
  let stillSince = performance.now();
  while (performance.now() - stillSince < 3_000 && performance.now() - start < 120_000) {
    await sleep(250);
    const now = used('metadata') + used('data');
    if (now !== last) stillSince = performance.now();
    last = now;
  }
  say(
    `the cleaner was done ${Math.round(stillSince - start)} later, ${Math.round((before - last) / MIB)} MiB freed | fsync meanwhile ${takeSyncs()}`,
  );
  await neighbour.terminate();
} finally {
  await vault.close();
  await takeDown(folder);
}
