/**
 * Approvals: what the gateway holds is written down, shown to reviewers, and let go once when one has approved it. Control is
 * the authority; the gateway knows only what it was told of the requests that it holds at this moment.
 *
 * - An approval is used before the gateway is told to let go, so that it is used at most once, whatever breaks in between. Only
 *   when the gateway says that nothing was sent is it given back.
 * - Whoever asks again with the same request gets the same answer; a program that was told to wait just sends it again.
 * - The point before a request leaves is a help and no condition: the reviewer has approved the request, and a vault that is
 *   full must not hold up what somebody waits for. Why there is none is in the approval.
 * - What is held is in memory only: another control takes all of it from the gateway anew; another gateway holds nothing.
 */
import type { ApprovalDetail, ApprovalList, Input } from '@space/contract';
import {
  APPROVAL_LIMITS,
  APPROVAL_WITHIN_MS,
  AppError,
  type ApprovalId,
  type ApprovalLimits,
  type AskAnswer,
  type AskFate,
  asAppError,
  type EgressPosition,
  type GatewayPort,
  type HeldAsk,
  newId,
  parseId,
} from '@space/core';
import type { RecordedApproval, SnapshotBefore } from './approval-records.ts';
import { NotRunningError } from './effects.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import { findSandbox } from './scope.ts';
import { settledWithin } from './turns.ts';
import { viewApproval, viewApprovalDetail } from './views.ts';

const SNAPSHOT_WITHIN_MS = 30_000;
/** Of one look. */
const MAX_EXPIRED = 200;
const KEPT_MS = 30 * 24 * 60 * 60 * 1000;
/** A held request may end a little later than the gateway has said. */
const GRACE_MS = 5_000;
/** Times that a request is asked for anew, since another one came first each time. */
const MAX_TURNS = 5;

/** A request that the gateway holds. */
interface Held {
  readonly instance: string;
  readonly ask: HeldAsk;
}

export class Approvals {
  readonly #machinery: Machinery;
  readonly #gateway: GatewayPort;
  readonly #limits: ApprovalLimits;
  /** By the approval that they wait for. */
  readonly #waiting = new Map<ApprovalId, Held[]>();
  readonly #snapshots = new Map<ApprovalId, Promise<SnapshotBefore | null>>();
  readonly #underWay = new Set<Promise<void>>();
  readonly #closed = new AbortController();
  #taken: EgressPosition | null = null;
  #isAway = false;

  constructor(machinery: Machinery, gateway: GatewayPort, limits: ApprovalLimits = APPROVAL_LIMITS) {
    this.#machinery = machinery;
    this.#gateway = gateway;
    this.#limits = limits;
  }

  async listApprovals({ projectId }: GatedCaller, input: Input<'listApprovals'>): Promise<ApprovalList> {
    const { records } = this.#machinery.ports;
    const { sandbox, state, ...page } = input;
    const sandboxId = sandbox === undefined ? undefined : (await findSandbox(records, projectId, sandbox)).id;
    const { items, next } = await records.approvals.list({
      ...page,
      projectId,
      ...(sandboxId === undefined ? {} : { sandboxId }),
      ...(state === undefined ? {} : { state }),
    });
    return { approvals: items.map(viewApproval), nextCursor: next };
  }

