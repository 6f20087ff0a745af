/**
 * Lets sandboxes wake as memory and processors allow. A wake goes at once while few are under way and its memory is free.
 * Else it waits, for memory that others give back; the organisations take turns, so that who wakes many sandboxes holds up
 * nobody else. The queue is bounded in length and in time, and then the wake fails with `insufficient_memory`, typed and
 * retryable: the sandbox is paused as it was.
 *
 * While a wake waits for memory, what is new gets none: who was there first has it.
 */
import { AppError, type Clock, type NodePort, type OrganisationId, type SandboxId } from '@space/core';
import { FairQueue } from './fair-queue.ts';

/** Each takes a VMM's start, and a node has few processors. */
const PARALLEL_WAKES = 4;
/** Shorter than whoever asks for a sandbox waits for an operation on it. */
const WAIT_MS = 25_000;
const LOOK_EVERY_MS = 100;
const MAX_WAITING = 1_000;
/** So that one organisation cannot fill the queue for the others. */
const MAX_WAITING_OF_ONE = 200;

export interface Waker {
  readonly sandboxId: SandboxId;
  readonly memoryMib: number;
  /** Asked only when it has to wait. */
  readonly organisation: () => Promise<OrganisationId | null>;
}

interface Waiting {
  readonly waker: Waker;
  readonly admitted: PromiseWithResolvers<void>;
  readonly untilMs: number;
  /** Why it has not been admitted yet, if it was tried. */
  refusal: AppError | null;
}

export interface AdmissionOptions {
  readonly node: Pick<NodePort, 'reserveMemory' | 'releaseMemory'>;
  readonly clock: Clock;
  readonly waitMs?: number;
}

export class Admission {
  readonly #node: AdmissionOptions['node'];
  readonly #clock: Clock;
  readonly #waitMs: number;
  readonly #queue = new FairQueue<OrganisationId | null, Waiting>();
  #underWay = 0;
  #pumping = false;
  #timer: NodeJS.Timeout | undefined;

  constructor({ node, clock, waitMs = WAIT_MS }: AdmissionOptions) {
    this.#node = node;
    this.#clock = clock;
    this.#waitMs = waitMs;
  }

  get waiting(): number {
    return this.#queue.size;
  }

  /** Throws `insufficient_memory` while somebody waits for memory. */
  checkNobodyWaits(): void {
    if (this.#queue.size === 0) return;
    throw new AppError('insufficient_memory', {
      detail: `${this.#queue.size} sandboxes wait for memory to wake; what is new gets none before them.`,
      facts: { waiting: this.#queue.size },
    });
  }

  /** Starts it, now or when it is its turn. Throws what the start throws, and `insufficient_memory`. */
  async wake<T>(waker: Waker, start: () => Promise<T>): Promise<T> {
    if (this.#queue.size === 0 && this.#underWay < PARALLEL_WAKES) {
      try {
        return await this.#run(start);
      } catch (thrown) {
        if (!isShort(thrown)) throw thrown;
        await this.#turnOf(waker, thrown);
      }
    } else await this.#turnOf(waker, null);
    // Its place was taken for it as it was admitted.
    this.#underWay--;
    try {
      return await this.#run(start);
    } finally {
      // What it did not take up is free again.
      await this.#node.releaseMemory([waker.sandboxId]).catch(() => undefined);
      this.#pumpSoon(0);
    }
  }

  async #run<T>(start: () => Promise<T>): Promise<T> {
    this.#underWay++;
    try {
      return await start();
    } finally {
      this.#underWay--;
      if (this.#queue.size > 0) this.#pumpSoon(0);
    }
  }

  /** Returns when its memory is promised and its place is taken. */
  async #turnOf(waker: Waker, refusal: AppError | null): Promise<void> {
    const organisation = await waker.organisation();
    if (this.#queue.size >= MAX_WAITING || this.#queue.sizeOf(organisation) >= MAX_WAITING_OF_ONE) {
      throw new AppError('insufficient_memory', 'Too many sandboxes wait for memory to wake already.');
    }
    const untilMs = this.#clock.monotonicMs() + this.#waitMs;
    const waiting: Waiting = { waker, admitted: Promise.withResolvers<void>(), untilMs, refusal };
    this.#queue.add(organisation, waiting);
    this.#pumpSoon(refusal === null ? 0 : LOOK_EVERY_MS);
    await waiting.admitted.promise;
  }

  #pumpSoon(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#pump(), ms);
    this.#timer.unref();
  }

  async #pump(): Promise<void> {
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      this.#endLate();
      while (this.#underWay < PARALLEL_WAKES && (await this.#admitOne()));
    } finally {
      this.#pumping = false;
      if (this.#queue.size > 0) this.#pumpSoon(LOOK_EVERY_MS);
    }
  }

  async #admitOne(): Promise<boolean> {
    for (const waiting of this.#queue.candidates()) {
      const { sandboxId, memoryMib } = waiting.waker;
      try {
        await this.#node.reserveMemory([{ sandboxId, memoryMib }]);
      } catch (thrown) {
        if (isShort(thrown)) {
          waiting.refusal = thrown;
          continue;
        }
        this.#queue.remove(waiting);
        waiting.admitted.reject(thrown);
        return true;
      }
      this.#queue.take(waiting);
      this.#underWay++;
      waiting.admitted.resolve();
      return true;
    }
    return false;
  }

  #endLate(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const waiting of this.#queue.all()) {
      if (waiting.untilMs > nowMs) continue;
      this.#queue.remove(waiting);
      const detail = `The sandbox waited ${Math.round(this.#waitMs / 1000)} s to wake: there was no memory for it, or too many others woke.`;
      waiting.admitted.reject(
        new AppError('insufficient_memory', detail, waiting.refusal === null ? undefined : { cause: waiting.refusal }),
      );
    }
  }
}

function isShort(thrown: unknown): thrown is AppError {
  return thrown instanceof AppError && thrown.code === 'insufficient_memory';
}
