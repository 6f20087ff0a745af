/**
 * A whole platform in one process: the real control and the real node, on records, a vault, VMs and agents that are fakes.
 *
 * ```
 *   clients ── control ══ link ══ node ── vault, VMs, agents        every ── and ══ is two steps
 *                 └── records
 * ```
 *
 * The vault, the VMs and the records outlive the processes. A process that is killed takes no further step, and another is
 * started in its place. Two worlds may stand beside each other, at one time, and share nothing but an archive.
 */
import { type Control, createControl } from '@space/control';
import { MemoryRecords } from '@space/control/testing';
import {
  type Chance,
  type Clock,
  DEFAULT_VAULT,
  type KeyBytes,
  type LifeId,
  type SandboxId,
  type SandboxRecord,
  SIZE_LIMITS,
  type SnapshotId,
  type VaultContainers,
  type VaultName,
  type Vm,
} from '@space/core';
import { createNode, type Node } from '@space/node';
import {
  connectFakeGuest,
  FAKE_PACKER,
  FakeArchive,
  FakeContainers,
  FakeGateway,
  FakeRuntime,
  type FakeVm,
  Faults,
  MemoryStorage,
  marksOf,
  seededChance,
} from '@space/testkit';
import { type Served, SimulatedLink } from './link.ts';
import { type Fate, Process, Steps, type Strike, stepped } from './steps.ts';
import { VirtualTime } from './time.ts';

const VAULTS = '/vaults';
const FOLDER = `${VAULTS}/${DEFAULT_VAULT}`;
const IMAGE = '/base.img';
/** Where archives lie. */
export const FAR = 'far';
/** The fakes hold a few bytes; the sizes are only told. */
const ANY = { min: 1, max: 8, step: 1 };
export const TINY = { vcpus: 1, memoryMib: 1, diskMib: 1 };

/** How long the supervisor waits before it starts a process again. */
const RESTART_MS = 250;
const DATABASE_DOWN_MS = 4_000;

export interface WorldOptions {
  readonly seed: number;
  readonly memory: 'in_place' | 'written';
  readonly fate: (world: World) => Fate;
  readonly memoryMib?: number;
  /** What the pool may take; left out: there is none. */
  readonly poolMib?: number;
  readonly traced?: boolean;
  /** Another installation, at the same time, that shares its archive. */
  readonly beside?: World;
}

/** Asked for every second or two, of what no client here makes use of. */
const UNEVENTFUL = [
  'load',
  'sandboxesToWake',
  'sandboxesToExpire',
  'schedules.inProgress',
  'schedules.due',
  'tenants.snapshotPolicies',
];

interface RunningControl {
  readonly process: Process;
  readonly control: Control;
  readonly link: SimulatedLink;
}

type RunningNode = Served & { readonly port: Node };

export class World {
  readonly name: 'a' | 'b';
  readonly time: VirtualTime;
  readonly steps: Steps;
  readonly records = new MemoryRecords();
  readonly storage = new MemoryStorage();
  readonly archive: FakeArchive;
  /** VMs that are alive. */
  readonly alive = new Map<LifeId, FakeVm>();
  /** What each point held when it was committed, wherever it was first. */
  readonly contents: Map<SnapshotId, string>;
  /** Called when the VM of a sandbox dies by itself. */
  onVmmDeath: (sandboxId: SandboxId) => void = () => undefined;
  /** Called when control finds that an expiry has come. */
  onDue: () => void = () => undefined;
  readonly chance: Chance;
  /** Whether not all sandboxes can run at once. */
  readonly isSmall: boolean;
  readonly #memory: WorldOptions['memory'];
  readonly #memoryMib: number;
  readonly #poolMib: number;
  readonly #clock: Clock;
  #containers: FakeContainers | null = null;
  #node: RunningNode | null = null;
  #control: RunningControl | null = null;
  #link: SimulatedLink | null = null;
  /** Of the process that runs or is being started. */
  readonly #processes: { node: Process; control: Process };
  #databaseDownUntilMs = 0;

