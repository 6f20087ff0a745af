/**
 * A node in memory that keeps the node port's promises: epochs fence, a failed order changes nothing, points are
 * immutable, children share nothing with their source, a rewind ends the old life last.
 *
 * A guest's whole state is a counter and its files; both are captured by a point and come back from it, so a test can
 * assert what fork, rewind and pause mean. The commands that a guest understands are in `fake-node-guest.ts`. A process
 * that runs belongs to a life and does not come back from a point; one that has ended is remembered as by an agent.
 *
 * Each order announces itself to `faults` before its effect (`pause`) and after it (`pause done`); a test can make it fail
 * there, or hold it.
 */
import {
  AppError,
  type ArchiveSource,
  type ArchiveSpace,
  type ArchiveSummary,
  type Arrived,
  type ArriveOrder,
  type CaptureOrder,
  type Changed,
  type CloseVaultOrder,
  type CollectedArchives,
  type CollectOrder,
  type CreateVaultOrder,
  DEFAULT_SIZE,
  DEFAULT_VAULT,
  type DestroyOrder,
  type ExportEvent,
  type ExportOrder,
  type FileAttributes,
  type FileMove,
  type FilePath,
  type FileRange,
  type Following,
  type GoOnOrder,
  type GuestBytes,
  type GuestCommand,
  type GuestProcess,
  type HandedOver,
  type HandOverOrder,
  type ImportOrder,
  type InspectedSandbox,
  type KeepVaultTokenOrder,
  type LifeEnd,
  type LifeId,
  type LifeUsage,
  type MemoryClaim,
  type MovedTo,
  type NewDirectory,
  type NewFile,
  type NodeCapabilities,
  type NodePort,
  type NodeVault,
  type OpenVaultOrder,
  type OutputPosition,
  type PoolStatus,
  type ProcessEvent,
  type ProcessId,
  type ProcessInput,
  type RewindOrder,
  type SandboxId,
  type SealedSource,
  SIZE_LIMITS,
  type Size,
  type SnapshotId,
  type SnapshotKind,
  type SpaceNews,
  type StartedLife,
  type StartOrder,
  sizeKey,
  type TakenPoint,
  type TemplateStatus,
  type VaultName,
  type WatchedDirectory,
  type WrappedArchiveKey,
  type Xattr,
} from '@space/core';
import { fakeCopy } from './fake-copy.ts';
import type { FakeFiles } from './fake-files.ts';
import { checkLocation, FAKE_ARCHIVES, FakeNodeArchives } from './fake-node-archives.ts';
import { FakeGuestState, FakeProcesses } from './fake-node-guest.ts';
import { FakeNodeVaults } from './fake-node-vaults.ts';
import { FakePorts } from './fake-ports.ts';
import type { FakePrograms } from './fake-shell.ts';
import { Faults } from './faults.ts';

interface FakeLife {
  readonly lifeId: LifeId;
  readonly guest: FakeGuestState;
  readonly processes: FakeProcesses;
  readonly ports: FakePorts;
  /** Processor time that it has taken. */
  cpuMs: number;
  outgoingBytes: number;
  /** Rewritten since its last point. */
  changed: Changed;
  /** Its vCPUs stand still, since its vault is nearly full. */
  halted: boolean;
}

interface FakeSandbox {
  readonly vault: VaultName;
  epoch: number;
  generation: number;
  head: SnapshotId;
  size: Size;
  template: string;
  life: FakeLife | null;
  /** What a life left when it ended unasked: its name and its disk. */
  crashed: { readonly lifeId: LifeId; readonly guest: FakeGuestState } | null;
  /** It was handed over. */
  moved?: MovedTo;
}

interface FakePoint {
  readonly vault: VaultName;
  readonly guest: FakeGuestState;
  readonly parent: SnapshotId | null;
  readonly owner: SandboxId | null;
}

const NO_POOL: PoolStatus = {
  ...{ budgetMib: 0, takenMib: 0, members: 0, filling: 0, hits: 0, misses: 0 },
  ...{ fills: 0, fillMs: 0, failedFills: 0, givenUp: 0 },
};
const UNCHANGED: Changed = { diskBytes: 0, memoryBytes: 0 };

