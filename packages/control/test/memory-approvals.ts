/** Approvals in memory, for tests. */
import {
  AppError,
  type ApprovalId,
  type ApprovalLimits,
  type ApprovalState,
  type ApprovalStep,
  afterStep,
  type ProjectId,
  type SandboxId,
} from '@space/core';
import type {
  ApprovalDecision,
  ApprovalRecords,
  NewApproval,
  RecordedApproval,
  SnapshotBefore,
} from '../src/approval-records.ts';
import { eventOfApproval, type NewEvent } from '../src/event-records.ts';
import { paginate } from '../src/page.ts';
import type { PageRequest } from '../src/records.ts';

/** Who tells somebody of what waits. */
interface ToldOf {
  asked(approval: RecordedApproval): void;
  ended(id: ApprovalId): void;
}

export class MemoryApprovals implements ApprovalRecords {
  readonly #turn: () => Promise<void>;
  /** Null: the sandbox is gone. */
  readonly #generationOf: (id: SandboxId) => number | null;
  readonly #tell: (event: NewEvent) => void;
  readonly #notices: ToldOf;
  readonly #approvals = new Map<ApprovalId, RecordedApproval>();

  constructor(
    turn: () => Promise<void>,
    generationOf: (id: SandboxId) => number | null,
    tell: (event: NewEvent) => void,
    notices: ToldOf,
  ) {
    this.#notices = notices;
    this.#turn = turn;
    this.#generationOf = generationOf;
    this.#tell = tell;
  }

  async ask({ askedBy, ...fresh }: NewApproval, { perSandbox, perOrganisation }: ApprovalLimits) {
    await this.#turn();
    const { sandboxId, digest, requestedAt } = fresh;
    const generation = this.#generationOf(sandboxId);
    if (generation === null) throw new AppError('not_found', `There is no sandbox "${sandboxId}".`);
    const same = this.#all().filter(
      (one) => one.sandboxId === sandboxId && one.digest === digest && one.generation === generation,
    );
    const used = same.find((one) => one.state === 'used' && one.usedFor === askedBy);
    const holds = same.findLast(
      ({ state, expiresAt }) => ['pending', 'approved', 'denied'].includes(state) && expiresAt > requestedAt,
    );
    const known = used ?? holds;
    if (known !== undefined) return known;
    for (const one of same) if (afterStep(one.state, 'expire') !== null) this.#end(one, 'expired', requestedAt);
    const pending = this.#all().filter(({ state }) => state === 'pending');
    checkCount('sandbox', pending.filter((one) => one.sandboxId === sandboxId).length, perSandbox);
    const ofOrganisation = pending.filter(({ organisationId }) => organisationId === fresh.organisationId);
    checkCount('organisation', ofOrganisation.length, perOrganisation);
    const undecided = { decidedBy: null, decidedAt: null, reason: null, endedAt: null, usedFor: null, snapshot: null };
    const approval: RecordedApproval = { ...fresh, ...undecided, generation, state: 'pending' };
    this.#approvals.set(approval.id, approval);
    this.#notices.asked(approval);
    this.#tell(eventOfApproval('requested', approval, requestedAt));
    return approval;
  }

  now(id: ApprovalId): RecordedApproval | null {
    return this.#approvals.get(id) ?? null;
  }

  async find(id: ApprovalId) {
    await this.#turn();
    return this.#approvals.get(id) ?? null;
  }

  async list(
    page: PageRequest & {
      readonly projectId: ProjectId;
      readonly sandboxId?: SandboxId;
      readonly state?: ApprovalState;
    },
  ) {
    await this.#turn();
    const { projectId, sandboxId, state } = page;
    const asked = this.#all().filter(
      (one) =>
        one.projectId === projectId &&
        (sandboxId === undefined || one.sandboxId === sandboxId) &&
        (state === undefined || one.state === state),
    );
    return paginate(asked, page, (one) => one.requestedAt);
  }

  async decide(id: ApprovalId, { step, by, reason, at, expiresAt }: ApprovalDecision) {
    await this.#turn();
    return this.#step(id, step, at, { decidedBy: by, decidedAt: at, reason, expiresAt });
  }

  async use(
    id: ApprovalId,
    {
      usedFor,
      snapshot,
      at,
    }: { readonly usedFor: string; readonly snapshot: SnapshotBefore | null; readonly at: Date },
  ) {
    await this.#turn();
    return this.#step(id, 'use', at, { usedFor, snapshot, endedAt: at });
  }

  async release(id: ApprovalId, usedFor: string, at: Date) {
    await this.#turn();
    if (this.#approvals.get(id)?.usedFor !== usedFor) return false;
    return this.#step(id, 'release', at, { usedFor: null, endedAt: null }) !== null;
  }

  async expire(at: Date, limit: number) {
    await this.#turn();
    const late = this.#all().filter(({ state, expiresAt }) => afterStep(state, 'expire') !== null && expiresAt <= at);
    return late.slice(0, limit).map((one) => this.#end(one, 'expired', at));
  }

  async dropBefore(at: Date) {
    await this.#turn();
    for (const { id, state, expiresAt } of this.#all()) {
      if (afterStep(state, 'expire') === null && expiresAt < at) this.#approvals.delete(id);
    }
  }

  /** In the turn in which its sandbox goes back, leaves or is deleted. */
  voidOf(sandboxId: SandboxId, at: Date): void {
    const open = this.#all().filter((one) => one.sandboxId === sandboxId && afterStep(one.state, 'void') !== null);
    for (const one of open) this.#end(one, 'void', at);
  }

  #all(): RecordedApproval[] {
    return [...this.#approvals.values()];
  }

  #step(id: ApprovalId, step: ApprovalStep, at: Date, changes: Partial<RecordedApproval>): RecordedApproval | null {
    const before = this.#approvals.get(id);
    if (before === undefined) return null;
    const state = afterStep(before.state, step);
    if (state === null || (step !== 'release' && before.expiresAt <= at)) return null;
    const after = { ...before, ...changes, state };
    this.#notices.ended(id);
    this.#approvals.set(id, after);
    this.#tell(eventOfApproval(step === 'release' ? 'released' : state, after, at));
    return after;
  }

  #end(one: RecordedApproval, state: 'expired' | 'void', at: Date): RecordedApproval {
    const ended = { ...one, state, endedAt: at };
    this.#notices.ended(one.id);
    this.#approvals.set(one.id, ended);
    this.#tell(eventOfApproval(state, ended, at));
    return ended;
  }
}

function checkCount(whose: string, count: number, max: number): void {
  if (count < max) return;
  const detail = `${max} requests of the ${whose} wait for a reviewer already.`;
  throw new AppError('limit_reached', { detail, facts: { max } });
}
