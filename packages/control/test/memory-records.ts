/**
 * The records in memory, for tests: the same promises as PostgreSQL, kept by doing each change in one synchronous turn.
 * `failing` makes every call throw `unavailable`, as a database that went away does.
 */
import { randomUUID } from 'node:crypto';
import {
  AppError,
  addedBy,
  beginsRun,
  checkLimits,
  DEFAULT_RUNS,
  type ErrorCode,
  expiryOfRun,
  holdsVm,
  isPlatformsOwn,
  type Limited,
  type ProcessId,
  type ProjectId,
  type SandboxId,
  type SandboxStatus,
  type Settled,
  type SnapshotId,
  statusOf,
  type Usage,
} from '@space/core';
import { voidsApprovals } from '../src/approval-records.ts';
import type { Asker } from '../src/audit-records.ts';
import {
  endsPauseFailure,
  eventOfDrop,
  eventOfPauseFailure,
  eventsOfEnd,
  eventsOfSettling,
} from '../src/event-records.ts';
import { paginate } from '../src/page.ts';
import {
  countsAsKept,
  type Finding,
  inputOfBirth,
  type NewSandbox,
  type OperationBegin,
  type OperationEnd,
  type Page,
  type PageRequest,
  type PauseFailure,
  type RecordedOperation,
  type RecordedSandbox,
  type RecordedSnapshot,
  type Records,
} from '../src/records.ts';
import { MemoryApprovals } from './memory-approvals.ts';
import { MemoryArchives } from './memory-archives.ts';
import { MemoryAudit } from './memory-audit.ts';
import { MemoryCalls } from './memory-calls.ts';
import { MemoryChain } from './memory-chain.ts';
import { MemoryEgress } from './memory-egress.ts';
import { MemoryEvents } from './memory-events.ts';
import { MemoryFaces } from './memory-faces.ts';
import { MemoryHistory } from './memory-history.ts';
import { MemoryNotices } from './memory-notices.ts';
import { MemorySchedules } from './memory-schedules.ts';
import { MemorySecrets } from './memory-secrets.ts';
import { MemoryShares } from './memory-shares.ts';
import { MemoryTemplates } from './memory-templates.ts';
import { MemoryTenants } from './memory-tenants.ts';
import { MemoryVaults } from './memory-vaults.ts';

