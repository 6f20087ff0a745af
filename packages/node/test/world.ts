/** A node on fakes, in a temporary folder, reached as it is or over the link; with the short forms that the tests speak in. */
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Chance,
  DEFAULT_VAULT,
  type NodePort,
  newId,
  type ProcessEvent,
  type SandboxId,
  SIZE_LIMITS,
  type Size,
  type SizeLimits,
  type SnapshotId,
  type SnapshotKind,
} from '@space/core';
import { connectNode, type RemoteNode, type Service, serveNode } from '@space/link';
import { createNode, type Node, type PoolOptions } from '@space/node';
import {
  connectFakeGuest,
  FakeArchive,
  FakeContainers,
  FakeEgress,
  FakeRuntime,
  type FakeVault,
  Faults,
  realClock,
  seededChance,
} from '@space/testkit';

/** Thousands of small files are made here; on a disk that others use each of them waits. */
const IN_MEMORY = '/dev/shm';
/** The fake vault copies whole files, and the matrices make thousands of them: a few of its blocks are enough. */
const TINY: Size = { vcpus: 1, memoryMib: 1 / 16, diskMib: 1 / 16 };
/** An archive takes no size that cannot be had. */
const LIMITS: SizeLimits = {
  ...SIZE_LIMITS,
  memoryMib: { min: 1, max: 4, step: 1 },
  diskMib: { min: 1, max: 4, step: 1 },
};

export const WORLD_KINDS = (['in_place', 'written'] as const).flatMap((memory) =>
  (['itself', 'over the link'] as const).map((reached) => ({ memory, reached })),
);
export type WorldKind = (typeof WORLD_KINDS)[number];

export interface World extends AsyncDisposable {
  node: NodePort;
  /** The present node's; `free` says how much is left in it. */
  vault: FakeVault;
  containers: FakeContainers;
  readonly archive: FakeArchive;
  readonly faults: Faults;
  readonly runtime: FakeRuntime;
  readonly egress: FakeEgress;
  readonly chance: Chance;
  epoch(): number;
  /** The ready snapshot of template `base`, built where it is missing. */
  ready(): Promise<SnapshotId>;
  /** A running sandbox of template `base`. */
  create(): Promise<SandboxId>;
  start(sandboxId: SandboxId, from: SnapshotId | 'crashed', generation?: number): Promise<void>;
  snapshot(sandboxId: SandboxId, kind?: SnapshotKind): Promise<SnapshotId>;
  pause(sandboxId: SandboxId, kind?: SnapshotKind): Promise<SnapshotId>;
  rewind(sandboxId: SandboxId, to: SnapshotId, generation?: number): Promise<SnapshotId | null>;
  destroy(sandboxId: SandboxId, points?: SnapshotId[]): Promise<void>;
  run(sandboxId: SandboxId, command: string): Promise<string>;
  /**
   * A new node over the same vault and VMs, as after the death of the daemon; perhaps on another VMM build, with earlier ones,
   * or with another image of its template.
   */
  restart(vmmBuild?: string, earlierBuilds?: readonly string[], imageDigest?: string): Promise<void>;
  /** As the present node says it. */
  neededBuilds(): readonly string[] | null;
  /** What the node complained of. */
  readonly warnings: readonly string[];
  /** The same, and what the dead one had begun does nothing any more. */
  die(): Promise<void>;
  /** What lies in the vault: folder name → entries. */
  leftovers(): Promise<{ lives: string[]; staging: string[]; alive: string[] }>;
}

interface Opening {
  readonly vmmBuild?: string | undefined;
  readonly earlier?: readonly string[] | undefined;
  readonly imageDigest?: string | undefined;
}

