/**
 * The node port: what control asks of one machine that runs microVMs. Orders are plain data, so that the two can live in
 * separate processes. Each order carries the sandbox's epoch; the node refuses one that is lower than the highest it has
 * seen (`superseded`), checked again before every effect.
 */

import type { Changed } from '../cadence.ts';
import type { ErrorCode } from '../errors.ts';
import type { LifeId, ProcessId, ProjectId, SandboxId, SnapshotId, VaultName } from '../ids.ts';
import type { WrappedArchiveKey } from '../keys/archive-key.ts';
import type { Real } from '../lifecycle.ts';
import type { MovedTo, SnapshotKind } from '../manifest.ts';
import type { SecretGrant } from '../secrets/secret-binding.ts';
import type { Size, SizeLimits } from '../size.ts';
import type {
  GuestCommand,
  GuestProcess,
  OutputPosition,
  ProcessEvent,
  ProcessInput,
  SignalTarget,
  TerminalSize,
} from './guest.ts';
import type { GuestFiles } from './guest-files.ts';
import type { PortConnection } from './port-connection.ts';
import type { VmUsage } from './runtime.ts';
import type { VaultContainer, VaultSpace } from './vault.ts';

/** The calls of the guest's files, each with the sandbox before the rest. */
export type NodeFiles = {
  readonly [K in keyof GuestFiles]: GuestFiles[K] extends (...rest: infer A) => infer R
    ? (sandboxId: SandboxId, ...rest: A) => R
    : never;
};

export interface NodePort extends NodeFiles {
  capabilities(): Promise<NodeCapabilities>;
  /** The vaults that the node has, open or not. */
  vaults(): Promise<readonly NodeVault[]>;
  /** See `VaultContainers.create`; it is closed then. The bytes of the key are wiped, also when it fails. */
  createVault(order: CreateVaultOrder): Promise<void>;
  /**
   * Opens a vault, and takes up what lies in it; idempotent. Until then, and after it was closed, whatever names it or lies in it is
   * answered with `vault_closed`, with nothing done. Throws `not_found`, and as `VaultContainers.open`. The bytes of the key are wiped,
   * also when it fails.
   */
  openVault(order: OpenVaultOrder): Promise<void>;
  /**
   * Waits for what is under way, for seconds, and closes the vault; idempotent. Throws `vault_in_use` while sandboxes run in it, unless
   * they are to be ended: then nothing begins in it any more, even when this fails, until it is opened again.
   */
  closeVault(order: CloseVaultOrder): Promise<void>;
  /** See `VaultContainers.keepToken`. The bytes of the key are wiped, also when it fails. */
  keepVaultToken(order: KeepVaultTokenOrder): Promise<void>;
  /** See `VaultContainers.grow`. */
  growVault(vault: VaultName, sizeBytes: number): Promise<void>;
  /** See `VaultContainers.remove`. Throws `vault_in_use` where it is open. */
  removeVault(vault: VaultName): Promise<void>;
  /** Templates with the state of their ready snapshots, newest step included. */
  templates(): Promise<readonly TemplateStatus[]>;
  /** The ready snapshot of (vault, template, size), built on first use (tens of seconds). Concurrent calls share one build. */
  ensureReady(vault: VaultName, template: string, size: Size): Promise<SnapshotId>;

