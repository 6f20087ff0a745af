/**
 * The pool: microVMs that were started from ready snapshots before anybody asked, warmed up and stopped again. A create
 * takes one, if there is one of its kind, and has its first answer without waiting for an emulator that translates.
 *
 *   fill    restore ─► identity of nobody ─► thaw ─► a few commands ─► freeze ─► vCPUs stop
 *   claim   vCPUs run ─► identity of the sandbox (verified) ─► [record] ─► thaw
 *
 * - A member is a life like any other, of a kind: one vault, template and size. It is given to a start from that ready
 *   snapshot only, so it never crosses vaults.
 * - No record names it, so whoever takes up the node after a death ends it as something that was never finished.
 * - It takes memory and space that nobody wants. Whoever wants them gets them first (`Spares`).
 * - What should be filled and what goes is decided in core (`pool.ts`); one is filled at a time, when no order is under way.
 */
import {
  AppError,
  type Clock,
  lastWantedMs,
  MAX_MEMBERS,
  nextPoolStep,
  type PoolKind,
  type PoolStatus,
  type PoolStep,
  type SnapshotId,
  sizeKey,
  type Vault,
} from '@space/core';
import type { Life } from './life.ts';
import { VMM_OVERHEAD_MIB } from './memory-budget.ts';
import { nobody, runInTurn } from './nobody.ts';
import type { ReadySnapshot } from './ready.ts';
import {
  endLife,
  giveIdentity,
  type LifeMachinery,
  type LifePlan,
  type PreparedLife,
  prepareLife,
} from './start-life.ts';

export interface PoolOptions {
  /** What all members may take, their VMMs included; 0: there is no pool. */
  readonly memoryMib: number;
  /** How long no order must have come before a member is filled; left out: as it should be. */
  readonly quietMs?: number;
}

/** A first command comes right after its start, and should have the processors. */
const QUIET_MS = 400;
/** Where orders follow each other without a pause, members are filled all the same. */
const LONGEST_WAIT_MS = 3_000;
/** When nothing happens, what is kept is looked at so often. */
const LOOK_EVERY_MS = 30_000;
const FREEZE_TIMEOUT_MS = 20_000;

/** What users run first. The third command takes as long as all later ones. */
const WARM_UP = ['true', 'true', 'true'];

interface Kind extends ReadySnapshot {
  readonly knownAtMs: number;
  askedAtMs: readonly number[];
  failures: number;
  failedAtMs: number;
}

interface Member {
  readonly kind: Kind;
  readonly life: Life;
  /** It could not be ended, and is not given to anybody. */
  isDoomed: boolean;
}

interface Filling {
  readonly kind: Kind;
  readonly stop: AbortController;
  readonly ended: Promise<void>;
}

export class Pool {
  readonly #machinery: LifeMachinery;
  readonly #clock: Clock;
  readonly #budgetMib: number;
  readonly #quietMs: number;
  readonly #kinds = new Map<SnapshotId, Kind>();
  readonly #members = new Set<Member>();
  #filling: Filling | null = null;
  /** Orders under way. */
  #orders = 0;
  #orderedAtMs = Number.NEGATIVE_INFINITY;
  /** Since when there is something to do. */
  #waitingSinceMs: number | null = null;
  #timer: NodeJS.Timeout | undefined;
  #tidying: Promise<unknown> = Promise.resolve();
  #isClosed = false;
  readonly #counts = { hits: 0, misses: 0, fills: 0, failedFills: 0, fillMs: 0, givenUp: 0 };

  constructor(machinery: LifeMachinery, { memoryMib, quietMs = QUIET_MS }: PoolOptions) {
    this.#machinery = machinery;
    this.#clock = machinery.clock;
    this.#budgetMib = memoryMib;
    this.#quietMs = quietMs;
  }

  status(): PoolStatus {
    return {
      budgetMib: this.#budgetMib,
      takenMib: this.#machinery.budget.spareMib,
      members: this.#usable().length,
      filling: this.#filling === null ? 0 : 1,
      ...this.#counts,
    };
  }