export class FakeNode implements NodePort {
  readonly faults = new Faults();
  readonly fakeVaults = new FakeNodeVaults();
  /** What it exports to and imports from; a test may give several nodes the same. */
  archives = new FakeNodeArchives();
  /** How long user processes stand still for a point. */
  frozenMs = 2.05;
  /** What the vault can still take. */
  availableBytes = 2 ** 32;
  /** Points whose bytes have rotted. */
  readonly damaged = new Set<SnapshotId>();
  /** What a point gives back. */
  bytesPerPoint = 0;
  /** What the clock says when a point is taken. */
  now: () => number = Date.now;
  readonly #sandboxes = new Map<SandboxId, FakeSandbox>();
  readonly #points = new Map<SnapshotId, FakePoint>();
  readonly #ready = new Map<string, SnapshotId>();
  readonly #epochs = new Map<SandboxId, number>();
  readonly #listeners = new Set<(end: LifeEnd) => void>();
  readonly #programs: FakePrograms;
  readonly #spaceListeners = new Set<(news: SpaceNews) => void>();
  #serial = 0;
  readonly #claimed = new Map<SandboxId, number>();
  /** What its VMs may take in all. */
  memoryMib = 2 ** 20;
  #lastInstant = 0;

  /** `programs` are in every guest, and stronger than its own. */
  constructor({ programs = {} }: { readonly programs?: FakePrograms } = {}) {
    this.#programs = { 'space-template-copy': fakeCopy, ...programs };
  }

  // What a test looks at.

  counterOf(sandboxId: SandboxId): number {
    return this.#life(sandboxId).guest.counter;
  }

