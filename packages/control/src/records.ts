/**
 * The records port: what control writes down about sandboxes, their snapshots and operations; who owns them is in
 * `tenant-records.ts`. Two adapters pass one suite (`testing.ts`): the in-memory fake, and PostgreSQL in `@space/db-postgres`.
 *
 * Invariants that every adapter keeps:
 * - one operation in flight per sandbox; it begins by compare-and-set on (epoch, settled, operation) in one transaction
 *   with its journal row, and ends only while its epoch is still the sandbox's;
 * - an epoch never goes down, and an id is never used again: what is deleted stays as a tombstone without content;
 * - in a project, a name belongs to at most one live sandbox, and to at most one snapshot;
 * - what would pass a limit of its organisation does not begin (`limit_reached`): that is looked up and counted from what
 *   is recorded, in the transaction that begins it, so that nothing has to be given back;
 * - a snapshot is recorded as `taking` before the node is asked for it, so that nothing on a node is unknown here;
 * - of an organisation's limits, a snapshot counts when it is named or pinned; what is the platform's own never does
 *   (`isPlatformsOwn`);
 * - the timeline stays connected: deleting a snapshot hands its children, forks and lives on to its parent.
 *
 * Trouble with the database is thrown as `unavailable`; the outcome of that call is then unknown.
 */
import type {
  ApiKeyId,
  Changed,
  ErrorCode,
  Expiry,
  LifecycleState,
  MovedTo,
  NetworkPolicy,
  Operation,
  OperationId,
  PolicyChoice,
  ProcessId,
  ProjectId,
  RunPolicy,
  SandboxId,
  SandboxStatus,
  SecretGrant,
  Settled,
  Size,
  SnapshotId,
  SnapshotKind,
  VaultName,
} from '@space/core';
import { isPlatformsOwn } from '@space/core';
import type { ApprovalRecords } from './approval-records.ts';
import type { ArchiveRecords } from './archive-records.ts';
import type { Asker, AuditRecords } from './audit-records.ts';
import type { CallRecords } from './call-records.ts';
import type { ChainRecords } from './chain-records.ts';
import type { RecordsOfEgress } from './egress-records.ts';
import type { EventRecords } from './event-records.ts';
import type { FaceRecords } from './face-records.ts';
import type { HistoryRecords } from './history-records.ts';
import type { NoticeRecords } from './notice-records.ts';
import type { ScheduleRecords } from './schedule-records.ts';
import type { SecretRecords } from './secret-records.ts';
import type { ShareRecords } from './share-records.ts';
import type { TemplateRecords } from './template-records.ts';
import type { TenantRecords } from './tenant-records.ts';
import type { VaultRecords } from './vault-records.ts';