  /**
   * Promises memory to sandboxes that are about to be started, to all or to none: throws `insufficient_memory`. The start
   * of each takes up its part; what is not taken up within `MEMORY_RESERVED_MS`, or is given back, is free again.
   */
  reserveMemory(sandboxes: readonly MemoryClaim[]): Promise<void>;
  /** Gives back what no start took up. Idempotent. */
  releaseMemory(sandboxIds: readonly SandboxId[]): Promise<void>;
  /** Starts a life from a point: create, fork child and resume are this one order. Throws with nothing changed. */
  start(order: StartOrder): Promise<StartedLife>;
  /** Lets a sandbox go on whose vCPUs were stopped for want of space. Throws `out_of_space` when there is none yet. */
  goOn(order: GoOnOrder): Promise<void>;
  /** A point of the running sandbox, which goes on. Throws `snapshot_failed` with nothing changed. */
  snapshot(order: CaptureOrder): Promise<TakenPoint>;
  /** A point, then the end of the VM. Throws (`snapshot_failed`) with the sandbox running on. */
  pause(order: CaptureOrder): Promise<TakenPoint>;
  /** Prepares a life from `to`, keeps the present as `keepAs` (when a life runs), and only then ends the old one. */
  rewind(order: RewindOrder): Promise<{ readonly kept: TakenPoint | null; readonly life: StartedLife }>;
  /** Ends the VM and removes the sandbox with the given points; idempotent, also for an unknown sandbox. */
  destroy(order: DestroyOrder): Promise<void>;
  deletePoint(vault: VaultName, snapshotId: SnapshotId): Promise<void>;
  /** Reads a point through, which takes minutes; see `Vault.checkPoint`. Throws `snapshot_bad` with the reason. */
  checkPoint(vault: VaultName, snapshotId: SnapshotId): Promise<void>;
  /** All that lie in a vault, ready snapshots of templates too. */
  points(vault: VaultName): Promise<readonly SnapshotId[]>;
  /** Whose point it is; null: no sandbox's. Throws `snapshot_bad`. */
  pointOwner(vault: VaultName, snapshotId: SnapshotId): Promise<SandboxId | null>;
  /**
   * What a running sandbox has rewritten since its last point, written out first; null when it does not run. The guest is
   * not disturbed.
   */
  changed(sandboxId: SandboxId): Promise<Changed | null>;

  /**
   * Brings points of a sandbox into an archive. It may run, and is not held up; the points must not be deleted meanwhile. One
   * that broke off is given again, and goes on. Throws `snapshot_bad`, `archive_unavailable`.
   */
  exportPoints(order: ExportOrder, signal?: AbortSignal): AsyncIterable<ExportEvent>;
  /** What an archive holds. Throws `not_found`, `archive_damaged`, `archive_unsupported`, `archive_unavailable`, `size_impossible`. */
  readArchive(source: SealedSource): Promise<ArchiveSummary>;
  /** The key that an archive is encrypted with, as it has it along; null: it is not encrypted. Throws as `readArchive`. */
  readArchiveKey(source: ArchiveSource): Promise<WrappedArchiveKey | null>;
  /**
   * Brings the points of an archive into a vault, as those of a sandbox that does not exist yet. One that broke off is given
   * again, and goes on. Throws as `readArchive`, and `insufficient_space`.
   */
  importPoints(order: ImportOrder, signal?: AbortSignal): Promise<void>;
  /**
   * Exports a paused sandbox as a move. Once all but the archive's index is there, its record says that it was moved, and it is not
   * started here any more; only then is the index written, without which nobody can take it up. Given again it tells the archive
   * that there is, or makes one. When it fails the sandbox is paused as before, or, where that is not certain, `moved`.
   */
  handOver(order: HandOverOrder, signal?: AbortSignal): Promise<HandedOver>;
  /** The archives of a project in a place, newest first. Throws `archive_unavailable`; `bad_request` when there are too many. */
  listArchives(space: ArchiveSpace, sandboxId: SandboxId | null): Promise<readonly ArchiveListing[]>;
  /** Idempotent. What it alone holds is left to `collectArchives`. */
  removeArchive(source: ArchiveSource): Promise<void>;
  /**
   * Removes what no archive of the project names any more, at a pace that others do not feel. Null: it is in use, by an export, an
   * import or another collection; it is to be given again. One that insists has whoever comes now wait for it, for minutes at most.
   */
  collectArchives(order: CollectOrder, signal?: AbortSignal): Promise<CollectedArchives | null>;
  /**
   * Takes up a move: brings its points, claims it in the archive for `claimant`, and records the sandbox as paused. Also the move by
   * which it left from here, which is undone thus. Given again it goes on. Throws `move_taken`, and as `importPoints`, with nothing
   * left.
   */
  arrive(order: ArriveOrder, signal?: AbortSignal): Promise<Arrived>;

