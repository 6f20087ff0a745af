/**
 * What a VMM may use of the machine: a cgroup of its own, named by its uid, below `space`. Linux has two forms: one tree
 * with all controllers (v2), or one tree for each (v1). A machine can have both, each with some of the controllers.
 *
 * Guest memory is page cache of a file, so it is reclaimed (written back to that file) at the limit; what counts for good
 * is what the VMM itself holds.
 */
import { randomBytes } from 'node:crypto';
import { access, mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Size } from '@space/core';
import { isErrno } from './process-identity.ts';

const PARENT = 'space';
const MIB = 1024 * 1024;
/** QEMU's own memory, its translation buffer under emulation, and page cache of the disk to work with. */
const OVERHEAD_MIB = 384;
/** A spare has no guest yet. */
const SPARE_MIB = 512;
const CPU_PERIOD_US = 100_000;
/** Beyond the vCPUs: the threads that serve disk, console and control. */
const DEVICE_CPUS = 0.5;
const SPARE_CPUS = 1;
export const MAX_TASKS = 128;
/**
 * How much all VMs together weigh against others. In v1 each process outside of any group weighs as much as one whole
 * group: with the usual weight, ten busy processes would leave a tenth of the machine to all guests.
 */
const PARENT_WEIGHT = 10;
const REMOVE_LIMIT_MS = 2_000;

const CONTROLLERS = ['memory', 'cpu', 'pids', 'io'] as const;
type Controller = (typeof CONTROLLERS)[number];
type Version = 1 | 2;

export interface JailReport {
  /** Which limits hold each VMM, e.g. `memory (cgroup v1)`. */
  readonly inForce: readonly string[];
  readonly missing: readonly { readonly limit: string; readonly reason: string; readonly remedy: string }[];
}

interface Tree {
  readonly version: Version;
  readonly path: string;
  readonly controllers: readonly Controller[];
}

interface Limits {
  readonly memoryMib: number;
  readonly cpus: number;
  readonly weight: number;
}

export class Cgroups {
  readonly report: JailReport;
  readonly #trees: readonly Tree[];

  private constructor(trees: readonly Tree[], report: JailReport) {
    this.#trees = trees;
    this.report = report;
  }

  /** Uses what is there and can be written to; the report names the rest. */
  static async open(mounts?: string): Promise<Cgroups> {
    const trees: Tree[] = [];
    const failures: string[] = [];
    for (const tree of treesIn(mounts ?? (await readFile('/proc/self/mounts', 'utf8')))) {
      try {
        const controllers = await prepare(tree);
        if (controllers.length > 0) trees.push({ ...tree, path: join(tree.path, PARENT), controllers });
      } catch (thrown) {
        failures.push(thrown instanceof Error ? thrown.message : String(thrown));
      }
    }
    return new Cgroups(trees, reportOn(trees, failures));
  }

  /** Makes the groups of a VMM that has no guest yet; returns the files through which its process joins them. */
  async create(uid: number): Promise<string[]> {
    const folders = this.#trees.map((tree) => folderOf(tree, uid));
    await Promise.all(folders.map((folder) => mkdir(folder, { recursive: true })));
    await this.#write(uid, { memoryMib: SPARE_MIB, cpus: SPARE_CPUS, weight: 1 });
    return folders.map((folder) => join(folder, 'cgroup.procs'));
  }

  /** Fits the limits to the guest. */
  async fit(uid: number, { memoryMib, vcpus }: Size): Promise<void> {
    await this.#write(uid, { memoryMib: memoryMib + OVERHEAD_MIB, cpus: vcpus + DEVICE_CPUS, weight: vcpus });
  }

  async #write(uid: number, limits: Limits): Promise<void> {
    const settings = this.#trees.flatMap((tree) =>
      tree.controllers.flatMap((controller) =>
        settingsOf(tree.version, controller, limits).map(([file, value]) => [join(folderOf(tree, uid), file), value]),
      ),
    );
    await Promise.all(settings.map(([file = '', value = '']) => writeFile(file, value)));
  }

  /** Every process in them must be dead. */
  async remove(uid: number): Promise<void> {
    await Promise.all(this.#trees.map((tree) => removeGroup(folderOf(tree, uid))));
  }
}

function folderOf(tree: Tree, uid: number): string {
  return join(tree.path, `vmm-${uid}`);
}