  /** There is something that members can be started from. */
  know(ready: ReadySnapshot): void {
    if (this.#kinds.has(ready.snapshotId)) return;
    const knownAtMs = this.#clock.monotonicMs();
    this.#kinds.set(ready.snapshotId, { ...ready, knownAtMs, askedAtMs: [], failures: 0, failedAtMs: 0 });
    this.#waken();
  }

  /** Whether the point is a ready snapshot. */
  knows(snapshotId: SnapshotId): boolean {
    return this.#kinds.has(snapshotId);
  }

  /** Runs an order; meanwhile, and shortly after, nothing is filled. */
  async aside<T>(order: () => Promise<T>): Promise<T> {
    this.#orders++;
    try {
      return await order();
    } finally {
      this.#orders--;
      this.#orderedAtMs = this.#clock.monotonicMs();
      this.#waken();
    }
  }

  /**
   * A member as the life that the plan asks for; null when there is none, or it fails: then the plan is as it was. Throws
   * what the plan's check throws, and `insufficient_memory`.
   */
  async claim(plan: LifePlan): Promise<PreparedLife | null> {
    const kind = typeof plan.from === 'string' ? this.#kinds.get(plan.from) : undefined;
    if (kind === undefined || kind.vault !== plan.vault || sizeKey(kind.size) !== sizeKey(plan.size)) return null;
    const { budget, clock } = this.#machinery;
    const startedAt = plan.since ?? clock.monotonicMs();
    kind.askedAtMs = [...kind.askedAtMs, startedAt].slice(-MAX_MEMBERS);
    plan.check();
    const member = this.#usable().find((one) => one.kind === kind);
    if (member === undefined) {
      this.#counts.misses++;
      return null;
    }
    const { life } = member;
    budget.reserve(life.lifeId, plan.size.memoryMib, plan.identity.sandboxId);
    this.#members.delete(member);
    try {
      await this.#machinery.tracer.span({ name: 'run a member of the pool' }, () => life.vm.run());
      const prepared = await giveIdentity(this.#machinery, plan, life, startedAt);
      this.#counts.hits++;
      return prepared;
    } catch {
      await endLife(this.#machinery, life, 'it could not be given away');
      plan.check();
      this.#counts.misses++;
      return null;
    }
  }

  /** See `Spares`. */
  makeRoom(): Promise<void> {
    const { budget } = this.#machinery;
    if (budget.excessMib === 0) return Promise.resolve();
    return this.#inTurn(async () => {
      await this.#giveUpWhile(
        () => budget.excessMib > 0,
        () => true,
      );
      if (budget.excessMib === 0) return;
      throw new AppError('insufficient_memory', 'Memory that is promised is still taken by what could not be ended.');
    });
  }

  /** See `Spares`. */
  async withSpace<T>(vault: Vault, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (thrown) {
      if (!(thrown instanceof AppError) || thrown.code !== 'insufficient_space') throw thrown;
      if (!(await this.leave(vault))) throw thrown;
      return work();
    }
  }

