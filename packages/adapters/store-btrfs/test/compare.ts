/**
 * A vault in a file beside an encrypted one, in turns in one run: `node test/compare.ts [turns]`, as root. Sequential and random
 * reading and writing by several at once, a durable write, a snapshot over dirty data, opening and closing, and what the vault server
 * takes of the processor.
 */
import { execFileSync } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { KeyBytes, VaultName } from '@space/core';
import { createSubvolume, snapshotSubvolume, syncFileSystem } from '../src/btrfs.ts';
import { forgetCached } from '../src/kernel.ts';
import { keyOf, makeContainers, serversOf } from './world.ts';

const MIB = 1024 * 1024;
const SIZE_BYTES = 4096 * MIB;
const FILE_BYTES = 384 * MIB;
const CHUNK = MIB;
const PAGE = 4096;
const AT_ONCE = 16;
const turns = Number(process.argv[2] ?? 3);

const world = await makeContainers();
const results = new Map<string, Map<string, number[]>>();
const note = (name: string, way: string, value: number): void => {
  const ways = results.get(name) ?? new Map<string, number[]>();
  results.set(name, ways.set(way, [...(ways.get(way) ?? []), value]));
};

async function elapsed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** Seconds of the processor that the vault servers have taken so far. */
async function serverSeconds(): Promise<number> {
  const ticks = await Promise.all(
    (await serversOf(world.folder)).map(async (pid) => {
      const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? [];
      return Number(fields[11]) + Number(fields[12]);
    }),
  );
  return ticks.reduce((sum, one) => sum + one, 0) / 100;
}

const block = Buffer.alloc(CHUNK);

async function writeAll(file: FileHandle): Promise<void> {
  randomFillSync(block);
  for (let at = 0; at < FILE_BYTES; at += CHUNK) await file.write(block, 0, CHUNK, at);
  await file.sync();
}

async function readAll(path: string): Promise<void> {
  await using file = await open(path);
  forgetCached(file.fd, 0, FILE_BYTES);
  for (let at = 0; at < FILE_BYTES; at += CHUNK) await file.read(block, 0, CHUNK, at);
}

async function readPages(path: string, count: number): Promise<void> {
  await using file = await open(path);
  forgetCached(file.fd, 0, FILE_BYTES);
  const reader = async () => {
    const page = Buffer.alloc(PAGE);
    for (let done = 0; done < count / AT_ONCE; done++) {
      await file.read(page, 0, PAGE, Math.floor(Math.random() * (FILE_BYTES / PAGE)) * PAGE);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, reader));
}

async function measure(way: string, vault: VaultName, key: KeyBytes | null): Promise<void> {
  const started = performance.now();
  const opened = await world.containers.open(vault, key);
  note('open, ms', way, performance.now() - started);
  const root = join(world.folder, vault, 'mnt');
  const life = join(root, 'measured');
  await createSubvolume(life);
  const path = join(life, 'file');
  const cpu = await serverSeconds();
  {
    await using file = await open(path, 'w');
    note('sequential write, MB/s', way, FILE_BYTES / 1e3 / (await elapsed(() => writeAll(file))));
  }
  const written = await serverSeconds();
  note('server CPU of writing, s per GB', way, ((written - cpu) * 1e9) / FILE_BYTES);
  note('sequential read, MB/s', way, FILE_BYTES / 1e3 / (await elapsed(() => readAll(path))));
  note('server CPU of reading, s per GB', way, (((await serverSeconds()) - written) * 1e9) / FILE_BYTES);
  note('4 KiB random read by 16, per s', way, 4096e3 / (await elapsed(() => readPages(path, 4096))));
  {
    await using file = await open(path, 'r+');
    for (let count = 0; count < 30; count++) {
      await file.write(block, 0, PAGE, Math.floor(Math.random() * (FILE_BYTES / PAGE)) * PAGE);
      note('4 KiB write and fdatasync, ms', way, await elapsed(() => file.datasync()));
    }
    for (let count = 0; count < 4; count++) {
      for (const [name, bytes, piece] of [
        ['snapshot, 6 MiB dirty in pieces of 4 KiB, ms', 6 * MIB, PAGE],
        ['snapshot, 64 MiB dirty in pieces of 64 KiB, ms', 64 * MIB, 16 * PAGE],
      ] as const) {
        for (let at = 0; at < bytes; at += piece) {
          await file.write(block, 0, piece, Math.floor(Math.random() * (FILE_BYTES / piece)) * piece);
        }
        note(name, way, await elapsed(() => snapshotSubvolume(life, join(root, `s-${piece}-${count}`))));
      }
      await syncFileSystem(root);
      note('snapshot, clean, ms', way, await elapsed(() => snapshotSubvolume(life, join(root, `clean-${count}`))));
    }
  }
  for (const name of execFileSync('ls', [root], { encoding: 'utf8' }).split('\n')) {
    if (/^(s-|clean-|measured)/.test(name)) execFileSync('btrfs', ['-q', 'subvolume', 'delete', join(root, name)]);
  }
  note('close, ms', way, await elapsed(() => opened.close()));
}

const plain = 'plain' as VaultName;
const sealed = 'sealed' as VaultName;
try {
  for (let turn = 0; turn < turns; turn++) {
    for (const [way, vault, key] of turn % 2 === 0
      ? ([
          ['plain', plain, null],
          ['sealed', sealed, keyOf(1)],
        ] as const)
      : ([
          ['sealed', sealed, keyOf(1)],
          ['plain', plain, null],
        ] as const)) {
      note(
        'create, ms',
        way,
        await elapsed(() => world.containers.create(vault, { sizeBytes: SIZE_BYTES, key, token: null })),
      );
      await measure(way, vault, key);
      await world.containers.remove(vault);
    }
  }
} finally {
  await world.dispose();
}

const load = (await readFile('/proc/loadavg', 'utf8')).split(' ').slice(0, 2).join(' ');
process.stdout.write(`load ${load}, ${execFileSync('uname', ['-r']).toString().trim()}, ${turns} turns, p50\n`);
for (const [name, ways] of results) {
  const middle = (way: string) =>
    (ways.get(way) ?? []).toSorted((a, b) => a - b)[Math.floor((ways.get(way) ?? []).length / 2)] ?? 0;
  const [a, b] = [middle('plain'), middle('sealed')];
  const worse = /per s|MB\/s/.test(name) ? a / b : b / a;
  process.stdout.write(
    `${name.padEnd(48)} ${a.toFixed(1).padStart(9)} ${b.toFixed(1).padStart(9)}  x${worse.toFixed(2)}\n`,
  );
}