/** The files that hold a limit, and what is written into each. */
function settingsOf(version: Version, controller: Controller, { memoryMib, cpus, weight }: Limits): [string, string][] {
  const quota = Math.round(cpus * CPU_PERIOD_US);
  const bytes = String(memoryMib * MIB);
  switch (controller) {
    case 'memory':
      return version === 1 ? [['memory.limit_in_bytes', bytes]] : [['memory.max', bytes]];
    case 'cpu':
      if (version === 2) return [...pair('cpu.max', `${quota} ${CPU_PERIOD_US}`), ...pair('cpu.weight', 100 * weight)];
      return [...pair('cpu.cfs_quota_us', quota), ...pair('cpu.shares', 1024 * weight)];
    case 'pids':
      return pair('pids.max', MAX_TASKS);
    case 'io':
      return version === 1 ? pair('blkio.weight', 100) : pair('io.weight', 100);
  }
}

function pair(file: string, value: number | string): [string, string][] {
  return [[file, String(value)]];
}

/** Each mounted tree with those of our controllers that it may have. `mounts` is the text of /proc/self/mounts. */
export function treesIn(mounts: string): Tree[] {
  const trees: Tree[] = [];
  for (const line of mounts.split('\n')) {
    const [, path = '', type, options = ''] = line.split(' ');
    if (type === 'cgroup2') trees.push({ version: 2, path, controllers: CONTROLLERS });
    if (type !== 'cgroup') continue;
    const names = options.split(',').map((name) => (name === 'blkio' ? 'io' : name));
    const controllers = CONTROLLERS.filter((controller) => names.includes(controller));
    if (controllers.length > 0) trees.push({ version: 1, path, controllers });
  }
  return trees;
}

/** Makes the parent group and says which controllers work in its children. */
async function prepare({ version, path, controllers }: Tree): Promise<Controller[]> {
  const parent = join(path, PARENT);
  if (version === 2) {
    const offered = (await readFile(join(path, 'cgroup.controllers'), 'utf8')).trim().split(' ');
    const wanted = controllers.filter((controller) => offered.includes(controller));
    if (wanted.length === 0) return [];
    await mkdir(parent, { recursive: true });
    const enable = wanted.map((controller) => `+${controller}`).join(' ');
    for (const folder of [path, parent]) await writeFile(join(folder, 'cgroup.subtree_control'), enable);
  } else await mkdir(parent, { recursive: true });
  for (const [file, value] of settingsOf(version, 'cpu', { memoryMib: 1, cpus: 1, weight: PARENT_WEIGHT })) {
    if (isWeight(file) && (await exists(join(parent, file)))) await writeFile(join(parent, file), value);
  }
  const probe = join(parent, `probe-${randomBytes(8).toString('hex')}`);
  await mkdir(probe);
  try {
    const working: Controller[] = [];
    for (const controller of controllers) {
      const files = settingsOf(version, controller, { memoryMib: 1, cpus: 1, weight: 1 });
      const there = await Promise.all(files.map(([file]) => exists(join(probe, file))));
      if (there.every(Boolean)) working.push(controller);
    }
    return working;
  } finally {
    await rmdir(probe);
  }
}

function isWeight(file: string): boolean {
  return file === 'cpu.shares' || file === 'cpu.weight';
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

/** The kernel needs a moment to let go of the last process. */
async function removeGroup(folder: string): Promise<void> {
  const deadline = performance.now() + REMOVE_LIMIT_MS;
  for (;;) {
    try {
      return await rmdir(folder);
    } catch (thrown) {
      if (isErrno(thrown, 'ENOENT')) return;
      if (!isErrno(thrown, 'EBUSY') || performance.now() > deadline) throw thrown;
    }
    await sleep(5);
  }
}

function reportOn(trees: readonly Tree[], failures: readonly string[]): JailReport {
  const inForce = trees.flatMap(({ version, controllers }) =>
    controllers.map((controller) => `${controller} (cgroup v${version})`),
  );
  const held = new Set(trees.flatMap(({ controllers }) => controllers));
  const reason = failures.length > 0 ? failures.join('; ') : 'No mounted cgroup tree has a controller for it.';
  const remedy = 'Mount a cgroup tree with it, writable by the platform, and start the platform again.';
  const missing = CONTROLLERS.filter((controller) => !held.has(controller));
  return { inForce, missing: missing.map((limit) => ({ limit, reason, remedy })) };
}
