/**
 * The driver: the one place where a lifecycle operation begins, acts and ends.
 *
 * ```
 *   perform ─► read ─► decide ─┬─ start ─► journal (epoch + 1) ─► effect on the node ─► inspect ─► react ─► journal the end
 *                              ├─ join, wait ─► the end of what is in flight, then again
 *                              ├─ done
 *                              └─ refuse ─► error
 * ```
 *
 * - Deciding and beginning happen in turns per sandbox, and the records check once more by compare-and-set.
 * - What an operation has begun goes on to its end, whoever stops listening; who asked again shares its end.
 * - A failed effect ends as what the node finds real. When the node or the database cannot be asked, the operation stays
 *   in flight in the records as an *orphan*; whoever meets an orphan next, or the reconciler, ends it. A delete that failed
 *   is one too: who was told that the sandbox is gone is not contradicted.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AppError,
  asAppError,
  type Command,
  decide,
  NO_TRACES,
  newId,
  type Operation,
  type OperationId,
  react,
  type SandboxId,
  STARTS,
  unreachable,
} from '@space/core';
import { absentSandbox, type Conclusion, concludeUnknown, inspectEnded, type Succeeded } from './conclude.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { Metrics } from './metrics.ts';
import type { ControlPorts } from './ports.ts';
import type { OperationInput, Outcome, RecordedSandbox, RecordedSnapshot } from './records.ts';
import { retryUnavailable } from './retry.ts';
import { noteDamage } from './scrubber.ts';
import { settledWithin, Turns } from './turns.ts';

/** How long a command waits for another operation before it is answered with `operation_in_progress`. */
const WAIT_MS = 30_000;
const RECOVER_PAUSE_MS = 250;
const POLL_MS = 25;

/** What an operation is going to do; found before it begins, so that it can be journalled. */
export interface Plan {
  readonly input: OperationInput;
  /** The point it takes. */
  readonly taking?: RecordedSnapshot;
}

export interface Effect<T> {
  /** Throws when the command cannot be carried out; nothing has begun then. */
  plan(seen: RecordedSandbox): Promise<Plan>;
  /** `begun` holds our epoch. */
  run(begun: RecordedSandbox, plan: Plan): Promise<Succeeded<T>>;
}

export interface Performed<T> {
  readonly sandbox: RecordedSandbox;
  /** Undefined when it was so already. */
  readonly result: T | undefined;
}

/** A sandbox with our operation in flight. */
type Begun = RecordedSandbox & { readonly operation: Operation; readonly operationId: OperationId };

interface InFlight {
  readonly sandboxId: SandboxId;
  readonly ended: Promise<Performed<unknown>>;
}

type Step<T> =
  | { readonly kind: 'begun' | 'join'; readonly ended: Promise<Performed<T>> }
  | { readonly kind: 'done'; readonly sandbox: RecordedSandbox }
  | { readonly kind: 'wait'; readonly ended: Promise<unknown>; readonly operation: Operation }
  | { readonly kind: 'again' };

export class Driver {
  readonly #ports: ControlPorts;
  readonly #metrics: Metrics;
  readonly #recover: (orphan: RecordedSandbox) => Promise<unknown>;
  readonly #turns = new Turns<SandboxId>();
  readonly #inFlight = new Map<OperationId, InFlight>();
  readonly #announced = new Set<OperationId>();
  readonly #admit: (seen: RecordedSandbox) => void;
  #closed = false;

  /** `admit` throws where nothing is to be done in the vault, but that what runs is paused, and what is there deleted. */
  constructor(
    ports: ControlPorts,
    metrics: Metrics,
    recover: (orphan: RecordedSandbox) => Promise<unknown>,
    admit: (seen: RecordedSandbox) => void = () => undefined,
  ) {
    this.#ports = ports;
    this.#metrics = metrics;
    this.#recover = recover;
    this.#admit = admit;
  }

  /** Whether the operation is carried out by this process now. */
  owns(operationId: OperationId): boolean {
    return this.#inFlight.has(operationId) || this.#announced.has(operationId);
  }