  /** What is real, once no order on the sandbox is under way. Throws `not_found`; `vault_closed`, of which nothing follows. */
  inspect(vault: VaultName, sandboxId: SandboxId): Promise<InspectedSandbox>;
  /** Every sandbox that the node holds in the vaults that are open. */
  inspectAll(): Promise<readonly InspectedSandbox[]>;
  /** What its life takes now, as the host sees it; null when none runs. Nothing is asked of the guest. */
  usage(sandboxId: SandboxId): Promise<LifeUsage | null>;
  /** The last 64 KiB or less that the guest wrote to its console, hostile text; null when no life runs. */
  console(sandboxId: SandboxId): Promise<string | null>;
  /** Called when a VM ended unasked; perhaps twice for one, and late when the node was away. Returns a function that unsubscribes. */
  onLifeEnded(listener: (end: LifeEnd) => void): () => void;
  /** Called when the node answers (again): what became of orders before that is to be found out. Returns as above. */
  onBack(listener: () => void): () => void;
  /** What becomes of lives as their vault runs out of space, and gets room again. Returns a function that unsubscribes. */
  onSpace(listener: (news: SpaceNews) => void): () => void;

  exec(sandboxId: SandboxId, command: GuestCommand, signal?: AbortSignal): AsyncIterable<ProcessEvent>;
  attach(sandboxId: SandboxId, at: OutputPosition, signal?: AbortSignal): AsyncIterable<ProcessEvent>;
  writeInput(sandboxId: SandboxId, input: ProcessInput): Promise<{ readonly acceptedBytes: number }>;
  resizeTerminal(sandboxId: SandboxId, processId: ProcessId, size: TerminalSize): Promise<void>;
  signalProcess(sandboxId: SandboxId, processId: ProcessId, signal: number, target: SignalTarget): Promise<void>;
  processes(sandboxId: SandboxId, options?: { readonly ended?: boolean }): Promise<readonly GuestProcess[]>;
  openPort(sandboxId: SandboxId, port: number, signal?: AbortSignal): Promise<PortConnection>;
}

/** Longer than the starts of the largest fork take, on a slow machine; a control that died gives nothing back. */
export const MEMORY_RESERVED_MS = 5 * 60_000;

export interface MemoryClaim {
  readonly sandboxId: SandboxId;
  /** Of its size; what a VMM needs beside it is the node's to add. */
  readonly memoryMib: number;
}

export interface CreateVaultOrder {
  readonly vault: VaultName;
  readonly sizeBytes: number;
  /** Null: it is not encrypted. */
  readonly key: Uint8Array | null;
  readonly token: string | null;
}

export interface KeepVaultTokenOrder {
  readonly vault: VaultName;
  readonly key: Uint8Array;
  readonly token: string;
}

export interface OpenVaultOrder {
  readonly vault: VaultName;
  readonly key: Uint8Array | null;
}

export interface CloseVaultOrder {
  readonly vault: VaultName;
  /** What its sandboxes did since their last points is lost. */
  readonly endLives: boolean;
}

export interface NodeVault extends Pick<VaultContainer, 'vault' | 'encrypted' | 'way'> {
  readonly state: 'closed' | 'opening' | 'open' | 'closing';
  /** Sandboxes that run in it. */
  readonly lives: number;
  /** Null: it is not open. */
  readonly space: VaultSpace | null;
}

interface Order {
  /** The vault that the sandbox and its points lie in. */
  readonly vault: VaultName;
  readonly sandboxId: SandboxId;
  readonly epoch: number;
}

export type GoOnOrder = Order;

export interface StartOrder extends Order {
  /** The point to start from; or `crashed`: the disk as the last life left it, booted. */
  readonly from: SnapshotId | 'crashed';
  readonly template: string;
  readonly generation: number;
  readonly size: Size;
  /** Certificates (PEM) that programs in it are to trust beside those of its image: the gateway's, for the organisation. */
  readonly trust?: string;
}

export interface ArchiveSource {
  /** One of `NodeCapabilities.archives`. */
  readonly location: string;
  /** As `formatArchiveRef` writes it. */
  readonly archive: string;
}

export interface SealedSource extends ArchiveSource {
  /** Of one that is encrypted. Whoever takes the order over overwrites it. */
  readonly key?: Uint8Array;
}

/** What an archive is encrypted with. */
export interface ArchiveSealOrder {
  /** Whoever takes the order over overwrites it. */
  readonly key: Uint8Array;
  readonly wrapped: WrappedArchiveKey;
}

export interface ExportOrder {
  readonly vault: VaultName;
  readonly sandboxId: SandboxId;
  readonly location: string;
  /** Whose archives it lies among. */
  readonly projectId: ProjectId;
  readonly template: string;
  /** A point after those that it grew from; the last is the one that an import goes on from. */
  readonly points: readonly SnapshotId[];
  /** An earlier archive of the sandbox, of which nothing is read or sent again. */
  readonly base: string | null;
  /** Left out: it is not encrypted, as the vault is not. */
  readonly seal?: ArchiveSealOrder;
}