export interface RecordedSandbox extends LifecycleState {
  readonly id: SandboxId;
  readonly projectId: ProjectId;
  readonly name: string | null;
  readonly template: string;
  readonly size: Size;
  readonly vault: VaultName;
  readonly env: Readonly<Record<string, string>>;
  readonly metadata: Readonly<Record<string, string>>;
  /** Environment and metadata as ciphertext (see `contents.ts`), whose places hold nothing then but digests; null: they are not. */
  readonly sealed: Uint8Array | null;
  /** How long it may be idle before it is paused; null: for ever. */
  readonly pauseAfterMs: number | null;
  /** Processes that keep it awake while they are alive; some may have ended since. */
  readonly keepers: readonly ProcessId[];
  /** When it is to be woken, until it has been. */
  readonly wakeAt: Date | null;
  /** When it ends by itself, and how, until it has; null: never. */
  readonly expiry: Expiry | null;
  readonly runs: RunPolicy;
  /** When its run began, or its last; null: it never ran, or that is not known. */
  readonly startedAt: Date | null;
  /** Whether its ports are open to whoever reaches the server. */
  readonly publicPorts: boolean;
  /** The template that was built here and that it, or what it was copied from, was made from; null: none. */
  readonly builtFrom: BuiltFrom | null;
  /** The token that reaches into it alone; null: nobody has asked for one. */
  readonly access: SandboxAccess | null;
  /** What it says itself of when it is snapshotted, and how long the points stay. */
  readonly snapshotPolicy: PolicyChoice;
  /** What it may reach. */
  readonly network: NetworkPolicy;
  /** The secret bindings that it names. */
  readonly secrets: readonly SecretGrant[];
  /** Those that it named where it came from by a move, and that are not granted to its project. They give it nothing. */
  readonly missingSecrets: readonly SecretGrant[];
  /** Of the operation in flight; null at rest. */
  readonly operationId: OperationId | null;
  readonly epoch: number;
  readonly generation: number;
  /** The newest point that its present state descends from, null when that is a template's; while paused, the one to resume from. */
  readonly head: SnapshotId | null;
  /** The point it was created from, and whose that was; kept as history when the point is gone. */
  readonly forkedFrom: ForkedFrom | null;
  /** Where its timeline joins that of its source: `forkedFrom`'s point, or what survives of its line. */
  readonly origin: SnapshotId | null;
  /** How and when its VM ended unasked, while it is crashed. */
  readonly crash: Crash | null;
  /** Why it runs although it is idle: its pauses fail, one after the other. Null: they do not. */
  readonly pauseFailure: PauseFailure | null;
  /** The archive by which it left, while it is moved; with `head`, all that is needed to undo that. */
  readonly moved: MovedTo | null;
  /**
   * How many moves it had been through when it last left or came. An id is taken up again only by a move of a higher number, or by
   * the one that it left by.
   */
  readonly moves: number;
  /** How its regular archives go; null: there was none yet. */
  readonly archiving: Archiving | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** As it was then: it may have been deleted since. */
export interface BuiltFrom {
  readonly template: string;
  /** Who commands run as, and where, that say neither. Null: `user`, and the user's home. */
  readonly user: string | null;
  readonly cwd: string | null;
}

export interface SandboxAccess {
  readonly token: string;
  /** The key that it acts for: the one that asked for it last. */
  readonly keyId: ApiKeyId;
}

export interface Archiving {
  readonly last: ArchivedLast | null;
  /** ISO 8601: when the last attempt ended. */
  readonly triedAt: string;
  readonly tookMs: number;
  /** Of the last attempt, and how many in a row. */
  readonly failure: { readonly code: ErrorCode; readonly count: number } | null;
}

export interface ArchivedLast extends MovedTo {
  readonly snapshotId: SnapshotId;
  /** ISO 8601: the instant that the point holds. */
  readonly takenAt: string;
}

export interface Crash {
  readonly detail: string;
  readonly at: Date;
}

export interface PauseFailure {
  readonly code: ErrorCode;
  readonly detail: string;
  /** How many have failed so far, and when the first did. */
  readonly attempts: number;
  readonly since: Date;
}

export interface ForkedFrom {
  readonly sandboxId: SandboxId;
  readonly snapshotId: SnapshotId;
}

/** A sandbox to be: recorded as `absent` with its create in flight at epoch 1. */
export interface NewSandbox
  extends Pick<
    RecordedSandbox,
    | 'id'
    | 'projectId'
    | 'name'
    | 'template'
    | 'size'
    | 'vault'
    | 'env'
    | 'metadata'
    | 'pauseAfterMs'
    | 'wakeAt'
    | 'expiry'
    | 'snapshotPolicy'
    | 'network'
    | 'forkedFrom'
  > {
  /** Left out: nothing is sealed. */
  readonly sealed?: Uint8Array;
  /** Left out: those of a sandbox that says nothing of it. */
  readonly runs?: RunPolicy;
  readonly publicPorts?: boolean;
  readonly builtFrom?: BuiltFrom | null;
  /** Left out: none. */
  readonly secrets?: readonly SecretGrant[];
  readonly missingSecrets?: readonly SecretGrant[];
  readonly operationId: OperationId;
  /** It comes by a move, and is `absent` with its arrival in flight. Null: it is made. */
  readonly arrival: Arrival | null;
  /** Who asks for it; null: the platform itself. */
  readonly by: Asker | null;
  readonly at: Date;
}

export interface Arrival {
  /** Of the move. A tombstone of that id that has been through fewer makes way for it. */
  readonly number: number;
  readonly generation: number;
  readonly source: MovedTo;
}

/**
 * What it was taken for; `rewind`: it holds the state that a rewind left; `rolling`: by the schedule; `checkpoint`: at the end
 * of a command that was marked so; `approval`: before a request leaves that a reviewer has approved; `archive`: for an export, or it came by an import.
 */
export type SnapshotCause =
  | 'snapshot'
  | 'pause'
  | 'fork'
  | 'rewind'
  | 'rolling'
  | 'checkpoint'
  | 'approval'
  | 'archive';

export interface RecordedSnapshot {
  readonly id: SnapshotId;
  readonly sandboxId: SandboxId;
  /** That of its sandbox. */
  readonly projectId: ProjectId;
  /** A named snapshot outlives its sandbox. */
  readonly name: string | null;
  readonly note: string | null;
  /** The note as it is kept, where that is ciphertext: `note` is null then while its vault is closed. Not there: it is not sealed. */
  readonly sealedNote?: string;
  readonly cause: SnapshotCause;
  readonly kind: SnapshotKind;
  /** Why the schedule, which asks for memory, took one of kind `disk`; null: it did not. */
  readonly degraded: ErrorCode | null;
  /** Whether it stays whatever the retention says, as a named one does. */
  readonly pinned: boolean;
  /** Its place in the time of its sandbox, in which no two are of one instant; see `sandboxTime`. */
  readonly timeMs: number;
  /** The point before it in the timeline. */
  readonly parent: SnapshotId | null;
  readonly generation: number;
  readonly template: string;
  readonly size: Size;
  readonly vault: VaultName;
  /** `taking`: asked for, not yet known to be durable; shown to nobody. */
  readonly state: 'taking' | 'good' | 'bad';
  readonly badReason: string | null;
  /** When all of it was last read and found good; null: not yet, since it was taken. */
  readonly checkedAt: Date | null;
  readonly takenAt: Date;
  readonly timings: SnapshotTimings | null;
  /** Since the one before it; null: not known. */
  readonly changed: Changed | null;
}

/** As much of it as its retention depends on. */
export type AgingSnapshot = Pick<
  RecordedSnapshot,
  'id' | 'name' | 'pinned' | 'cause' | 'kind' | 'timeMs' | 'generation' | 'state' | 'takenAt'
>;

/** As the node measured them; see `TakenPoint`. */
export interface SnapshotTimings {
  readonly stoppedMs: number;
  readonly frozenMs: number;
  readonly totalMs: number;
}

/** As the node measured them; see `StartedLife`. */
export interface StartTimings {
  readonly runningMs: number;
  readonly readyMs: number;
}

export interface RecordedOperation {
  readonly id: OperationId;
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly kind: Operation;
  readonly epoch: number;
  readonly input: OperationInput;
  readonly by: Pick<Asker, 'requestId' | 'apiKeyId'> | null;
  readonly startedAt: Date;
  readonly endedAt: Date | null;
  readonly outcome: Outcome | null;
  readonly errorCode: ErrorCode | null;
  /** Of the microVM that it started; null: none, or not known. */
  readonly timings: StartTimings | null;
}

/** What the effect was asked to do, enough to end it after a restart. */
export interface OperationInput {
  /** The point that the operation takes, recorded as `taking`. */
  readonly takes?: SnapshotId;
  /** The point that it starts from. */
  readonly from?: SnapshotId | 'crashed';
  readonly generation?: number;
  /** Of a move that leaves or comes: its number. */
  readonly move?: number;
  /** The archive that it comes by. */
  readonly source?: MovedTo;
  /** Why the platform did it unasked. */
  readonly cause?: OperationCause;
}

export type OperationCause = 'idle' | 'wake_at' | 'schedule' | 'rolling' | 'checkpoint' | 'approval' | 'expiry';

/** `interrupted`: its process died; ended later by what was real. */
export type Outcome = 'ok' | 'failed' | 'superseded' | 'interrupted';

export interface OperationBegin {
  /** The sandbox as the decision saw it. */
  readonly seen: RecordedSandbox;
  readonly operationId: OperationId;
  readonly operation: Operation;
  readonly input: OperationInput;
  readonly taking: RecordedSnapshot | null;
  readonly by: Asker | null;
  readonly at: Date;
}

export interface OperationEnd {
  readonly sandboxId: SandboxId;
  readonly operationId: OperationId;
  readonly epoch: number;
  readonly settled: Settled;
  readonly outcome: Outcome;
  readonly errorCode: ErrorCode | null;
  readonly timings: StartTimings | null;
  readonly changes: SandboxChanges;
  /** Snapshots as they are now (also the one that was `taking`). */
  readonly points: readonly RecordedSnapshot[];
  readonly dropped: readonly SnapshotId[];
  /** Dropped, and still to be removed from their vault. */
  readonly doomed: readonly SnapshotId[];
  readonly at: Date;
}

export interface SandboxChanges {
  readonly generation?: number;
  readonly head?: SnapshotId | null;
  readonly crash?: Crash | null;
  readonly moved?: MovedTo | null;
  readonly moves?: number;
}

/** What is found at rest to be otherwise than recorded: compare-and-set on (epoch, nothing in flight). */
export interface Finding {
  readonly seen: RecordedSandbox;
  readonly settled: Settled;
  readonly changes: SandboxChanges;
  readonly at: Date;
}

export interface Page<T> {
  readonly items: readonly T[];
  /** Opaque; null on the last page. */
  readonly next: string | null;
}

export interface PageRequest {
  readonly limit: number;
  /** `next` of the page before. Throws `bad_request` when it is none. */
  readonly cursor?: string;
}

export interface Records {
  /** All or none. Throws `name_taken`, `limit_reached`; `wrong_state` when what is to arrive is here, or has been since. */
  addSandboxes(sandboxes: readonly NewSandbox[]): Promise<void>;
  /** Also a tombstone. */
  findSandbox(id: SandboxId): Promise<RecordedSandbox | null>;
  /** Among the live ones. */
  findSandboxByName(projectId: ProjectId, name: string): Promise<RecordedSandbox | null>;
  /** What is not deleted of a project, of one status or all, newest first; not the platform's own. */
  listSandboxes(
    page: PageRequest & { readonly projectId: ProjectId; readonly status?: SandboxStatus },
  ): Promise<Page<RecordedSandbox>>;
  /** How many of all there are, by what they are settled in. */
  countSandboxes(): Promise<ReadonlyMap<Settled, number>>;
  /** Everything not deleted, for the reconciler. */
  allSandboxes(): Promise<readonly RecordedSandbox[]>;