  constructor({ seed, memory, fate, memoryMib = 100_000, poolMib = 0, traced = false, beside }: WorldOptions) {
    this.name = beside === undefined ? 'a' : 'b';
    this.time = beside?.time ?? new VirtualTime();
    this.archive = beside?.archive ?? new FakeArchive();
    this.contents = beside?.contents ?? new Map();
    this.#memory = memory;
    this.#memoryMib = memoryMib;
    this.#poolMib = poolMib;
    this.isSmall = memoryMib < 1_000;
    this.chance = beside?.chance ?? seededChance(seed);
    this.#clock = { now: () => this.time.wallMs(), monotonicMs: () => this.time.nowMs };
    const strike: Strike = {
      kill: (name) => this.kill(name),
      killVmm: () => this.killVmm(),
      takeDatabaseDown: () => {
        this.#databaseDownUntilMs = this.time.nowMs + DATABASE_DOWN_MS;
      },
      isDatabaseDown: () => this.time.nowMs < this.#databaseDownUntilMs,
      cutLink: () => this.#cutLines(),
    };
    const trace = beside === undefined ? (traced ? [] : null) : beside.steps.trace;
    this.steps = new Steps(this.time, fate(this), strike, { name: this.name, trace });
    const { records } = this;
    const dueOf = records.sandboxesToExpire.bind(records);
    records.sandboxesToExpire = async (at, limit) => {
      const due = await dueOf(at, limit);
      if (due.length > 0) this.onDue();
      return due;
    };
    this.storage.makeFolder(FOLDER);
    this.storage.write(IMAGE, '');
    this.#processes = { node: new Process('node'), control: new Process('control') };
  }

  get control(): RunningControl | null {
    return this.#control;
  }

  get node(): RunningNode | null {
    return this.#node;
  }