  async getApproval(caller: GatedCaller, { id }: Input<'getApproval'>): Promise<ApprovalDetail> {
    return viewApprovalDetail(await this.#find(caller, id));
  }

  approveRequest(caller: GatedCaller, input: Input<'approveRequest'>): Promise<ApprovalDetail> {
    return this.#decide('approve', caller, input);
  }

  denyRequest(caller: GatedCaller, input: Input<'denyRequest'>): Promise<ApprovalDetail> {
    return this.#decide('deny', caller, input);
  }

  /** Takes what the gateway holds, until it does not answer or this is closed. What is begun here ends by itself. */
  async follow(): Promise<void> {
    try {
      while (!this.#closed.signal.aborted) {
        const { asks, instance, next } = await this.#gateway.takeAsks(this.#taken, this.#closed.signal);
        if (this.#taken !== null && this.#taken.instance !== instance) this.#waiting.clear();
        this.#taken = { instance, next };
        this.#isAway = false;
        for (const ask of asks) this.#inBackground(this.#settle({ instance, ask }));
      }
    } catch (err) {
      // Whoever is there next tells all that it holds.
      this.#taken = null;
      if (this.#closed.signal.aborted) return;
      if (!this.#isAway) this.#machinery.ports.logger.warn({ err }, 'the gateway cannot be asked for held requests');
      this.#isAway = true;
    }
  }

  /** Ends what is late. */
  async round(): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    const late = await records.approvals.expire(new Date(clock.now()), MAX_EXPIRED);
    for (const approval of late) this.#inBackground(this.#tellLate(approval));
    for (const [id, waiting] of this.#waiting) {
      const still = waiting.filter(({ ask }) => Date.parse(ask.heldUntil) + GRACE_MS > clock.now());
      if (still.length > 0) this.#waiting.set(id, still);
      else this.#waiting.delete(id);
    }
  }

  async dropOld(): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    await records.approvals.dropBefore(new Date(clock.now() - KEPT_MS));
  }

  async settled(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  close(): void {
    this.#closed.abort();
  }

  async #find({ projectId }: GatedCaller, id: ApprovalId): Promise<RecordedApproval> {
    const found = await this.#machinery.ports.records.approvals.find(id);
    if (found?.projectId !== projectId) throw new AppError('not_found', `There is no approval "${id}".`);
    return found;
  }

  async #decide(
    step: 'approve' | 'deny',
    caller: GatedCaller,
    { id, reason = null }: { readonly id: ApprovalId; readonly reason?: string | undefined | null },
  ): Promise<ApprovalDetail> {
    const { records, clock } = this.#machinery.ports;
    await this.#find(caller, id);
    const at = new Date(clock.now());
    const expiresAt = new Date(at.getTime() + APPROVAL_WITHIN_MS);
    const decided = await records.approvals.decide(id, { step, by: caller.principal.apiKeyId, reason, at, expiresAt });
    if (decided === null) {
      const { state } = await this.#find(caller, id);
      throw new AppError('approval_ended', { detail: `Nobody decides it any more: it is ${state}.`, facts: { state } });
    }
    this.#inBackground(this.#tellAll(decided));
    return viewApprovalDetail(decided);
  }

  /** Those that wait for it, one after the other: of several that are the same, one is let go. */
  async #tellAll({ id }: RecordedApproval): Promise<void> {
    const waiting = this.#waiting.get(id) ?? [];
    this.#waiting.delete(id);
    for (const held of waiting) await this.#settle(held);
  }