  /** What its owner may change at any time; null: it is deleted, or never was. */
  updateSandbox(
    id: SandboxId,
    changes: Partial<
      Pick<
        RecordedSandbox,
        | 'pauseAfterMs'
        | 'wakeAt'
        | 'expiry'
        | 'runs'
        | 'publicPorts'
        | 'access'
        | 'snapshotPolicy'
        | 'network'
        | 'secrets'
        | 'missingSecrets'
      >
    >,
    at: Date,
  ): Promise<RecordedSandbox | null>;
  /** Of what is not deleted; nothing else of it changes. */
  addKeeper(id: SandboxId, processId: ProcessId): Promise<void>;
  dropKeepers(id: SandboxId, processIds: readonly ProcessId[]): Promise<void>;
  /** Of what runs, until that life ends or a rewind succeeds; told as an event when there was none. */
  notePauseFailure(id: SandboxId, failure: PauseFailure, at: Date): Promise<void>;
  /** Whose `wakeAt` has come, those that wait longest first. */
  sandboxesToWake(at: Date, limit: number): Promise<readonly RecordedSandbox[]>;
  /** Clears `wakeAt`, unless it was changed. */
  wakeMet(id: SandboxId, wakeAt: Date): Promise<void>;
  /** Whose expiry has come, those that wait longest first. */
  sandboxesToExpire(at: Date, limit: number): Promise<readonly RecordedSandbox[]>;
  /** Clears the expiry, unless it was changed. */
  expiryMet(id: SandboxId, at: Date): Promise<void>;
  /** The sandbox with the operation in flight and epoch + 1; null when it is no longer as it was seen. Throws `name_taken`, `limit_reached`. */
  beginOperation(begin: OperationBegin): Promise<RecordedSandbox | null>;
  /**
   * The sandbox after it, or null: superseded, and nothing was changed. Repeating an end that took place is harmless. One
   * that then runs has met a `wakeAt` that has come, one that is paused an expiry, and runs have limits (`expiryOfRun`); one that is deleted takes its schedules along.
   */
  endOperation(end: OperationEnd): Promise<RecordedSandbox | null>;
  findOperation(id: OperationId): Promise<RecordedOperation | null>;
  /** Those that a request began, oldest first. */
  operationsOf(requestId: string): Promise<readonly RecordedOperation[]>;
  /** Newest first. */
  listOperations(
    page: PageRequest & {
      readonly projectId: ProjectId;
      readonly sandboxId?: SandboxId;
      readonly requestId?: string;
    },
  ): Promise<Page<RecordedOperation>>;
  /** False: the sandbox is no longer as it was seen. */
  settle(finding: Finding): Promise<boolean>;

