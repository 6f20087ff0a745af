/** A helper with a vault, a folder that the node owns, and a program in the place of the VMM. */
import { execFileSync } from 'node:child_process';
import { closeSync } from 'node:fs';
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LifeId } from '@space/core';
import { loadAssets } from '@space/guest-image';
import {
  connectForFiles,
  connectHelper,
  type HelperConfig,
  type HelperProcess,
  type RootHelper,
  socketPair,
  startHelper,
} from '../src/index.ts';

const MIB = 1024 * 1024;
export const RUN = 'lif_0123456789abcdef' as LifeId;
export const BUILD = '0123456789abcdef0123456789abcdef';
export const KIND = { build: BUILD, mode: 'restore', accelerator: 'tcg' } as const;
export const SIZE = { vcpus: 1, memoryMib: 8, diskMib: 8 };
/** A range for each test file: a helper removes groups of its range that its own registry does not know. */
const FIRST_UID = 2_030_000_000 + (process.pid % 100_000) * 100;

export interface World extends AsyncDisposable {
  readonly folder: string;
  readonly config: HelperConfig;
  readonly process: HelperProcess;
  readonly helper: RootHelper;
  /** Starts the program, as a VMM. */
  start(run?: string): Promise<{ readonly pid: number; readonly startTime: string }>;
  /** A connection to the program that was started. */
  connect(run?: string): ReturnType<typeof connectForFiles>;
  /** Files of a life in the place `own`; returns their folder. */
  makeLife(lifeId?: string): Promise<string>;
  /** What is there of VMMs: run folders, uids that are taken, processes. */
  remains(): Promise<string[]>;
}

/** `node`: who is served; us, when nothing is said. */
export async function makeWorld(node = { uid: 0, gid: 0 }): Promise<World> {
  const { helper: built, jail, vaultServer } = await loadAssets();
  const folder = await mkdtemp(join(tmpdir(), 'helper-'));
  await chmod(folder, 0o755);
  const program = join(folder, 'build', 'keeper');
  await mkdir(join(folder, 'build'));
  execFileSync('gcc', ['-static', '-O1', '-w', '-o', program, join(import.meta.dirname, 'keeper', 'keeper.c')]);
  const own = join(folder, 'own');
  await mkdir(join(own, 'lives'), { recursive: true });
  for (const path of [own, join(own, 'lives')]) await chown(path, node.uid, node.gid);
  const config: HelperConfig = {
    node,
    folder: join(folder, 'helper'),
    runDir: join(folder, 'run'),
    uids: { first: FIRST_UID, count: 100, registry: join(folder, 'uids') },
    launcher: jail.launcher,
    vmmBuilds: { [BUILD]: join(folder, 'build') },
    vmmSockets: ['qmp'],
    vmmPrograms: [{ kind: KIND, argv: [program] }],
    bootFiles: {},
    fileBytes: 2 ** 40,
    vaults: [{ name: 'default', folder: join(folder, 'vault'), backing: { kind: 'loop', sizeBytes: 256 * MIB } }],
    vaultsFolder: join(folder, 'vaults'),
    vaultServer: vaultServer.program,
    places: { own },
  };
  const process = await startHelper({ program: built.program, config });
  const helper = node.uid === 0 ? await connectHelper(process.socketPath) : null;
  const ours = (): RootHelper => {
    if (helper === null) throw new Error('The helper serves another user');
    return helper;
  };
  return {
    folder,
    config,
    process,
    get helper() {
      return ours();
    },
    async start(run = RUN) {
      const complaints = socketPair();
      complaints.ours.on('error', () => undefined).resume();
      try {
        return await ours().startVmm(run, KIND, complaints.theirs);
      } finally {
        closeSync(complaints.theirs);
      }
    },
    connect: (run = RUN) => connectForFiles(join(config.runDir, run, 'sockets', 'qmp')),
    async makeLife(lifeId = RUN) {
      const path = join(own, 'lives', lifeId);
      await mkdir(path);
      for (const [file, mib] of Object.entries({ 'disk.img': SIZE.diskMib, memory: SIZE.memoryMib })) {
        await writeFile(join(path, file), '', { mode: 0o600 });
        await truncate(join(path, file), mib * MIB);
        await chown(join(path, file), node.uid, node.gid);
      }
      await chown(path, node.uid, node.gid);
      return path;
    },
    async remains() {
      // A warden ends a moment after its VMM.
      for (let tries = 0; tries < 40 && (await processesFrom(program)).length > 0; tries++) await sleep(50);
      return [
        ...(await readdir(config.runDir)),
        ...(await takenIn(config.uids.registry)),
        ...(await processesFrom(program)),
      ];
    },
    async [Symbol.asyncDispose]() {
      helper?.close();
      await process.close();
      for (const pid of await processesFrom(program)) globalThis.process.kill(Number(pid), 'SIGKILL');
      const mounts = (await readFile('/proc/self/mountinfo', 'utf8'))
        .split('\n')
        .map((line) => line.split(' ')[4] ?? '');
      for (const mount of mounts.reverse()) if (mount.startsWith(`${folder}/`)) execFileSync('umount', [mount]);
      for (const device of [...loopsOf(config), ...loopsOf(config, SEALED_VIEW)])
        execFileSync('losetup', ['--detach', device]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** An entry without its other link belongs to nobody. */
async function takenIn(registry: string): Promise<string[]> {
  const taken: string[] = [];
  for (const name of await readdir(registry)) {
    if ((await stat(join(registry, name))).nlink > 1) taken.push(name);
  }
  return taken;
}

export const SEALED = 'sealed';
/** What shows an encrypted vault of that name, in the folder of further vaults. */
export const SEALED_VIEW = join(SEALED, 'plain');

/** The devices on which the file of the vault is attached, or another one of the further vaults. */
export function loopsOf({ vaults, vaultsFolder = '' }: HelperConfig, more?: string): string[] {
  const file = more === undefined ? join(vaults[0]?.folder ?? '', 'vault.btrfs') : join(vaultsFolder, more);
  const listed = execFileSync('losetup', ['--noheadings', '--output', 'NAME', '--associated', file], {
    encoding: 'utf8',
  });
  return listed.split('\n').filter(Boolean);
}

async function processesFrom(program: string): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const named = await Promise.all(
    pids.map(async (pid) => {
      const words = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
      return words.split('\0').includes(program) ? [pid] : [];
    }),
  );
  return named.flat();
}
