/**
 * How long the operations of a vault take: `node test/measure.ts [rounds [KiB]]`, as root. A 512 MB memory file of which 6 MB in
 * random pieces of 64 KiB (or as many as given), and as much of the disk, are rewritten before each point; points older than the last 20 are deleted.
 */
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes, randomFillSync } from 'node:crypto';
import { open, readFile, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type LifeId, newId, type SnapshotId } from '@space/core';
import { manifestFor } from '@space/testkit/vault-suite';
import { openVault } from '../src/index.ts';
import { makeFolder, takeDown } from './world.ts';

const MIB = 1024 * 1024;
const PIECE = Number(process.argv[3] ?? 64) * 1024;
const WRITTEN_BYTES = 6 * MIB;
const MEMORY_BYTES = 512 * MIB;
const DISK_BYTES = 2048 * MIB;
const KEPT = 20;
const rounds = Number(process.argv[2] ?? 200);
const chance = { bytes: (count: number) => randomBytes(count) };
const deviceState = randomBytes(136_000);
const times = new Map<string, number[]>();

async function timed<T>(name: string, work: () => Promise<T>): Promise<T> {
  const start = performance.now();
  const result = await work();
  times.set(name, [...(times.get(name) ?? []), performance.now() - start]);
  return result;
}

function manifestOf(snapshotId: SnapshotId) {
  const size = { vcpus: 1, memoryMib: MEMORY_BYTES / MIB, diskMib: DISK_BYTES / MIB };
  const sha256 = createHash('sha256').update(deviceState).digest('hex');
  return { ...manifestFor(snapshotId), size, deviceState: { sha256, sizeBytes: deviceState.byteLength } };
}

const options = await makeFolder(12_288 * MIB);
const { folder } = options;
let vault = await timed('open, new', () => openVault(options));
try {
  await writeFile(join(folder, 'root.img'), randomBytes(MIB));
  await truncate(join(folder, 'root.img'), DISK_BYTES);
  await vault.importImage('root', join(folder, 'root.img'));
  const lifeId: LifeId = newId('life', chance);
  const source = { kind: 'image', digest: 'root', diskBytes: DISK_BYTES, memoryBytes: MEMORY_BYTES } as const;
  const files = await vault.createLife(lifeId, source);
  {
    await using memory = await open(files.memory, 'r+');
    await using disk = await open(files.disk, 'r+');
    const filling = randomBytes(8 * MIB);
    for (let at = 0; at < MEMORY_BYTES; at += filling.length) await memory.write(filling, 0, filling.length, at);
    const piece = Buffer.alloc(PIECE);
    const points: SnapshotId[] = [];
    for (let round = 0; round < rounds; round += 1) {
      for (let count = 0; count < WRITTEN_BYTES / PIECE; count += 1) {
        const at = Math.floor(Math.random() * (MEMORY_BYTES / PIECE)) * PIECE;
        await memory.write(randomFillSync(piece), 0, PIECE, at);
      }
      await disk.write(piece, 0, PIECE, (round * PIECE) % DISK_BYTES);
      const snapshotId = newId('snapshot', chance);
      await timed('flush', () => vault.flush(lifeId));
      await timed('changed', () => vault.changed(lifeId));
      await timed('seal', () => vault.seal(lifeId, manifestOf(snapshotId), deviceState));
      await timed('readPoint', () => vault.readPoint(snapshotId));
      const fork: LifeId = newId('life', chance);
      await timed('createLife from point', () => vault.createLife(fork, { kind: 'point', snapshotId }));
      await timed('deleteLife', () => vault.deleteLife(fork));
      points.push(snapshotId);
      const oldest = points.length > KEPT ? points.shift() : undefined;
      if (oldest) await timed('deletePoint', () => vault.deletePoint(oldest));
    }
  }
  for (let round = 0; round < 5; round += 1) {
    await timed('close', () => vault.close());
    vault = await timed('open, existing', () => openVault(options));
  }
} finally {
  await vault.close();
  await takeDown(folder);
}

const load = (await readFile('/proc/loadavg', 'utf8')).split(' ').slice(0, 2).join(' ');
process.stdout.write(`load ${load}, ${execFileSync('uname', ['-r']).toString().trim()}, ${rounds} rounds, ms\n`);
for (const [name, all] of times) {
  const sorted = all.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]?.toFixed(1);
  process.stdout.write(`${name.padEnd(24)} p50 ${at(0.5)}  p95 ${at(0.95)}  max ${at(1)}\n`);
}