  /** Throws `unavailable` once `close` has been called. */
  checkOpen(): void {
    if (this.#closed) throw new AppError('unavailable', 'The server is shutting down.');
  }

  /** Says that an operation that is recorded, or about to be, will be carried out here. Returns what takes it back. */
  own(operationId: OperationId): () => void {
    this.#announced.add(operationId);
    return () => this.#announced.delete(operationId);
  }

  /** Settles when what this process has in flight on the sandbox now has ended. Never rejects. */
  async idle(sandboxId: SandboxId): Promise<void> {
    const ours = [...this.#inFlight.values()].filter((one) => one.sandboxId === sandboxId);
    await Promise.allSettled(ours.map(({ ended }) => ended));
  }

  /** Refuses new operations and waits for those in flight, up to a time; those that last longer become orphans. */
  async close(timeoutMs: number): Promise<void> {
    this.#closed = true;
    const ends = [...this.#inFlight.values()].map(({ ended }) => ended.catch(() => undefined));
    await settledWithin(Promise.all(ends), timeoutMs);
  }

  /** Runs a step while no operation on the sandbox begins. */
  exclusively<T>(sandboxId: SandboxId, step: () => Promise<T>): Promise<T> {
    return this.#turns.take(sandboxId, step);
  }

  async perform<T>(
    sandboxId: SandboxId,
    command: Command,
    effect: Effect<T>,
    caller?: GatedCaller,
  ): Promise<Performed<T>> {
    const signal = caller?.signal;
    const deadline = this.#ports.clock.monotonicMs() + WAIT_MS;
    for (;;) {
      signal?.throwIfAborted();
      const step = await this.#turns.take(sandboxId, () => this.#next(sandboxId, command, effect, caller));
      switch (step.kind) {
        case 'begun':
        case 'join':
          return await step.ended;
        case 'done':
          return { sandbox: step.sandbox, result: undefined };
        case 'wait': {
          const left = deadline - this.#ports.clock.monotonicMs();
          if (left > 0 && (await settledWithin(step.ended, left, signal))) break;
          throw new AppError('operation_in_progress', {
            detail: `A ${step.operation} of ${sandboxId} is in progress and has not ended in time.`,
            facts: { operation: step.operation },
          });
        }
        case 'again':
          break;
        default:
          return unreachable(step);
      }
    }
  }

  /** Carries out the create, or the arrival, that `addSandboxes` recorded as in flight. */
  performCreate<T>(begun: RecordedSandbox, input: OperationInput, run: Effect<T>['run']): Promise<Performed<T>> {
    const plan: Plan = { input };
    const admitted: Effect<T>['run'] = async (...effect) => {
      this.#admit(begun);
      return run(...effect);
    };
    return this.#carryOut(begun, plan, admitted);
  }

  async #next<T>(
    sandboxId: SandboxId,
    command: Command,
    effect: Effect<T>,
    caller: GatedCaller | undefined,
  ): Promise<Step<T>> {
    this.checkOpen();
    const seen = await this.#ports.records.findSandbox(sandboxId);
    if (seen === null) throw new AppError('not_found', `There is no sandbox "${sandboxId}".`);
    if (command !== 'pause' && command !== 'delete') this.#admit(seen);
    const decision = decide(seen, command);
    switch (decision.kind) {
      case 'start':
        return this.#begin(seen, decision.operation, effect, caller);
      case 'done':
        return { kind: 'done', sandbox: seen };
      case 'refuse':
        throw new AppError(decision.code, {
          detail: decision.code === 'not_found' ? `There is no sandbox "${sandboxId}".` : decision.detail,
          facts: { sandboxId },
        });
      case 'join':
      case 'wait': {
        const { operation, operationId } = seen;
        if (operation === null || operationId === null) throw new Error('only what is in flight is waited for');
        const ours = this.#inFlight.get(operationId);
        if (ours === undefined && this.owns(operationId)) return { kind: 'wait', ended: sleep(POLL_MS), operation };
        // When it cannot be ended now, the next attempt is not at once.
        if (ours === undefined)
          return { kind: 'wait', ended: this.#recover(seen).catch(() => sleep(RECOVER_PAUSE_MS)), operation };
        // The operation, and so the type of its result, is the one that the command asked for.
        if (decision.kind === 'join') return { kind: 'join', ended: ours.ended as Promise<Performed<T>> };
        return { kind: 'wait', ended: ours.ended, operation };
      }
      default:
        return unreachable(decision);
    }
  }

  async #begin<T>(
    seen: RecordedSandbox,
    operation: Operation,
    effect: Effect<T>,
    caller: GatedCaller | undefined,
  ): Promise<Step<T>> {
    const plan = await effect.plan(seen);
    const operationId = newId('operation', this.#ports.chance);
    // Known as ours before the records know it, so that nobody who reads them takes it for an orphan.
    const disown = this.own(operationId);
    try {
      const begun = await this.#ports.records.beginOperation({
        seen,
        operation,
        operationId,
        input: plan.input,
        taking: plan.taking ?? null,
        by: caller?.asker ?? null,
        at: new Date(this.#ports.clock.now()),
      });
      if (begun === null) return { kind: 'again' };
      caller?.onOperation?.(operationId);
      return { kind: 'begun', ended: this.#carryOut(begun, plan, (sandbox) => effect.run(sandbox, plan)) };
    } finally {
      disown();
    }
  }

  /** One event in the log, and one figure, for each operation that ends, and for each attempt of a delete that fails. */
  #note({ id: sandboxId, operation, operationId }: Begun, outcome: Outcome, sinceMs: number): void {
    const durationMs = this.#ports.clock.monotonicMs() - sinceMs;
    this.#metrics.operationEnded(operation, outcome, durationMs);
    const facts = { sandboxId, operation, operationId, outcome, durationMs: Math.round(durationMs) };
    this.#ports.logger.info(facts, 'operation');
  }

  #carryOut<T>(begun: RecordedSandbox, plan: Plan, run: Effect<T>['run']): Promise<Performed<T>> {
    const { operation, operationId } = begun;
    if (operation === null || operationId === null) throw new Error('an operation that begins is in flight');
    const ours: Begun = { ...begun, operation, operationId };
    const span = {
      name: `operation ${operation}`,
      attributes: { 'space.sandbox': begun.id, 'space.operation': operationId },
    };
    const tracer = this.#ports.tracer ?? NO_TRACES;
    const ended = tracer
      .span(span, () => this.#actAndEnd(ours, plan, run))
      .finally(() => this.#inFlight.delete(operationId));
    ended.catch(() => undefined);
    this.#inFlight.set(operationId, { sandboxId: begun.id, ended });
    return ended;
  }

  async #actAndEnd<T>(begun: Begun, plan: Plan, run: Effect<T>['run']): Promise<Performed<T>> {
    // The journal entry is durable before this turn; the effect starts in the next, when the operation is known as ours.
    await Promise.resolve();
    const sinceMs = this.#ports.clock.monotonicMs();
    let done: Succeeded<T> | null = null;
    let failure: AppError | null = null;
    try {
      done = await run(begun, plan);
    } catch (thrown) {
      failure = asAppError(thrown);
      this.#ports.logger.warn(
        { sandboxId: begun.id, operation: begun.operation, code: failure.code, err: failure },
        'an operation failed',
      );
      const { from } = plan.input;
      if (failure.code === 'snapshot_bad' && from !== undefined && from !== 'crashed') {
        // Whoever asked is told either way.
        await noteDamage(this.#ports, from, failure).catch(() => undefined);
      }
    }
    // A delete is not taken back: it is repeated by whoever asks again, or by the reconciler.
    if (failure !== null && begun.operation === 'delete') {
      this.#note(begun, 'failed', sinceMs);
      throw failure;
    }
    const sandbox = await this.#end(begun, plan, done, failure).catch((err: unknown) => {
      this.#ports.logger.error(
        { sandboxId: begun.id, operation: begun.operation, err },
        'an operation is left to be ended',
      );
      throw failure ?? err;
    });
    this.#note(begun, sandbox === null ? 'superseded' : failure === null ? 'ok' : 'failed', sinceMs);
    if (sandbox === null) throw await this.#superseded(begun, plan, failure);
    if (failure !== null) throw failure;
    // It started and is gone again, or stands still: nobody is told that it runs.
    if (STARTS.includes(begun.operation) && sandbox.settled === 'out_of_space') {
      throw new AppError('out_of_space', 'The sandbox was started, and stands still: its vault is nearly full.');
    }
    if (STARTS.includes(begun.operation) && sandbox.settled !== 'running') {
      throw new AppError('vm_lost', sandbox.crash?.detail ?? 'The microVM ended right after it was started.');
    }
    return { sandbox, result: done?.result };
  }

  /** Null: superseded. */
  async #end(
    begun: Begun,
    plan: Plan,
    done: Succeeded<unknown> | null,
    failure: AppError | null,
  ): Promise<RecordedSandbox | null> {
    const { records, node, clock } = this.#ports;
    const { operation, operationId } = begun;
    // What was asked to go away is not looked for.
    const inspected =
      operation === 'delete' && done !== null ? absentSandbox(begun) : await inspectEnded(node, begun, failure);
    const conclusion: Conclusion = done ?? (await concludeUnknown(this.#ports, begun, plan.input, inspected));
    const latest = (await retryUnavailable(() => records.findSandbox(begun.id))) ?? begun;
    const after = react(latest, { kind: 'ended', operation, ok: failure === null, real: inspected.real });
    const crash =
      after.settled === 'crashed'
        ? (latest.crash ?? {
            detail: failure?.message ?? 'The microVM ended while an operation was in progress.',
            at: new Date(clock.now()),
          })
        : null;
    // Its caller was not told so, and learns it by repeating the call.
    const isDone = failure === null || conclusion.tookPlace === true;
    return retryUnavailable(() =>
      records.endOperation({
        sandboxId: begun.id,
        operationId,
        epoch: begun.epoch,
        settled: after.settled,
        outcome: isDone ? 'ok' : 'failed',
        errorCode: isDone ? null : (failure?.code ?? null),
        timings: conclusion.timings ?? null,
        changes: { ...conclusion.changes, crash },
        points: conclusion.points,
        dropped: conclusion.dropped,
        doomed: conclusion.doomed,
        at: new Date(clock.now()),
      }),
    );
  }

  /** A delete that won may have passed us: what we made after it goes too. */
  async #superseded(begun: Begun, plan: Plan, failure: AppError | null): Promise<AppError> {
    const { records, node, logger } = this.#ports;
    const now = await records.findSandbox(begun.id).catch(() => null);
    if (now?.settled === 'deleted') {
      const points = plan.taking === undefined ? [] : [plan.taking.id];
      await node
        .destroy({ vault: now.vault, sandboxId: begun.id, epoch: now.epoch, points })
        .catch((err: unknown) =>
          logger.warn({ sandboxId: begun.id, err }, 'what a late operation left was not removed'),
        );
    }
    const detail = `A later operation took the place of this ${begun.operation} of ${begun.id}.`;
    return new AppError('superseded', detail, failure === null ? undefined : { cause: failure });
  }
}