  pointIds(): readonly SnapshotId[] {
    const ready = new Set(this.#ready.values());
    return [...this.#points.keys()].filter((id) => !ready.has(id));
  }

  get claimedMib(): number {
    return [...this.#claimed.values()].reduce((sum, mib) => sum + mib, 0);
  }

  /** Whose records cannot be read. */
  readonly unreadable = new Set<SandboxId>();

  sandboxIds(): readonly SandboxId[] {
    return [...this.#sandboxes.keys()];
  }

  /** Lets its life take processor time. */
  /** As bytes that pass over a connection that its programs opened. */
  traffic(sandboxId: SandboxId, bytes: number): void {
    this.#life(sandboxId).outgoingBytes += bytes;
  }

  work(sandboxId: SandboxId, cpuMs: number): void {
    this.#life(sandboxId).cpuMs += cpuMs;
  }

  /** Lets its life rewrite memory, and disk. */
  write(sandboxId: SandboxId, memoryBytes: number, diskBytes = 0): void {
    const life = this.#life(sandboxId);
    const { changed } = life;
    life.changed = { diskBytes: changed.diskBytes + diskBytes, memoryBytes: changed.memoryBytes + memoryBytes };
  }

  /** Connections to its ports that are open. */
  connectionsOf(sandboxId: SandboxId): number {
    return this.#sandboxes.get(sandboxId)?.life?.ports.count ?? 0;
  }

  /** Ends the VM as a crash does; the disk stays as it is. */
  crash(sandboxId: SandboxId, detail = 'the VM process was killed'): void {
    const sandbox = this.#get(sandboxId);
    const { life } = sandbox;
    if (life === null) throw new Error('it does not run');
    sandbox.crashed = { lifeId: life.lifeId, guest: life.guest };
    life.processes.lose(new AppError('vm_lost', detail));
    life.ports.lose(new AppError('vm_lost', detail));
    this.#endLife(sandbox);
    for (const listener of this.#listeners) listener({ sandboxId, lifeId: life.lifeId, detail });
  }

  /** Lets its vault run out of space, or have room again; told as the node tells it. */
  setHalted(sandboxId: SandboxId, halted: boolean): void {
    const life = this.#get(sandboxId).life;
    if (life === null) throw new Error('it does not run');
    life.halted = halted;
    for (const listener of this.#spaceListeners) listener({ kind: 'turned', sandboxId, lifeId: life.lifeId });
  }

  /** Tells that its vault has less left than is promised. */
  tellShort(): void {
    const { availableBytes } = this;
    for (const listener of this.#spaceListeners) listener({ kind: 'short', vault: DEFAULT_VAULT, availableBytes });
  }

  /** Whether there is room for what stands still to go on. */
  hasRoom = true;

  // The port.

  async capabilities(): Promise<NodeCapabilities> {
    return {
      runtime: 'fake',
      accelerator: { name: 'tcg', reason: 'nothing runs here', remedy: null },
      vmmVersion: '0',
      jail: { inForce: [], missing: [] },
      limits: SIZE_LIMITS,
      memory: { totalMib: this.memoryMib, promisedMib: this.#promisedMib() },
      pool: NO_POOL,
      wayOut: { open: 0, carried: 0, refused: 0, failed: 0, outBytes: 0, inBytes: 0 },
      vaults: this.#listVaults().flatMap(({ vault: name, encrypted, space }) =>
        space === null ? [] : [{ name, encrypted, ...space }],
      ),
      archives: [FAKE_ARCHIVES],
    };
  }

  async vaults(): Promise<readonly NodeVault[]> {
    await this.faults.at('vaults');
    return this.#listVaults();
  }

  async createVault(order: CreateVaultOrder): Promise<void> {
    await this.faults.at('createVault');
    this.fakeVaults.create(order);
    await this.faults.at('createVault done');
  }

  async openVault(order: OpenVaultOrder): Promise<void> {
    await this.faults.at('openVault');
    this.fakeVaults.open(order);
    await this.faults.at('openVault done');
  }

  async closeVault({ vault, endLives }: CloseVaultOrder): Promise<void> {
    await this.faults.at('closeVault');
    const running = [...this.#sandboxes].filter(([, sandbox]) => sandbox.vault === vault && sandbox.life !== null);
    if (running.length > 0 && !endLives) throw new AppError('vault_in_use', `${running.length} sandboxes run in it.`);
    for (const [, sandbox] of running) {
      const { life } = sandbox;
      if (life !== null) sandbox.crashed = { lifeId: life.lifeId, guest: life.guest };
      this.#endLife(sandbox);
    }
    this.fakeVaults.close(vault);
    await this.faults.at('closeVault done');
  }

  async keepVaultToken(order: KeepVaultTokenOrder): Promise<void> {
    await this.faults.at('keepVaultToken');
    this.fakeVaults.keepToken(order);
    await this.faults.at('keepVaultToken done');
  }

  async growVault(vault: VaultName, sizeBytes: number): Promise<void> {
    await this.faults.at('growVault');
    this.fakeVaults.grow(vault, sizeBytes);
  }

  async removeVault(vault: VaultName): Promise<void> {
    await this.faults.at('removeVault');
    this.fakeVaults.remove(vault);
    for (const [id, sandbox] of this.#sandboxes) if (sandbox.vault === vault) this.#sandboxes.delete(id);
    for (const [id, point] of this.#points) if (point.vault === vault) this.#points.delete(id);
  }

  async templates(): Promise<readonly TemplateStatus[]> {
    return [
      {
        name: 'base',
        ready: [{ vault: DEFAULT_VAULT, size: DEFAULT_SIZE, state: 'ready', step: 'ready', progress: 1 }],
      },
    ];
  }

  async ensureReady(vault: VaultName, template: string, size: Size): Promise<SnapshotId> {
    await this.faults.at('ensureReady');
    this.fakeVaults.requireOpen(vault);
    if (template !== 'base') throw new AppError('template_unknown', `There is no template "${template}".`);
    const key = `${vault} ${template} ${sizeKey(size)}`;
    const ready = this.#ready.get(key) ?? (this.#nextId('snp') as SnapshotId);
    this.#ready.set(key, ready);
    this.#points.set(ready, { vault, guest: new FakeGuestState(), parent: null, owner: null });
    return ready;
  }

  async reserveMemory(claims: readonly MemoryClaim[]): Promise<void> {
    await this.faults.at('reserveMemory');
    this.#checkMemory(claims.reduce((sum, { memoryMib }) => sum + memoryMib, 0));
    for (const { sandboxId, memoryMib } of claims) this.#claimed.set(sandboxId, memoryMib);
  }

  async releaseMemory(sandboxIds: readonly SandboxId[]): Promise<void> {
    for (const sandboxId of sandboxIds) this.#claimed.delete(sandboxId);
  }

  async start(order: StartOrder): Promise<StartedLife> {
    this.#announce(order);
    await this.faults.at('start');
    await this.faults.at('start vm');
    this.#checkEpoch(order);
    const known = this.#sandboxes.get(order.sandboxId);
    if (known?.life) throw new AppError('wrong_state', 'It runs already.');
    if (known?.moved) throw new AppError('wrong_state', 'It was moved.');
    this.#claimed.delete(order.sandboxId);
    this.#checkMemory(order.size.memoryMib);
    const guest =
      order.from === 'crashed' ? known?.crashed?.guest.rebooted() : this.#point(order.from, order.vault).guest.copy();
    if (guest === undefined) throw new AppError('wrong_state', 'There is no disk of an ended life.');
    const life = this.#newLife(guest);
    this.#sandboxes.set(order.sandboxId, {
      vault: order.vault,
      epoch: order.epoch,
      generation: order.generation,
      head: order.from === 'crashed' ? this.#get(order.sandboxId).head : order.from,
      size: order.size,
      template: order.template,
      life,
      crashed: null,
    });
    await this.faults.at('start done');
    return { lifeId: life.lifeId, runningMs: 1, readyMs: 2 };
  }

  async goOn(order: GoOnOrder): Promise<void> {
    this.#announce(order);
    await this.faults.at('goOn');
    this.#checkEpoch(order);
    if (!this.hasRoom) throw new AppError('out_of_space', 'The vault has no room for it yet.');
    const { life } = this.#get(order.sandboxId);
    if (life === null) throw new AppError('vm_lost', 'The VM is gone.');
    life.halted = false;
    await this.faults.at('goOn done');
  }

  async snapshot(order: CaptureOrder): Promise<TakenPoint> {
    this.#announce(order);
    await this.faults.at('snapshot');
    this.#checkEpoch(order);
    const taken = this.#capture(order.sandboxId, order.snapshotId, order.kind);
    this.#get(order.sandboxId).head = order.snapshotId;
    await this.faults.at('snapshot done');
    return taken;
  }

  async pause(order: CaptureOrder): Promise<TakenPoint> {
    this.#announce(order);
    await this.faults.at('pause');
    this.#checkEpoch(order);
    const taken = this.#capture(order.sandboxId, order.snapshotId, order.kind);
    const sandbox = this.#get(order.sandboxId);
    this.#endLife(sandbox);
    sandbox.head = order.snapshotId;
    await this.faults.at('pause done');
    return taken;
  }

  async rewind(order: RewindOrder): Promise<{ readonly kept: TakenPoint | null; readonly life: StartedLife }> {
    this.#announce(order);
    await this.faults.at('rewind');
    this.#checkEpoch(order);
    const sandbox = this.#get(order.sandboxId);
    const next = this.#newLife(this.#point(order.to, order.vault).guest.copy());
    const { keepAs } = order;
    const kept = sandbox.life === null || keepAs === null ? null : this.#capture(order.sandboxId, keepAs);
    this.#endLife(sandbox);
    Object.assign(sandbox, { life: next, head: order.to, generation: order.generation, crashed: null });
    await this.faults.at('rewind done');
    return { kept, life: { lifeId: next.lifeId, runningMs: 1, readyMs: 2 } };
  }

  async destroy(order: DestroyOrder): Promise<void> {
    this.#announce(order);
    await this.faults.at('destroy');
    this.#checkEpoch(order);
    const sandbox = this.#sandboxes.get(order.sandboxId);
    if (sandbox !== undefined) this.#endLife(sandbox);
    this.#sandboxes.delete(order.sandboxId);
    for (const point of order.points) this.#points.delete(point);
    await this.faults.at('destroy done');
  }

  async deletePoint(vault: VaultName, snapshotId: SnapshotId): Promise<void> {
    await this.faults.at('deletePoint');
    this.fakeVaults.requireOpen(vault);
    if (this.#points.delete(snapshotId)) this.availableBytes += this.bytesPerPoint;
  }

  async checkPoint(vault: VaultName, snapshotId: SnapshotId): Promise<void> {
    await this.faults.at('checkPoint');
    this.fakeVaults.requireOpen(vault);
    this.#point(snapshotId, vault);
  }

  async points(vault: VaultName): Promise<readonly SnapshotId[]> {
    this.fakeVaults.requireOpen(vault);
    return [...this.#points].filter(([, point]) => point.vault === vault).map(([id]) => id);
  }

  async pointOwner(vault: VaultName, snapshotId: SnapshotId): Promise<SandboxId | null> {
    this.fakeVaults.requireOpen(vault);
    return this.#point(snapshotId, vault).owner;
  }

  async *exportPoints(order: ExportOrder, signal?: AbortSignal): AsyncGenerator<ExportEvent, void> {
    checkLocation(order.location);
    this.fakeVaults.requireOpen(order.vault);
    for (const [at] of order.points.entries()) {
      await this.faults.at('exportPoints');
      signal?.throwIfAborted();
      yield {
        kind: 'progress',
        donePoints: at + 1,
        progress: (at + 1) / order.points.length,
        readBytes: 10 * (at + 1),
        sentBytes: at + 1,
      };
    }
    const points = order.points.map((id) => ({ ...this.#point(id, order.vault), id }));
    yield this.archives.write(order, points);
    await this.faults.at('exportPoints done');
  }

  async readArchive(source: SealedSource): Promise<ArchiveSummary> {
    await this.faults.at('readArchive');
    return this.archives.summary(source);
  }

  async readArchiveKey(source: ArchiveSource): Promise<WrappedArchiveKey | null> {
    await this.faults.at('readArchiveKey');
    return this.archives.keyOf(source);
  }

  async importPoints(order: ImportOrder): Promise<void> {
    this.#announce(order);
    const { points } = this.archives.read(order);
    const names = new Map(points.map(({ id }, at) => [id, order.points[at]]));
    for (const { id, guest, parent } of points) {
      await this.faults.at('importPoints');
      this.#checkEpoch(order);
      const name = names.get(id);
      if (name === undefined) throw new AppError('bad_request', 'A point has no name.');
      const parentHere = (parent === null ? undefined : names.get(parent)) ?? null;
      const brought = order.disksOnly ? guest.rebooted() : guest.copy();
      this.#points.set(name, { vault: order.vault, guest: brought, parent: parentHere, owner: order.sandboxId });
    }
    await this.faults.at('importPoints done');
  }

  async handOver(order: HandOverOrder): Promise<HandedOver> {
    this.#announce(order);
    checkLocation(order.location);
    const sandbox = this.#get(order.sandboxId);
    const { moved } = sandbox;
    if (moved !== undefined) {
      if (this.archives.has(moved.archive)) return { archive: moved.archive, readBytes: 0, sentBytes: 0 };
      this.archives.claim(moved.archive, order.claimant);
      delete sandbox.moved;
    }
    if (sandbox.life !== null || sandbox.crashed !== null) throw new AppError('wrong_state', 'It is not paused.');
    await this.faults.at('handOver');
    this.#checkEpoch(order);
    const points = order.points.map((id) => ({ ...this.#point(id, order.vault), id }));
    const archive = this.archives.nameOf(order, points);
    sandbox.moved = { location: order.location, archive };
    await this.faults.at('handOver sealed');
    this.archives.put(archive, { order, points });
    await this.faults.at('handOver done');
    return { archive, readBytes: 1000, sentBytes: 100 };
  }

  async arrive(order: ArriveOrder): Promise<Arrived> {
    this.#announce(order);
    await this.faults.at('arrive');
    const known = this.#sandboxes.get(order.sandboxId);
    if (known?.moved?.archive === order.archive) {
      this.archives.claim(order.archive, order.claimant);
      await this.faults.at('arrive claimed');
      delete known.moved;
      return { head: known.head, generation: known.generation };
    }
    const { order: written, points } = this.archives.read(order);
    const head = points.at(-1)?.id;
    if (!('move' in written) || head === undefined) throw new AppError('bad_request', 'It was made as a copy.');
    if (known !== undefined && known.moved === undefined && known.head === head) {
      this.archives.claim(order.archive, order.claimant);
      return { head, generation: known.generation };
    }
    const brought = points.filter(({ id }) => !this.#points.has(id));
    try {
      for (const { id, guest, parent } of brought) {
        await this.faults.at('arrive point');
        this.#points.set(id, { vault: order.vault, guest: guest.copy(), parent, owner: order.sandboxId });
      }
      this.#checkEpoch(order);
      this.archives.claim(order.archive, order.claimant);
      await this.faults.at('arrive claimed');
    } catch (thrown) {
      for (const { id } of brought) this.#points.delete(id);
      throw thrown;
    }
    const { template } = written;
    const { generation } = written.move;
    const { epoch, vault } = order;
    this.#sandboxes.set(order.sandboxId, {
      ...{ vault, epoch, generation, head, size: DEFAULT_SIZE, template, life: null, crashed: null },
    });
    await this.faults.at('arrive done');
    return { head, generation };
  }

  async listArchives({ location, projectId }: ArchiveSpace, sandboxId: SandboxId | null) {
    await this.faults.at('listArchives');
    checkLocation(location);
    return this.archives.list(projectId, sandboxId);
  }

  async removeArchive({ location, archive }: ArchiveSource): Promise<void> {
    await this.faults.at('removeArchive');
    checkLocation(location);
    this.archives.remove(archive);
  }

  async collectArchives({ location, insists }: CollectOrder): Promise<CollectedArchives | null> {
    await this.faults.at('collectArchives');
    checkLocation(location);
    if (this.archives.inUse && !insists) return null;
    this.archives.collections += 1;
    return { removed: 0, kept: 0, resisted: 0 };
  }

  async changed(sandboxId: SandboxId): Promise<Changed | null> {
    await this.faults.at('changed');
    return this.#sandboxes.get(sandboxId)?.life?.changed ?? null;
  }

  async inspect(vault: VaultName, sandboxId: SandboxId): Promise<InspectedSandbox> {
    await this.faults.at('inspect');
    this.fakeVaults.requireOpen(vault);
    return this.#inspect(sandboxId);
  }

  async inspectAll(): Promise<readonly InspectedSandbox[]> {
    await this.faults.at('inspect');
    const open = [...this.#sandboxes].filter(([, { vault }]) => this.fakeVaults.isOpen(vault)).map(([id]) => id);
    const readable = open.filter((sandboxId) => !this.unreadable.has(sandboxId));
    return readable.map((sandboxId) => this.#inspect(sandboxId));
  }

  async usage(sandboxId: SandboxId): Promise<LifeUsage | null> {
    await this.faults.at('usage');
    const life = this.#sandboxes.get(sandboxId)?.life ?? null;
    if (life === null) return null;
    return {
      lifeId: life.lifeId,
      cpuMs: life.cpuMs,
      memoryBytes: 2 ** 26,
      diskBytes: 2 ** 20,
      outgoingBytes: life.outgoingBytes,
    };
  }

  async console(sandboxId: SandboxId): Promise<string | null> {
    const life = this.#sandboxes.get(sandboxId)?.life ?? null;
    return life === null ? null : `[    0.000000] \x1b[31mfake\x1b[0m guest of ${life.lifeId}\r\n`;
  }

  onLifeEnded(listener: (end: LifeEnd) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  onBack(): () => void {
    return () => undefined;
  }

  onSpace(listener: (news: SpaceNews) => void): () => void {
    this.#spaceListeners.add(listener);
    return () => this.#spaceListeners.delete(listener);
  }

  async *exec(sandboxId: SandboxId, command: GuestCommand, signal?: AbortSignal): AsyncIterable<ProcessEvent> {
    const life = this.#life(sandboxId);
    yield* life.processes.run(life.guest, command, signal);
  }

  async *attach(sandboxId: SandboxId, at: OutputPosition, signal?: AbortSignal): AsyncIterable<ProcessEvent> {
    yield* this.#life(sandboxId).processes.attach(at, signal);
  }

  async writeInput(sandboxId: SandboxId, input: ProcessInput) {
    return { acceptedBytes: this.#life(sandboxId).processes.writeInput(input) };
  }

  async resizeTerminal(sandboxId: SandboxId, processId: ProcessId): Promise<void> {
    this.#life(sandboxId).processes.resize(processId);
  }

  async signalProcess(sandboxId: SandboxId, processId: ProcessId, signal: number): Promise<void> {
    this.#life(sandboxId).processes.signal(processId, signal);
  }

  async processes(sandboxId: SandboxId, options?: { readonly ended?: boolean }): Promise<readonly GuestProcess[]> {
    return this.#life(sandboxId).processes.list(options);
  }

  async openPort(sandboxId: SandboxId, port: number, signal?: AbortSignal) {
    await this.faults.at('openPort');
    return this.#life(sandboxId).ports.open(port, signal);
  }

  async readFile(sandboxId: SandboxId, file: FileRange) {
    return this.#files(sandboxId).readFile(file);
  }

  async writeFile(sandboxId: SandboxId, file: NewFile, body: AsyncIterable<Uint8Array>) {
    return this.#files(sandboxId).writeFile(file, body);
  }

  async stat(sandboxId: SandboxId, file: FilePath & Following) {
    return this.#files(sandboxId).stat(file);
  }

  async makeDirectory(sandboxId: SandboxId, directory: NewDirectory) {
    return this.#files(sandboxId).makeDirectory(directory);
  }

  async moveFile(sandboxId: SandboxId, move: FileMove) {
    return this.#files(sandboxId).moveFile(move);
  }

  async removeFile(sandboxId: SandboxId, file: FilePath & { readonly recursive?: boolean }) {
    return this.#files(sandboxId).removeFile(file);
  }

  async setAttributes(sandboxId: SandboxId, attributes: FileAttributes) {
    return this.#files(sandboxId).setAttributes(attributes);
  }

  async makeSymlink(sandboxId: SandboxId, link: FilePath & { readonly target: GuestBytes }) {
    return this.#files(sandboxId).makeSymlink(link);
  }

  async xattrs(sandboxId: SandboxId, file: FilePath & Following) {
    return this.#files(sandboxId).xattrs(file);
  }

  async xattr(sandboxId: SandboxId, attribute: Xattr) {
    return this.#files(sandboxId).xattr(attribute);
  }

  async setXattr(sandboxId: SandboxId, attribute: Xattr, value: Uint8Array) {
    return this.#files(sandboxId).setXattr(attribute, value);
  }

  async removeXattr(sandboxId: SandboxId, attribute: Xattr) {
    return this.#files(sandboxId).removeXattr(attribute);
  }

  async *list(sandboxId: SandboxId, directory: FilePath & { readonly depth?: number }) {
    yield* this.#files(sandboxId).list(directory);
  }

  async *watch(sandboxId: SandboxId, directory: WatchedDirectory, signal?: AbortSignal) {
    yield* this.#files(sandboxId).watch(directory, signal);
  }

  // Inside.

  /** Epochs are remembered also for what is gone, so a late order cannot bring it back. */
  #announce(order: GoOnOrder): void {
    this.#checkEpoch(order);
    this.#epochs.set(order.sandboxId, order.epoch);
  }

  /** Before each effect; that the vault is open, too, for what a real node waits for. */
  #checkEpoch({ vault, sandboxId, epoch }: GoOnOrder): void {
    this.fakeVaults.requireOpen(vault);
    const highest = this.#epochs.get(sandboxId) ?? 0;
    if (epoch < highest) throw new AppError('superseded', `Epoch ${epoch} is lower than ${highest}.`);
  }

  #promisedMib(): number {
    const running = [...this.#sandboxes.values()].filter(({ life }) => life !== null);
    return this.claimedMib + running.reduce((sum, { size }) => sum + size.memoryMib, 0);
  }

  #checkMemory(askedMib: number): void {
    if (askedMib > this.memoryMib - this.#promisedMib()) throw new AppError('insufficient_memory', 'It does not fit.');
  }

  #get(sandboxId: SandboxId): FakeSandbox {
    const sandbox = this.#sandboxes.get(sandboxId);
    if (sandbox !== undefined) this.fakeVaults.requireOpen(sandbox.vault);
    if (sandbox === undefined) throw new AppError('not_found', `This node holds no sandbox ${sandboxId}.`);
    if (this.unreadable.has(sandboxId)) throw new AppError('record_bad', `The record of ${sandboxId} cannot be read.`);
    return sandbox;
  }

  #life(sandboxId: SandboxId): FakeLife {
    const { life } = this.#get(sandboxId);
    if (life === null) throw new AppError('wrong_state', { detail: 'It does not run.', facts: { paused: true } });
    if (life.halted) throw new AppError('out_of_space', 'It stands still.');
    return life;
  }

  #files(sandboxId: SandboxId): FakeFiles {
    return this.#life(sandboxId).guest.files;
  }

  /** None of another vault is found in this one. */
  #point(snapshotId: SnapshotId, vault: VaultName) {
    const point = this.#points.get(snapshotId);
    if (point?.vault !== vault) throw new AppError('snapshot_bad', `There is no point ${snapshotId}.`);
    if (this.damaged.has(snapshotId)) throw new AppError('snapshot_bad', `The memory of ${snapshotId} is damaged.`);
    return point;
  }

  #newLife(guest: FakeGuestState): FakeLife {
    return {
      lifeId: this.#nextId('lif') as LifeId,
      guest,
      processes: new FakeProcesses(guest, this.#programs),
      ports: new FakePorts(),
      cpuMs: 0,
      outgoingBytes: 0,
      changed: UNCHANGED,
      halted: false,
    };
  }

  #endLife(sandbox: FakeSandbox): void {
    const ended = new AppError('link_lost', 'The stream ended: its life was ended.');
    sandbox.life?.processes.lose(ended);
    sandbox.life?.ports.lose(ended);
    sandbox.life?.guest.files.lose();
    sandbox.life = null;
  }

  /** One of the disk holds what a guest has that booted from it. */
  #capture(sandboxId: SandboxId, snapshotId: SnapshotId, kind: SnapshotKind = 'memory'): TakenPoint {
    const life = this.#life(sandboxId);
    const { changed } = life;
    const { vault, head: parent } = this.#get(sandboxId);
    const guest = kind === 'disk' ? life.guest.rebooted() : life.guest.copy();
    if (kind === 'memory') guest.ended = life.processes.ended();
    this.#points.set(snapshotId, { vault, guest, parent, owner: sandboxId });
    life.changed = kind === 'disk' ? { ...changed, diskBytes: 0 } : UNCHANGED;
    const [stoppedMs, frozenMs] = kind === 'disk' ? [0, 0] : [1.04999, this.frozenMs];
    return { snapshotId, parent, takenAt: this.#nextInstant(), stoppedMs, frozenMs, totalMs: 3.000001, changed };
  }

  #inspect(sandboxId: SandboxId): InspectedSandbox {
    const { vault, epoch, generation, head, life, crashed, moved } = this.#get(sandboxId);
    const lifeId = (life ?? crashed)?.lifeId ?? null;
    const withoutVm = crashed !== null ? 'crashed' : moved !== undefined ? 'moved' : 'paused';
    const real = life === null ? withoutVm : life.halted ? 'out_of_space' : 'running';
    const inspected = { vault, sandboxId, real, epoch, generation, head, life: lifeId } as const;
    return moved === undefined ? inspected : { ...inspected, moved };
  }

  #listVaults(): readonly NodeVault[] {
    const running = [...this.#sandboxes.values()].filter(({ life }) => life !== null);
    return this.fakeVaults.list((vault) => running.filter((one) => one.vault === vault).length, this.availableBytes);
  }

  /** No two points are of one instant. */
  #nextInstant(): string {
    this.#lastInstant = Math.max(this.now(), this.#lastInstant + 1);
    return new Date(this.#lastInstant).toISOString();
  }

  #nextId(prefix: string): string {
    this.#serial += 1;
    return `${prefix}_${this.#serial.toString().padStart(16, '0')}`;
  }
}