  /** Gives up all that lies in the vault, and fills nothing there for a while; returns whether there was anything. */
  leave(vault: Vault): Promise<boolean> {
    return this.#inTurn(async () => {
      for (const kind of this.#kinds.values()) if (kind.vault === vault) this.#holdOff(kind);
      const before = this.#counts.givenUp;
      await this.#giveUpWhile(
        () => true,
        (kind) => kind.vault === vault,
      );
      return this.#counts.givenUp > before;
    });
  }

  /** The vault is being closed: all that lies in it ends, and is not known any more. */
  forget(vault: Vault): Promise<void> {
    return this.#inTurn(async () => {
      for (const [snapshotId, kind] of this.#kinds) if (kind.vault.name === vault.name) this.#kinds.delete(snapshotId);
      await this.#giveUpWhile(
        () => true,
        (kind) => kind.vault.name === vault.name,
      );
    });
  }

  /** Ends all members, and fills none any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#inTurn(() =>
      this.#giveUpWhile(
        () => true,
        () => true,
      ),
    );
  }

  /** First those whose kind was wanted the longest ago, at last the one that is being filled. Each is tried once. */
  async #giveUpWhile(isWanted: () => boolean, isMeant: (kind: Kind) => boolean): Promise<void> {
    const tried = new Set<Member>();
    while (isWanted()) {
      const left = [...this.#members].filter((member) => isMeant(member.kind) && !tried.has(member));
      const [first] = left.toSorted((a, b) => lastWantedMs(a.kind) - lastWantedMs(b.kind));
      if (first !== undefined) {
        tried.add(first);
        await this.#giveUp(first);
        continue;
      }
      const filling = this.#filling;
      if (filling === null || !isMeant(filling.kind)) return;
      filling.stop.abort(new AppError('superseded', 'What it takes is wanted by others.'));
      await filling.ended;
    }
  }

  async #giveUp(member: Member): Promise<void> {
    if (!this.#members.has(member)) return;
    member.isDoomed = true;
    try {
      await endLife(this.#machinery, member.life, 'what it takes is wanted by others');
    } catch {
      // What it takes still counts; the next who wants it tries again.
      return;
    }
    this.#members.delete(member);
    this.#counts.givenUp++;
  }

  #usable(): readonly Member[] {
    return [...this.#members].filter(({ isDoomed }) => !isDoomed);
  }

  /** One at a time, so that nobody gives up for what another is about to free. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#tidying.then(work);
    this.#tidying = turn.catch(() => undefined);
    return turn;
  }

  /** Looks soon; later while orders are under way. */
  #waken(): void {
    if (this.#isClosed || this.#budgetMib === 0) return;
    const nowMs = this.#clock.monotonicMs();
    this.#waitingSinceMs ??= nowMs;
    this.#lookIn(Math.max(0, Math.min(this.#quietMs, this.#waitingSinceMs + LONGEST_WAIT_MS - nowMs)));
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => this.#look(), ms);
    this.#timer.unref();
  }

  #look(): void {
    const nowMs = this.#clock.monotonicMs();
    const isQuiet = this.#orders === 0 && nowMs - this.#orderedAtMs >= this.#quietMs;
    const hasWaited = this.#waitingSinceMs !== null && nowMs - this.#waitingSinceMs >= LONGEST_WAIT_MS;
    if (!isQuiet && !hasWaited) {
      this.#lookIn(this.#quietMs);
      return;
    }
    this.#waitingSinceMs = null;
    // The end of it looks again.
    if (this.#filling === null) this.#act(nextPoolStep(this.#present(), this.#room(), nowMs));
  }

  #act(step: PoolStep<Kind> | null): void {
    if (step === null) this.#lookIn(LOOK_EVERY_MS);
    else if (step.kind === 'fill') this.#fillInBackground(step.key);
    else void this.#inTurn(() => this.#giveUpOneOf(step.key)).then(() => this.#lookIn(this.#quietMs));
  }

  async #giveUpOneOf(kind: Kind): Promise<void> {
    const member = [...this.#members].find((one) => one.kind === kind);
    if (member !== undefined) await this.#giveUp(member);
  }

  #present(): readonly PoolKind<Kind>[] {
    return [...this.#kinds.values()].map((kind) => ({
      key: kind,
      needMib: kind.size.memoryMib + VMM_OVERHEAD_MIB,
      members: [...this.#members].filter((one) => one.kind === kind).length,
      ...kind,
      vault: kind.vault.name,
    }));
  }

  #room() {
    const { spareMib, freeMib } = this.#machinery.budget;
    return { budgetMib: this.#budgetMib, takenMib: spareMib, freeMib };
  }

  #fillInBackground(kind: Kind): void {
    const stop = new AbortController();
    const ended = this.#fill(kind, stop.signal)
      .catch(() => {
        if (stop.signal.aborted) {
          this.#counts.givenUp++;
          return;
        }
        this.#holdOff(kind);
        this.#counts.failedFills++;
      })
      .finally(() => {
        this.#filling = null;
        this.#waken();
      });
    this.#filling = { kind, stop, ended };
  }

  async #fill(kind: Kind, signal: AbortSignal): Promise<void> {
    const { chance, clock } = this.#machinery;
    const startedAtMs = clock.monotonicMs();
    const { vault, size, snapshotId } = kind;
    const check = () => signal.throwIfAborted();
    const identity = { sandboxId: nobody(chance), generation: 0 };
    const prepared = await prepareLife(this.#machinery, {
      vault,
      size,
      from: snapshotId,
      identity,
      check,
      spare: true,
    });
    const { life } = prepared;
    try {
      await prepared.thaw();
      const guest = await life.guest();
      await runInTurn(guest, WARM_UP, { chance, signal });
      check();
      await guest.freeze(FREEZE_TIMEOUT_MS);
      await life.vm.stop();
      check();
    } catch (error) {
      await prepared.discard('it could not be warmed up');
      throw error;
    }
    kind.failures = 0;
    this.#counts.fills++;
    this.#counts.fillMs += clock.monotonicMs() - startedAtMs;
    this.#add({ kind, life, isDoomed: false });
  }

  #add(member: Member): void {
    this.#members.add(member);
    void member.life.vm.ended.then(() => {
      if (this.#members.has(member)) void this.#inTurn(() => this.#giveUp(member)).then(() => this.#waken());
    });
  }

  #holdOff(kind: Kind): void {
    kind.failures++;
    kind.failedAtMs = this.#clock.monotonicMs();
  }
}