export async function makeWorld(
  { memory, reached }: WorldKind,
  memoryMib = 100_000,
  pool: PoolOptions = { memoryMib: 0 },
  size = TINY,
  shared?: FakeArchive,
): Promise<World> {
  const folder = await mkdtemp(join(existsSync(IN_MEMORY) ? IN_MEMORY : tmpdir(), 'space-node-'));
  const image = join(folder, 'base.img');
  await writeFile(image, '{}');
  const egress = new FakeEgress();
  const faults = new Faults();
  const archive = shared ?? new FakeArchive(faults);
  const chance = seededChance(shared === undefined ? 7 : 8);
  const runtime = new FakeRuntime(memory, faults);
  const socketPath = join(folder, 'link');
  let service: Service | null = null;
  let remote: RemoteNode | null = null;
  let present: Node | null = null;
  let presentVault = new MortalFaults(faults);
  let containers = await FakeContainers.withDefault(folder);
  const warnings: string[] = [];
  const open = async ({ vmmBuild = 'fake-1', earlier = [], imageDigest = 'base-digest' }: Opening = {}) => {
    presentVault = new MortalFaults(faults);
    containers = containers.successor(presentVault);
    const node = createNode({
      runtime: new FakeRuntime(memory, faults, runtime.alive, { vmmBuild }, earlier),
      connectGuest: connectFakeGuest,
      egress,
      containers,
      templates: [{ name: 'base', diskPath: image, digest: imageDigest }],
      clock: realClock(),
      chance,
      memoryMib,
      archives: new Map([['default', archive]]),
      pool,
      limits: LIMITS,
      onWarning: (message) => warnings.push(message),
      facts: {
        runtime: 'fake',
        accelerator: { name: 'tcg', reason: 'a fake', remedy: null },
        vmmVersion: '1',
        jail: { inForce: [], missing: [] },
      },
    });
    await node.open();
    present = node;
    const vault = containers.opened.get(DEFAULT_VAULT);
    if (vault === undefined) throw new Error('the default vault is taken up');
    if (reached === 'itself') return { node, vault, containers };
    // A daemon that dies takes its connections with it; who gives orders stays, and finds the next one.
    await service?.close();
    service = await serveNode({ node, socketPath, onUnexpected: () => undefined });
    remote ??= connectNode({ socketPath });
    await remote.whenUp(AbortSignal.timeout(5_000));
    return { node: remote, vault, containers };
  };
  let epoch = 0;
  const vault = DEFAULT_VAULT;
  const order = (sandboxId: SandboxId) => ({ vault, sandboxId, epoch: ++epoch });

  const world: World = {
    ...(await open()),
    warnings,
    neededBuilds: () => present?.neededBuilds() ?? null,
    archive,
    faults,
    runtime,
    egress,
    chance,
    epoch: () => ++epoch,
    ready: () => world.node.ensureReady(vault, 'base', size),
    async create() {
      const sandboxId = newId('sandbox', chance);
      await world.start(sandboxId, await world.ready());
      return sandboxId;
    },
    async start(sandboxId, from, generation = 1) {
      await world.node.start({ ...order(sandboxId), from, template: 'base', generation, size });
    },
    async snapshot(sandboxId, kind = 'memory') {
      const snapshotId = newId('snapshot', chance);
      return (await world.node.snapshot({ ...order(sandboxId), snapshotId, kind })).snapshotId;
    },
    async pause(sandboxId, kind = 'memory') {
      const snapshotId = newId('snapshot', chance);
      return (await world.node.pause({ ...order(sandboxId), snapshotId, kind })).snapshotId;
    },
    async rewind(sandboxId, to, generation = 2) {
      const rewind = { ...order(sandboxId), to, keepAs: newId('snapshot', chance), generation };
      return (await world.node.rewind(rewind)).kept?.snapshotId ?? null;
    },
    destroy: (sandboxId, points = []) => world.node.destroy({ ...order(sandboxId), points }),
    async run(sandboxId, command) {
      const events = world.node.exec(sandboxId, {
        processId: newId('process', chance),
        argv: command.split(' '),
        env: {},
      });
      return textOf(await Array.fromAsync(events));
    },
    async restart(vmmBuild, earlier, imageDigest) {
      // The dead one looks no more.
      await present?.release();
      Object.assign(world, await open({ vmmBuild, earlier, imageDigest }));
    },
    async die() {
      presentVault.isDead = true;
      Object.assign(world, await open());
    },
    async leftovers() {
      const entries = (part: string) => readdir(join(folder, DEFAULT_VAULT, part));
      return { lives: await entries('lives'), staging: await entries('staging'), alive: [...runtime.alive.keys()] };
    },
    async [Symbol.asyncDispose]() {
      await present?.release();
      await remote?.close();
      await service?.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
  return world;
}

/** Of a node that may die: from then on, nothing that it begins with its vault comes to an end. */
class MortalFaults extends Faults {
  isDead = false;
  readonly #world: Faults;

  constructor(world: Faults) {
    super();
    this.#world = world;
  }

  override async at(step: string): Promise<void> {
    if (this.isDead) return new Promise(() => undefined);
    return this.#world.at(step);
  }
}

function textOf(events: readonly ProcessEvent[]): string {
  return events.map((event) => (event.kind === 'output' ? Buffer.from(event.data).toString() : '')).join('');
}