export type ExportEvent =
  | {
      readonly kind: 'progress';
      readonly donePoints: number;
      /** Of all that there is to go through: 0 to 1. */
      readonly progress: number;
      /** Of their content, and of what was sent of it, packed. */
      readonly readBytes: number;
      readonly sentBytes: number;
    }
  | { readonly kind: 'done'; readonly archive: string; readonly readBytes: number; readonly sentBytes: number };

export interface ArchiveSummary {
  readonly sandboxId: SandboxId;
  readonly template: string;
  /** ISO 8601. */
  readonly madeAt: string;
  /** Each after those that it grew from. */
  readonly points: readonly ArchivedPointSummary[];
  /** Which of them the sandbox goes on from. */
  readonly head: number;
  /** What the memory of that one needs and this node has not; null: nothing. */
  readonly unfit: string | null;
  /** Null: it was made as a copy. */
  readonly move: MoveFacts | null;
}

export interface ArchivedPointSummary {
  readonly snapshotId: SnapshotId;
  readonly generation: number;
  /** Which of the points it grew from; null: none of them. */
  readonly parent: number | null;
  readonly kind: SnapshotKind;
  readonly size: Size;
  /** ISO 8601. */
  readonly takenAt: string;
}

export interface ImportOrder extends Order, SealedSource {
  /** What each point is called here, in the order of the summary. */
  readonly points: readonly SnapshotId[];
  readonly generation: number;
  /** Every point as one of kind `disk`, whatever it holds. */
  readonly disksOnly: boolean;
}

export interface ArchiveSpace {
  readonly location: string;
  readonly projectId: ProjectId;
}

export interface CollectOrder extends ArchiveSpace {
  readonly insists: boolean;
}

export interface ArchiveListing {
  readonly archive: string;
  readonly sandboxId: SandboxId;
  /** ISO 8601; null: it cannot be read. */
  readonly madeAt: string | null;
  /** Of the point that an import goes on from. */
  readonly takenAt: string | null;
  readonly points: number;
  readonly isMove: boolean;
  /** Why it cannot be imported, as far as its index tells; null: nothing. */
  readonly fault: ErrorCode | null;
}

/** Pieces. */
export interface CollectedArchives {
  readonly removed: number;
  readonly kept: number;
  readonly resisted: number;
}

/** What a move says of the sandbox beside its points. */
export interface MoveFacts {
  /** How many moves the sandbox has been through with this one. */
  readonly number: number;
  readonly generation: number;
  /** Name, environment and the like, as control wrote them; to be checked by whoever reads them. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** The secret bindings that it names, with what programs see of each; no value. */
  readonly secrets: readonly SecretGrant[];
}

export interface HandOverOrder extends Order, Omit<ExportOrder, 'vault' | 'sandboxId'> {
  readonly move: MoveFacts;
  /** Of this installation, should the move have to be taken back. */
  readonly claimant: string;
}

export interface HandedOver {
  readonly archive: string;
  readonly readBytes: number;
  readonly sentBytes: number;
}

export interface ArriveOrder extends Order, SealedSource {
  /** Who takes it up: an installation, by a name that no other one has. */
  readonly claimant: string;
}

export interface Arrived {
  readonly head: SnapshotId;
  readonly generation: number;
}

export interface CaptureOrder extends Order {
  readonly snapshotId: SnapshotId;
  /**
   * Absent: `memory`. For a snapshot of kind `disk` nothing in the guest stands still, and its agent is not asked. A pause of that kind keeps
   * what its programs had written to files when it came, and nothing else of the guest; a start from it boots.
   */
  readonly kind?: SnapshotKind;
  /** Of a snapshot: when user processes would stand still for longer, none is taken (`over_budget`). */
  readonly budgetMs?: number;
}

export interface RewindOrder extends Order {
  readonly to: SnapshotId;
  /** The point that the present is kept as; null: a present that cannot be kept is given up. */
  readonly keepAs: SnapshotId | null;
  readonly generation: number;
  /** As of a start. */
  readonly trust?: string;
}