export class MemoryRecords implements Records {
  /** An error: each call throws that instead. */
  failing: boolean | Error = false;
  readonly #installation = randomUUID();
  readonly #sandboxes = new Map<string, RecordedSandbox>();
  readonly #snapshots = new Map<string, RecordedSnapshot>();
  readonly #operations = new Map<string, RecordedOperation>();
  readonly tenants = new MemoryTenants(
    () => this.#turn(),
    (isOwn) => this.#usageOf(isOwn),
    (event) => this.events.put([event]),
  );
  readonly events = new MemoryEvents(() => this.#turn());
  readonly schedules = new MemorySchedules(
    () => this.#turn(),
    (id) => (this.#sandboxes.get(id)?.settled ?? 'deleted') !== 'deleted',
  );
  readonly history = new MemoryHistory({
    sandboxes: this.#sandboxes,
    snapshots: this.#snapshots,
    operations: this.#operations,
    turn: () => this.#turn(),
    drop: (id, at, because) => this.#drop(id, at, because),
    tell: (events) => this.events.put(events),
  });
  readonly shares = new MemoryShares(
    () => this.#turn(),
    (id) => (this.#sandboxes.get(id)?.settled ?? 'deleted') !== 'deleted',
    (event) => this.events.put([event]),
  );
  readonly templates = new MemoryTemplates({
    turn: () => this.#turn(),
    snapshots: () => this.#snapshots.values(),
    sandboxes: () => this.#sandboxes.values(),
  });
  readonly archives = new MemoryArchives(() => this.#turn());
  readonly faces = new MemoryFaces(
    () => this.#turn(),
    this.#sandboxes,
    this.tenants,
    (id) => this.#snapshots.get(id)?.kind,
  );
  readonly approvals = new MemoryApprovals(
    () => this.#turn(),
    (id) => {
      const sandbox = this.#sandboxes.get(id);
      return sandbox === undefined || sandbox.settled === 'deleted' ? null : sandbox.generation;
    },
    (event) => this.events.put([event]),
    {
      asked: (approval) => this.notices.add(approval),
      ended: (id) => this.notices.drop(id),
    },
  );
  readonly notices = new MemoryNotices(
    () => this.#turn(),
    (id) => this.approvals.now(id),
  );
  readonly secrets = new MemorySecrets(() => this.#turn());
  readonly vaults = new MemoryVaults(() => this.#turn());
  readonly calls = new MemoryCalls(() => this.#turn());
  readonly audit = new MemoryAudit(
    () => this.#turn(),
    (id) => this.#operations.get(id),
  );
  readonly chain = new MemoryChain(() => this.#turn(), this.audit);
  readonly egress = new MemoryEgress(() => this.#turn(), this.chain);

  async addSandboxes(sandboxes: readonly NewSandbox[]): Promise<void> {
    await this.#turn();
    const same = (a: Named, b: Named) => a.name !== null && a.name === b.name && a.projectId === b.projectId;
    for (const [index, one] of sandboxes.entries()) {
      const taken = [...this.#sandboxes.values()].some((other) => other.settled !== 'deleted' && same(one, other));
      if (taken || sandboxes.findIndex((other) => same(one, other)) < index) {
        if (one.name !== null) throw nameTaken(one.name);
      }
    }
    for (const one of sandboxes) this.#checkArrival(one);
    for (const { projectId } of sandboxes.filter(({ name }) => !isPlatformsOwn(name)).slice(0, 1)) {
      this.#reserve(projectId, addedBy('create', 'absent', false), {
        sandboxes: sandboxes.length,
        running: sandboxes.length,
        memoryMib: sandboxes.reduce((sum, { size }) => sum + size.memoryMib, 0),
      });
    }
    for (const { operationId, by, at, arrival, ...rest } of sandboxes) {
      const before = this.#sandboxes.get(rest.id);
      const epoch = (before?.epoch ?? 0) + 1;
      const operation = arrival === null ? 'create' : 'arrive';
      this.#sandboxes.set(rest.id, {
        secrets: [],
        missingSecrets: [],
        runs: DEFAULT_RUNS,
        publicPorts: false,
        builtFrom: null,
        sealed: null,
        ...rest,
        startedAt: null,
        access: null,
        keepers: [],
        settled: 'absent',
        operation,
        operationId,
        epoch,
        generation: arrival?.generation ?? 1,
        moved: null,
        moves: before?.moves ?? 0,
        archiving: null,
        head: rest.forkedFrom?.snapshotId ?? null,
        origin: rest.forkedFrom?.snapshotId ?? null,
        crash: null,
        pauseFailure: null,
        createdAt: at,
        updatedAt: at,
      });
      this.#startJournal(
        rest.id,
        operationId,
        operation,
        epoch,
        inputOfBirth({ forkedFrom: rest.forkedFrom, arrival }),
        by,
        at,
      );
    }
  }

  async findSandbox(id: SandboxId): Promise<RecordedSandbox | null> {
    await this.#turn();
    return this.#sandboxes.get(id) ?? null;
  }

  async findSandboxByName(projectId: ProjectId, name: string): Promise<RecordedSandbox | null> {
    const all = await this.allSandboxes();
    return all.find((sandbox) => sandbox.name === name && sandbox.projectId === projectId) ?? null;
  }

  async listSandboxes(
    page: PageRequest & { readonly projectId: ProjectId; readonly status?: SandboxStatus },
  ): Promise<Page<RecordedSandbox>> {
    const all = (await this.allSandboxes()).filter(
      (sandbox) => sandbox.projectId === page.projectId && !isPlatformsOwn(sandbox.name),
    );
    const asked = page.status === undefined ? all : all.filter((sandbox) => statusOf(sandbox) === page.status);
    return paginate(asked, page, (sandbox) => sandbox.createdAt);
  }

  async allSandboxes(): Promise<readonly RecordedSandbox[]> {
    await this.#turn();
    return [...this.#sandboxes.values()].filter((sandbox) => sandbox.settled !== 'deleted');
  }

  async countSandboxes(): Promise<ReadonlyMap<Settled, number>> {
    const groups = Map.groupBy(await this.allSandboxes(), ({ settled }) => settled);
    return new Map([...groups].map(([settled, all]) => [settled, all.length]));
  }

  load() {
    return { connections: 0, idle: 0, waiting: 0 };
  }

  async beginOperation(begin: OperationBegin): Promise<RecordedSandbox | null> {
    await this.#turn();
    const { seen, taking, at } = begin;
    const now = this.#sandboxes.get(seen.id);
    if (now?.epoch !== seen.epoch || now.settled !== seen.settled || now.operationId !== seen.operationId) return null;
    if (taking !== null) this.#checkSnapshotName(taking);
    if (!isPlatformsOwn(now.name)) {
      this.#reserve(now.projectId, addedBy(begin.operation, now.settled, taking !== null && countsAsKept(taking)), {
        running: 1,
        memoryMib: now.size.memoryMib,
        snapshots: 1,
      });
    }
    if (now.operationId !== null)
      this.#endJournal({ operationId: now.operationId, outcome: 'superseded', errorCode: null, timings: null, at });
    const begun: RecordedSandbox = {
      ...now,
      operation: begin.operation,
      operationId: begin.operationId,
      epoch: now.epoch + 1,
      updatedAt: at,
    };
    this.#sandboxes.set(seen.id, begun);
    this.#startJournal(seen.id, begin.operationId, begin.operation, begun.epoch, begin.input, begin.by, at);
    if (taking !== null) this.#snapshots.set(taking.id, taking);
    return begun;
  }

  async endOperation(end: OperationEnd): Promise<RecordedSandbox | null> {
    await this.#turn();
    const now = this.#sandboxes.get(end.sandboxId);
    if (now === undefined || now.epoch !== end.epoch) return null;
    if (now.operationId !== end.operationId) {
      const { outcome } = this.#operations.get(end.operationId) ?? { outcome: null };
      return outcome === null || outcome === 'superseded' ? null : now;
    }
    const content =
      end.settled === 'deleted'
        ? {
            env: {},
            secrets: [],
            missingSecrets: [],
            metadata: {},
            sealed: null,
            access: null,
            crash: null,
            moved: null,
            archiving: null,
            wakeAt: null,
            expiry: null,
            keepers: [],
          }
        : {};
    const isExpired =
      end.settled === 'paused' && now.expiry !== null && now.expiry.action !== 'delete' && now.expiry.at <= end.at;
    const isWoken = end.settled === 'running' && now.wakeAt !== null && now.wakeAt <= end.at;
    const expiry = expiryOfRun(now, end.settled, end.at);
    const after: RecordedSandbox = {
      ...now,
      settled: end.settled,
      operation: null,
      operationId: null,
      ...end.changes,
      ...content,
      ...(isWoken ? { wakeAt: null } : {}),
      ...(isExpired ? { expiry: null } : {}),
      ...(expiry === undefined ? {} : { expiry }),
      ...(beginsRun(now.settled, end.settled) ? { startedAt: end.at } : {}),
      ...(endsPauseFailure(now.operation, end) ? { pauseFailure: null } : {}),
      updatedAt: end.at,
    };
    this.#sandboxes.set(after.id, after);
    if (end.settled === 'deleted') {
      this.schedules.dropOf(after.id);
      this.shares.dropOf(after.id);
    }
    const taken = end.points.filter(({ id }) => this.#snapshots.get(id)?.state === 'taking');
    this.events.put(eventsOfEnd(now, end, taken));
    if (voidsApprovals(now, after)) this.approvals.voidOf(after.id, end.at);
    this.#endJournal(end);
    for (const point of end.points) this.#snapshots.set(point.id, point);
    for (const id of end.dropped) this.#drop(id, end.at);
    this.history.put(end.doomed, end.at);
    return this.#sandboxes.get(after.id) ?? after;
  }

  async findOperation(id: RecordedOperation['id']): Promise<RecordedOperation | null> {
    await this.#turn();
    return this.#operations.get(id) ?? null;
  }

  async operationsOf(requestId: string): Promise<readonly RecordedOperation[]> {
    await this.#turn();
    return [...this.#operations.values()].filter((one) => one.by?.requestId === requestId);
  }

  async listOperations(
    page: PageRequest & { readonly projectId: ProjectId; readonly sandboxId?: SandboxId; readonly requestId?: string },
  ): Promise<Page<RecordedOperation>> {
    await this.#turn();
    const { projectId, sandboxId, requestId } = page;
    const asked = [...this.#operations.values()].filter(
      (one) =>
        one.projectId === projectId &&
        (sandboxId === undefined || one.sandboxId === sandboxId) &&
        (requestId === undefined || one.by?.requestId === requestId),
    );
    return paginate(asked, page, (one) => one.startedAt);
  }

  async updateSandbox(id: SandboxId, changes: Parameters<Records['updateSandbox']>[1], at: Date) {
    await this.#turn();
    const now = this.#sandboxes.get(id);
    if (now === undefined || now.settled === 'deleted') return null;
    const after = { ...now, ...changes, updatedAt: at };
    this.#sandboxes.set(id, after);
    return after;
  }

  async addKeeper(id: SandboxId, processId: ProcessId) {
    await this.#turn();
    const now = this.#sandboxes.get(id);
    if (now === undefined || now.settled === 'deleted' || now.keepers.includes(processId)) return;
    this.#sandboxes.set(id, { ...now, keepers: [...now.keepers, processId] });
  }

  async dropKeepers(id: SandboxId, processIds: readonly ProcessId[]) {
    await this.#turn();
    const now = this.#sandboxes.get(id);
    if (now === undefined) return;
    this.#sandboxes.set(id, { ...now, keepers: now.keepers.filter((one) => !processIds.includes(one)) });
  }

  async notePauseFailure(id: SandboxId, pauseFailure: PauseFailure, at: Date) {
    await this.#turn();
    const now = this.#sandboxes.get(id);
    if (now?.settled !== 'running') return;
    this.#sandboxes.set(id, { ...now, pauseFailure });
    if (now.pauseFailure === null) this.events.put([eventOfPauseFailure(now, pauseFailure.code, at)]);
  }

  async sandboxesToWake(at: Date, limit: number) {
    const timeOf = ({ wakeAt }: RecordedSandbox) => wakeAt?.getTime() ?? Number.POSITIVE_INFINITY;
    const due = (await this.allSandboxes()).filter((one) => timeOf(one) <= at.getTime());
    return due.sort((a, b) => timeOf(a) - timeOf(b)).slice(0, limit);
  }

  async wakeMet(id: SandboxId, wakeAt: Date) {
    await this.#turn();
    const now = this.#sandboxes.get(id);
    if (now?.wakeAt?.getTime() === wakeAt.getTime()) this.#sandboxes.set(id, { ...now, wakeAt: null });
  }

  async sandboxesToExpire(at: Date, limit: number) {
    const timeOf = ({ expiry }: RecordedSandbox) => expiry?.at.getTime() ?? Number.POSITIVE_INFINITY;
    const due = (await this.allSandboxes()).filter((one) => timeOf(one) <= at.getTime());
    return due.sort((a, b) => timeOf(a) - timeOf(b)).slice(0, limit);
  }

  async expiryMet(id: SandboxId, at: Date) {
    await this.#turn();
    const now = this.#sandboxes.get(id);
    if (now?.expiry?.at.getTime() === at.getTime()) this.#sandboxes.set(id, { ...now, expiry: null });
  }

  async settle({ seen, settled, changes, at }: Finding): Promise<boolean> {
    await this.#turn();
    const now = this.#sandboxes.get(seen.id);
    if (now?.epoch !== seen.epoch || now.operation !== null || now.settled !== seen.settled) return false;
    const over = settled === 'running' ? {} : { pauseFailure: null };
    const after = { ...now, settled, ...changes, ...over, updatedAt: at };
    this.#sandboxes.set(now.id, after);
    this.events.put(eventsOfSettling(now, settled, at));
    if (voidsApprovals(now, after)) this.approvals.voidOf(now.id, at);
    return true;
  }

  async findSnapshot(id: SnapshotId): Promise<RecordedSnapshot | null> {
    await this.#turn();
    return this.#snapshots.get(id) ?? null;
  }

  async findSnapshotByName(projectId: ProjectId, name: string): Promise<RecordedSnapshot | null> {
    await this.#turn();
    const all = [...this.#snapshots.values()];
    return all.find((snapshot) => snapshot.name === name && snapshot.projectId === projectId) ?? null;
  }

  async snapshotsOf(sandboxId: SandboxId): Promise<readonly RecordedSnapshot[]> {
    await this.#turn();
    return [...this.#snapshots.values()]
      .filter((snapshot) => snapshot.sandboxId === sandboxId)
      .sort((a, b) => a.takenAt.getTime() - b.takenAt.getTime() || (a.id < b.id ? -1 : 1));
  }

  async listSnapshots(
    page: PageRequest &
      ({ readonly sandboxId: SandboxId } | { readonly projectId: ProjectId; readonly alsoPlatforms?: true }),
  ): Promise<Page<RecordedSnapshot>> {
    await this.#turn();
    const all = [...this.#snapshots.values()].filter(
      (one) =>
        one.state !== 'taking' &&
        ('sandboxId' in page
          ? one.sandboxId === page.sandboxId
          : one.name !== null &&
            one.projectId === page.projectId &&
            (page.alsoPlatforms === true || !isPlatformsOwn(one.name))),
    );
    return paginate(all, page, (snapshot) => snapshot.takenAt);
  }

  async updateSnapshot(
    id: SnapshotId,
    changes: Parameters<Records['updateSnapshot']>[1],
  ): Promise<RecordedSnapshot | null> {
    await this.#turn();
    const now = this.#snapshots.get(id);
    if (now === undefined || now.state === 'taking') return null;
    const after = { ...now, ...changes };
    this.#checkSnapshotName(after);
    if (countsAsKept(after) && !countsAsKept(now)) this.#reserve(now.projectId, ['snapshots'], { snapshots: 1 });
    this.#snapshots.set(id, after);
    return after;
  }

  async installation(): Promise<string> {
    await this.#turn();
    return this.#installation;
  }

  async ping(): Promise<void> {
    await this.#turn();
  }

  /** Gives way once, as a call to a database does, so that races show. */
  async #turn(): Promise<void> {
    await Promise.resolve();
    if (this.failing instanceof Error) throw this.failing;
    if (this.failing) throw new AppError('unavailable', 'The database does not answer.');
  }

  #checkArrival({ id, arrival }: NewSandbox): void {
    const now = this.#sandboxes.get(id);
    if (now === undefined || (now.settled === 'deleted' && now.moves < (arrival?.number ?? 0))) return;
    throw new AppError('wrong_state', `${id} is here, or has been since.`);
  }

  #checkSnapshotName({ name, id, projectId }: RecordedSnapshot): void {
    if (name === null) return;
    for (const one of this.#snapshots.values()) {
      if (one.name === name && one.id !== id && one.projectId === projectId) throw nameTaken(name);
    }
  }

  #reserve(projectId: ProjectId, added: readonly Limited[], more: Partial<Usage>): void {
    const { limits, usage } = this.tenants.standingOf(projectId);
    const after = { ...usage };
    for (const limit of added) after[limit] += more[limit] ?? 0;
    checkLimits(limits, after, added);
  }

  #usageOf(isOwn: (projectId: ProjectId) => boolean): Usage {
    const own = [...this.#sandboxes.values()].filter(
      (one) => one.settled !== 'deleted' && isOwn(one.projectId) && !isPlatformsOwn(one.name),
    );
    const running = own.filter(holdsVm);
    return {
      sandboxes: own.length,
      running: running.length,
      memoryMib: running.reduce((sum, { size }) => sum + size.memoryMib, 0),
      snapshots: [...this.#snapshots.values()].filter((one) => isOwn(one.projectId) && countsAsKept(one)).length,
    };
  }

  #drop(id: SnapshotId, at: Date, because?: ErrorCode): void {
    const gone = this.#snapshots.get(id);
    if (gone === undefined) return;
    this.#snapshots.delete(id);
    if (gone.state !== 'taking' && !isPlatformsOwn(gone.name)) this.events.put([eventOfDrop(gone, at, because)]);
    for (const child of this.#snapshots.values()) {
      if (child.parent === id) this.#snapshots.set(child.id, { ...child, parent: gone.parent });
    }
    for (const fork of this.#sandboxes.values()) {
      const origin = fork.origin === id ? gone.parent : fork.origin;
      const head = fork.head === id ? gone.parent : fork.head;
      this.#sandboxes.set(fork.id, { ...fork, origin, head });
    }
  }

  #startJournal(
    sandboxId: SandboxId,
    id: RecordedOperation['id'],
    kind: RecordedOperation['kind'],
    epoch: number,
    input: RecordedOperation['input'],
    by: Asker | null,
    startedAt: Date,
  ): void {
    const projectId = this.#sandboxes.get(sandboxId)?.projectId;
    if (projectId === undefined) throw new Error('an operation has a sandbox');
    if (by !== null) this.audit.put({ ...by, target: sandboxId, operationId: id, outcome: 'running', at: startedAt });
    this.#operations.set(id, {
      id,
      projectId,
      sandboxId,
      kind,
      epoch,
      input,
      by: by === null ? null : { requestId: by.requestId, apiKeyId: by.apiKeyId },
      startedAt,
      endedAt: null,
      outcome: null,
      errorCode: null,
      timings: null,
    });
  }

  #endJournal({ operationId, outcome, errorCode, timings, at }: EndOfJournal): void {
    const now = this.#operations.get(operationId);
    if (now !== undefined) this.#operations.set(operationId, { ...now, outcome, errorCode, timings, endedAt: at });
  }
}

type EndOfJournal = Pick<OperationEnd, 'operationId' | 'outcome' | 'errorCode' | 'timings' | 'at'>;

type Named = Pick<RecordedSandbox, 'name' | 'projectId'>;

function nameTaken(name: string): AppError {
  return new AppError('name_taken', { detail: `The name "${name}" is in use.`, facts: { name } });
}