  async #tellLate({ id }: RecordedApproval): Promise<void> {
    const waiting = this.#waiting.get(id) ?? [];
    this.#waiting.delete(id);
    const late = { kind: 'refuse', approvalId: id, reason: 'Nobody decided in time.' } as const;
    for (const held of waiting) await this.#answer(held, late);
  }

  async #settle(held: Held): Promise<void> {
    for (let turn = 0; turn < MAX_TURNS; turn++) {
      if (await this.#tryToSettle(held)) return;
    }
    await this.#answer(held, {
      kind: 'refuse',
      approvalId: null,
      reason: 'The same request is sent too often at once.',
    });
  }

  /** False: another one came first, and it has to be asked for anew. */
  async #tryToSettle(held: Held): Promise<boolean> {
    const misused = await this.#misused(held.ask);
    if (misused !== null) {
      await this.#answer(held, { kind: 'refuse', approvalId: null, reason: misused });
      return true;
    }
    let approval: RecordedApproval;
    try {
      approval = await this.#ask(held);
    } catch (thrown) {
      const { code, message } = asAppError(thrown);
      if (code !== 'limit_reached' && code !== 'not_found') throw thrown;
      await this.#answer(held, { kind: 'refuse', approvalId: null, reason: message });
      return true;
    }
    const { id, state } = approval;
    switch (state) {
      case 'pending':
        return this.#wait(held, approval);
      case 'denied':
        await this.#answer(held, { kind: 'refuse', approvalId: id, reason: denialOf(approval) });
        return true;
      case 'approved':
        return this.#use(held, approval);
      case 'used':
        // For this very one, of which an earlier control did not tell the gateway, or did not hear that it did.
        await this.#letGo(held, id);
        return true;
      default:
        return false;
    }
  }

  async #ask({ instance, ask }: Held): Promise<RecordedApproval> {
    const { records, chance, clock } = this.#machinery.ports;
    const sandbox = await records.findSandbox(ask.sandboxId);
    const organisationId = sandbox === null ? null : await records.tenants.organisationOf(sandbox.projectId);
    if (sandbox === null || organisationId === null) throw new AppError('not_found', 'The sandbox is gone.');
    const { sandboxId, digest, rule, request } = ask;
    const requestedAt = new Date(clock.now());
    const fresh = {
      id: newId('approval', chance),
      organisationId,
      projectId: sandbox.projectId,
      sandboxId,
      digest,
      rule,
      request,
      requestedAt,
      expiresAt: new Date(requestedAt.getTime() + APPROVAL_WITHIN_MS),
      askedBy: nameOf({ instance, ask }),
    };
    return records.approvals.ask(fresh, this.#limits);
  }

  /** A ticket says nothing by itself; one that is of something else is somebody's mistake, or worse. Null: it is well. */
  async #misused({ ticket, sandboxId, digest }: HeldAsk): Promise<string | null> {
    if (ticket === null) return null;
    const id = parseId('approval', ticket);
    const { records } = this.#machinery.ports;
    const approval = id === undefined ? null : await records.approvals.find(id);
    const sandbox = await records.findSandbox(sandboxId);
    if (approval === null || approval.sandboxId !== sandboxId) return 'There is no such approval.';
    if (approval.generation !== sandbox?.generation) return 'The approval is void: the sandbox went back since.';
    return approval.digest === digest ? null : 'The approval is of another request: this one differs from it.';
  }

  async #wait(held: Held, { id, expiresAt }: RecordedApproval): Promise<boolean> {
    // Before the gateway is told, so that a decision that comes right now finds it.
    this.#waiting.set(id, [...(this.#waiting.get(id) ?? []).filter((one) => nameOf(one) !== nameOf(held)), held]);
    const fate = await this.#answer(held, { kind: 'wait', approvalId: id, expiresAt: expiresAt.toISOString() });
    if (fate !== 'taken')
      this.#waiting.set(
        id,
        (this.#waiting.get(id) ?? []).filter((one) => one !== held),
      );
    const now = await this.#machinery.ports.records.approvals.find(id);
    if (now?.state === 'pending' || !(this.#waiting.get(id) ?? []).includes(held)) return true;
    // It was decided in between, by somebody who did not see it wait.
    this.#waiting.set(
      id,
      (this.#waiting.get(id) ?? []).filter((one) => one !== held),
    );
    return false;
  }

  async #use(held: Held, { id, sandboxId }: RecordedApproval): Promise<boolean> {
    const { records, clock } = this.#machinery.ports;
    const taking = this.#snapshots.get(id) ?? this.#snapshot(sandboxId);
    this.#snapshots.set(id, taking);
    const snapshot = await taking.finally(() => this.#snapshots.delete(id));
    const at = new Date(clock.now());
    const used = await records.approvals.use(id, { usedFor: nameOf(held), snapshot, at });
    if (used === null) return false;
    await this.#letGo(held, id);
    return true;
  }

  async #letGo(held: Held, id: ApprovalId): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    const fate = await this.#answer(held, { kind: 'let_go', approvalId: id });
    if (fate === 'gone') await records.approvals.release(id, nameOf(held), new Date(clock.now()));
  }

  async #snapshot(id: HeldAsk['sandboxId']): Promise<SnapshotBefore | null> {
    const { driver, effects, activity, ports } = this.#machinery;
    const taking = activity
      .unused(id, async () => {
        const { sandbox, result } = await driver.perform(id, 'snapshot', effects.unasked('approval'));
        if (result === undefined) throw new AppError('internal', 'A snapshot ended without a point.');
        return { epoch: sandbox.epoch, value: result.id };
      })
      .then(
        (snapshotId): SnapshotBefore | null => ({ id: snapshotId }),
        (thrown: unknown): SnapshotBefore | null => {
          if (thrown instanceof NotRunningError) return null;
          ports.logger.warn({ sandboxId: id, err: thrown }, 'no point was taken before an approved request');
          return { code: asAppError(thrown).code };
        },
      );
    return withinTime(taking, SNAPSHOT_WITHIN_MS, { code: 'timed_out' });
  }

  #answer({ instance, ask }: Held, answer: AnswerOf<AskAnswer>): Promise<AskFate> {
    return this.#gateway.answerAsk({ instance, id: ask.id, ...answer });
  }

  #inBackground(work: Promise<void>): void {
    const watched = work
      // It is held until its time is over, and asked for again by the next one.
      .catch((err: unknown) => this.#machinery.ports.logger.warn({ err }, 'a held request could not be dealt with'))
      .finally(() => this.#underWay.delete(watched));
    this.#underWay.add(watched);
  }
}

type AnswerOf<A> = A extends unknown ? Omit<A, 'instance' | 'id'> : never;

function nameOf({ instance, ask }: Held): string {
  return `${instance}/${ask.id}`;
}

function denialOf({ reason }: RecordedApproval): string {
  return reason === null || reason === '' ? 'A reviewer denied it.' : `A reviewer denied it: ${reason}`;
}

async function withinTime<T>(work: Promise<T>, ms: number, late: T): Promise<T> {
  return (await settledWithin(work, ms)) ? work : late;
}