export interface DestroyOrder extends Order {
  readonly points: readonly SnapshotId[];
}

/** Times in milliseconds, on the node's monotonic clock, from the order's arrival. */
export interface StartedLife {
  readonly lifeId: LifeId;
  /** vCPUs run. */
  readonly runningMs: number;
  /** Identity verified, user processes thawed. */
  readonly readyMs: number;
}

export interface TakenPoint {
  readonly snapshotId: SnapshotId;
  readonly parent: SnapshotId | null;
  /** ISO 8601. */
  readonly takenAt: string;
  /** How long the vCPUs stood still; for a pause, until the point was captured. */
  readonly stoppedMs: number;
  /** From freeze to thaw, as the host saw it. */
  readonly frozenMs: number;
  /** From the order to durable. */
  readonly totalMs: number;
  /** Since the point before it; null: that could not be measured. */
  readonly changed: Changed | null;
}

export interface InspectedSandbox {
  readonly vault: VaultName;
  readonly sandboxId: SandboxId;
  readonly real: Real;
  readonly epoch: number;
  readonly generation: number;
  readonly head: SnapshotId | null;
  readonly life: LifeId | null;
  readonly moved?: MovedTo;
}

export interface LifeUsage extends VmUsage {
  /** Processor time is counted per life. */
  readonly lifeId: LifeId;
  /** Allocated to the life's disk. What it shares with points and forks counts in each. */
  readonly diskBytes: number;
  /** Both ways, over all connections that its programs opened to the outside; since the node has known the life. */
  readonly outgoingBytes: number;
}

export interface LifeEnd {
  readonly sandboxId: SandboxId;
  readonly lifeId: LifeId;
  readonly detail: string;
}

export type SpaceNews =
  /** Its vCPUs were stopped, or run again: ask what is real. */
  | { readonly kind: 'turned'; readonly sandboxId: SandboxId; readonly lifeId: LifeId }
  /** Less is left than is promised; told again at intervals while that is so. */
  | { readonly kind: 'short'; readonly vault: VaultName; readonly availableBytes: number };

export interface NodeCapabilities {
  readonly runtime: string;
  readonly accelerator: { readonly name: 'kvm' | 'tcg'; readonly reason: string; readonly remedy: string | null };
  readonly vmmVersion: string;
  /** Which limits hold each VMM on this machine, and which do not. */
  readonly jail: {
    readonly inForce: readonly string[];
    readonly missing: readonly { readonly limit: string; readonly reason: string; readonly remedy: string }[];
  };
  readonly limits: SizeLimits;
  readonly memory: { readonly totalMib: number; readonly promisedMib: number };
  readonly pool: PoolStatus;
  readonly wayOut: WayOutStatus;
  /** Those that are open. */
  readonly vaults: readonly {
    readonly name: VaultName;
    readonly totalBytes: number;
    readonly availableBytes: number;
    readonly encrypted: boolean;
  }[];
  /** Names of the places that archives go to and come from. */
  readonly archives: readonly string[];
}

/** Connections that programs in sandboxes opened to the outside. Counts are since the node was started. */
export interface WayOutStatus {
  readonly open: number;
  /** To their end; refused by the gateway; and cut, for any other reason. */
  readonly carried: number;
  readonly refused: number;
  readonly failed: number;
  /** Out of sandboxes, and into them. */
  readonly outBytes: number;
  readonly inBytes: number;
}

/** MicroVMs that wait for a create to take them. Counts are since the node was started. */
export interface PoolStatus {
  /** What they may take in all; 0: there is no pool. */
  readonly budgetMib: number;
  readonly takenMib: number;
  readonly members: number;
  readonly filling: number;
  /** Starts from a ready snapshot that took a member, and that found none. */
  readonly hits: number;
  readonly misses: number;
  readonly fills: number;
  /** In all of them. */
  readonly fillMs: number;
  readonly failedFills: number;
  /** Members that were ended so that others had memory or space, or since nobody asked for their kind any more. */
  readonly givenUp: number;
}

export interface TemplateStatus {
  readonly name: string;
  readonly ready: readonly {
    readonly vault: VaultName;
    readonly size: Size;
    readonly state: 'building' | 'ready';
    /** What the build is doing, e.g. "booting", and how far it is, 0 to 1. */
    readonly step: string;
    readonly progress: number;
  }[];
}