  async boot(): Promise<void> {
    void this.#startNode();
    void this.#startControl();
    while (this.#node === null || this.#control === null) await this.time.sleep(10);
  }

  kill(name: 'node' | 'control'): void {
    if (!this.#processes[name].alive) return;
    this.steps.note(`${name} is killed`);
    this.#processes[name].kill();
    if (name === 'node') {
      this.#cutLines();
      this.#node = null;
    } else {
      this.#control = null;
      this.#link = null;
    }
    this.time.after(RESTART_MS, () => void (name === 'node' ? this.#startNode() : this.#startControl()));
  }

  /** Of the sandbox, or the one that was started last. */
  killVmm(of?: SandboxId): void {
    const owners = new Map(this.heldInVault().map(({ sandboxId, life }) => [life, sandboxId]));
    const vm = [...this.alive.values()].findLast((one) => of === undefined || owners.get(one.spec.lifeId) === of);
    if (vm === undefined) return;
    const owner = owners.get(vm.spec.lifeId);
    this.steps.note(`the VMM of ${owner ?? 'nobody'} dies`);
    if (owner !== undefined) this.onVmmDeath(owner);
    vm.die();
  }

  /** The host goes off: no process and no VM is left, and nothing is mounted. It comes up at once. */
  powerOff(): void {
    this.steps.note('the host goes off');
    const owners = new Map(this.heldInVault().map(({ sandboxId, life }) => [life, sandboxId]));
    for (const vm of [...this.alive.values()]) {
      const owner = owners.get(vm.spec.lifeId);
      if (owner !== undefined) this.onVmmDeath(owner);
      vm.die();
    }
    this.kill('node');
    this.kill('control');
    this.#containers?.powerOff();
  }

  /** What lies in the vault and runs on the machine, as somebody sees it who looks there. */
  leftovers() {
    const names = (part: string) => this.storage.list(`${FOLDER}/${part}`);
    return {
      lives: names('lives'),
      staging: names('staging'),
      sandboxes: names('sandboxes'),
      points: names('points') as SnapshotId[],
      alive: [...this.alive.keys()],
    };
  }

  /** What a point holds now; null: there is none. */
  contentOf(id: SnapshotId): string | null {
    const folder = `${FOLDER}/points/${id}`;
    if (!this.storage.has(folder)) return null;
    // One of the disk alone holds no memory.
    const memory = this.storage.has(`${folder}/memory`) ? this.storage.read(`${folder}/memory`) : Buffer.of();
    return marksOf(memory, this.storage.read(`${folder}/disk.img`));
  }

  /** What a sandbox holds now. */
  contentNow(id: SandboxId): string | null {
    const record = this.heldInVault().find(({ sandboxId }) => sandboxId === id);
    if (record === undefined) return null;
    const vm = record.life === null ? undefined : this.alive.get(record.life);
    if (vm === undefined) return this.contentOf(record.head);
    return marksOf(Buffer.from(JSON.stringify(vm.state)), this.storage.read(vm.spec.files.disk));
  }

  async #startNode(): Promise<void> {
    const process = new Process('node');
    this.#processes.node = process;
    const { steps, storage, alive } = this;
    this.#containers =
      this.#containers?.successor() ?? (await FakeContainers.withDefault(VAULTS, new Faults(), storage));
    const runtime = new FakeRuntime(this.#memory, new Faults(), alive, {}, [], storage);
    const port = createNode({
      egress: new FakeGateway(),
      archives: new Map([[FAR, stepped(steps, process, 'archive', this.archive, { streams: ['list'] })]]),
      packer: FAKE_PACKER,
      runtime: stepped(steps, process, 'runtime', runtime, {
        answered: (_, __, answer) => (isVm(answer) ? this.#steppedVm(process, answer) : answer),
      }),
      connectGuest: async (vm) => {
        await steps.take(process, { port: 'guest', call: 'connect', at: 'begin' });
        return stepped(steps, process, 'guest', await connectFakeGuest(vm), {
          plain: ['close'],
          streams: ['exec', 'attach', 'list', 'watch', 'outgoing'],
        });
      },
      containers: this.#steppedContainers(process),
      templates: [{ name: 'base', diskPath: IMAGE, digest: 'base-digest' }],
      clock: this.#clock,
      chance: this.chance,
      memoryMib: this.#memoryMib,
      pool: { memoryMib: this.#poolMib },
      limits: { ...SIZE_LIMITS, memoryMib: ANY, diskMib: ANY },
      facts: {
        runtime: 'fake',
        accelerator: { name: 'tcg', reason: 'a fake', remedy: null },
        vmmVersion: '1',
        jail: { inForce: [], missing: [] },
      },
    });
    try {
      await port.open();
    } catch (thrown) {
      steps.note(`the node could not be opened: ${String(thrown)}`);
      return this.kill('node');
    }
    this.#node = { process, port, lines: new Set() };
    this.#link?.follow(this.#node);
  }

  async #startControl(): Promise<void> {
    const process = new Process('control');
    this.#processes.control = process;
    const { steps } = this;
    const link = new SimulatedLink(steps, process, () => this.#node);
    const quiet = () => undefined;
    const loud = (facts: object, message: string) => steps.log(`control: ${message} ${JSON.stringify(facts)}`);
    const control = createControl(
      {
        node: link.port,
        records: stepped(steps, process, 'records', this.records, { plain: UNEVENTFUL }),
        clock: this.#clock,
        chance: this.chance,
        logger: { debug: quiet, info: quiet, warn: loud, error: loud },
      },
      new FakeGateway(),
    );
    this.#link = link;
    if (this.#node !== null) link.follow(this.#node);
    try {
      await control.start();
    } catch (thrown) {
      steps.note(`control could not be started: ${String(thrown)}`);
      return this.kill('control');
    }
    this.#control = { process, control, link };
  }

  /** The same vaults, each step in which is one of the process. */
  #steppedContainers(process: Process): VaultContainers {
    const containers = this.#containers;
    if (containers === null) throw new Error('there are some by then');
    const open = async (name: VaultName, key: KeyBytes | null) =>
      stepped(this.steps, process, 'vault', await containers.open(name, key), {
        plain: ['lifeFiles', 'space', 'hasImage', 'diskBytes'],
        answered: (call, [first, second], answer) => {
          if (call === 'commit') this.#committed(first as { readonly snapshotId: SnapshotId });
          if (call === 'seal') this.#committed(second as { readonly snapshotId: SnapshotId });
          return answer;
        },
      });
    return new Proxy(containers, {
      get(target, name) {
        if (name === 'open') return open;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  }

  #steppedVm(process: Process, vm: Vm): Vm {
    return stepped(this.steps, process, 'vm', vm, { plain: ['console', 'release', 'diskWrittenBytes'] });
  }

  #committed({ snapshotId }: { readonly snapshotId: SnapshotId }): void {
    const content = this.contentOf(snapshotId);
    // One that is brought in under its own name holds what it held.
    if (content !== null && !this.contents.has(snapshotId)) this.contents.set(snapshotId, content);
  }

  #cutLines(): void {
    for (const cut of this.#node?.lines ?? []) cut();
  }

  /** What the vault says of each sandbox. */
  heldInVault(): readonly SandboxRecord[] {
    const folder = `${FOLDER}/sandboxes`;
    return this.storage.list(folder).map((name) => JSON.parse(this.storage.read(`${folder}/${name}`).toString()));
  }
}

function isVm(answer: unknown): answer is Vm {
  return typeof answer === 'object' && answer !== null && 'checkpoint' in answer;
}