  findSnapshot(id: SnapshotId): Promise<RecordedSnapshot | null>;
  findSnapshotByName(projectId: ProjectId, name: string): Promise<RecordedSnapshot | null>;
  /** Of one sandbox, all states, oldest first. */
  snapshotsOf(sandboxId: SandboxId): Promise<readonly RecordedSnapshot[]>;
  /** Those of one sandbox, or the named ones of a project, newest first; none that is `taking`, nor the platform's own unless asked. */
  listSnapshots(
    page: PageRequest &
      ({ readonly sandboxId: SandboxId } | { readonly projectId: ProjectId; readonly alsoPlatforms?: true }),
  ): Promise<Page<RecordedSnapshot>>;
  /**
   * Null when it does not exist, or is still being taken. Throws `name_taken`, and `limit_reached` when it would count from
   * now on.
   */
  updateSnapshot(
    id: SnapshotId,
    changes: Partial<Pick<RecordedSnapshot, 'name' | 'note' | 'cause' | 'pinned' | 'state' | 'badReason'>>,
  ): Promise<RecordedSnapshot | null>;

  /** A name of this installation that no other one has, by which it claims moves. */
  installation(): Promise<string>;

  readonly tenants: TenantRecords;
  readonly calls: CallRecords;
  readonly audit: AuditRecords;
  readonly events: EventRecords;
  readonly schedules: ScheduleRecords;
  readonly history: HistoryRecords;
  readonly shares: ShareRecords;
  readonly egress: RecordsOfEgress;
  readonly approvals: ApprovalRecords;
  readonly chain: ChainRecords;
  readonly notices: NoticeRecords;
  readonly secrets: SecretRecords;
  readonly faces: FaceRecords;
  readonly archives: ArchiveRecords;
  readonly vaults: VaultRecords;
  readonly templates: TemplateRecords;
  /** Of the pool of connections, as it is now. */
  load(): { readonly connections: number; readonly idle: number; readonly waiting: number };
  /** Throws `unavailable` when the database does not answer. */
  ping(): Promise<void>;
}

/** Whether it counts among what the organisation may have. */
export function countsAsKept({ name, pinned }: Pick<RecordedSnapshot, 'name' | 'pinned'>): boolean {
  return !isPlatformsOwn(name) && (pinned || name !== null);
}

/** What the journal says of a sandbox to be. */
export function inputOfBirth({ forkedFrom, arrival }: Pick<NewSandbox, 'forkedFrom' | 'arrival'>): OperationInput {
  if (arrival !== null) return { move: arrival.number, source: arrival.source };
  return forkedFrom === null ? {} : { from: forkedFrom.snapshotId };
}
