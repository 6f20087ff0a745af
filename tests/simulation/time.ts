/**
 * Time that goes on only when something is to happen: a queue of events, each of which runs when all that the one before
 * has set off has come to rest. While it runs, the timers and clocks of the process are those of the queue, so that code
 * which sleeps for minutes takes no time, and the order of everything follows from the events alone.
 */
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';

interface Event {
  readonly atMs: number;
  readonly order: number;
  run: (() => void) | null;
}

/** 2026-01-01: what the clock on the wall says at the beginning. */
const EPOCH_MS = 1_767_225_600_000;
const REAL_IMMEDIATE = setImmediate;

export class VirtualTime {
  nowMs = 0;
  /** Events that have happened. */
  count = 0;
  readonly #heap: Event[] = [];
  #order = 0;

  wallMs(): number {
    return EPOCH_MS + Math.floor(this.nowMs);
  }

  after(delayMs: number, run: () => void): Event {
    const event = { atMs: this.nowMs + Math.max(0, delayMs), order: this.#order++, run };
    push(this.#heap, event);
    return event;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  /** Runs the work to its end. Throws when nothing is left to happen before that, or it takes too long. */
  async run<T>(work: () => Promise<T>, limitMs: number): Promise<T> {
    const restore = this.#install();
    try {
      let end: { readonly value: T } | { readonly thrown: unknown } | undefined;
      work().then(
        (value) => {
          end = { value };
        },
        (thrown: unknown) => {
          end = { thrown };
        },
      );
      for (;;) {
        await rest();
        if (end !== undefined) break;
        this.#next(limitMs);
      }
      if ('thrown' in end) throw end.thrown;
      return end.value;
    } finally {
      restore();
    }
  }

  #next(limitMs: number): void {
    const event = pop(this.#heap);
    if (event === undefined) throw new Error('nothing is left to happen, and the work has not ended');
    if (event.run === null) return;
    if (event.atMs > limitMs) throw new Error(`the work has not ended after ${limitMs} ms`);
    this.nowMs = event.atMs;
    this.count += 1;
    event.run();
  }

  #install(): () => void {
    const real = { setTimeout, clearTimeout, setInterval, clearInterval };
    const { now } = Date;
    const monotonic = performance.now;
    const sleep = timers.setTimeout;
    const start =
      (everyMs: number | null) =>
      (run: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) =>
        new VirtualTimer(this, () => run(...args), ms ?? 0, everyMs);
    const stop = (timer: unknown) => {
      if (timer instanceof VirtualTimer) timer.close();
    };
    Object.assign(globalThis, {
      setTimeout: start(null),
      clearTimeout: stop,
      setInterval: (run: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) =>
        start(ms ?? 0)(run, ms, ...args),
      clearInterval: stop,
    });
    Date.now = () => this.wallMs();
    performance.now = () => this.nowMs;
    timers.setTimeout = ((ms: number, value: unknown, options: { readonly signal?: AbortSignal } = {}) =>
      this.#abortable(ms, value, options.signal)) as typeof sleep;
    syncBuiltinESMExports();
    return () => {
      Object.assign(globalThis, real);
      Date.now = now;
      performance.now = monotonic;
      timers.setTimeout = sleep;
      syncBuiltinESMExports();
    };
  }

  #abortable(ms: number, value: unknown, signal: AbortSignal | undefined): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const aborted = () => reject(new DOMException('The operation was aborted', 'AbortError'));
      if (signal?.aborted) return aborted();
      const event = this.after(ms, () => {
        signal?.removeEventListener('abort', onAbort);
        resolve(value);
      });
      const onAbort = (): void => {
        event.run = null;
        aborted();
      };
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }
}

/** What stands in for a timer of Node. */
class VirtualTimer {
  readonly #time: VirtualTime;
  readonly #run: () => void;
  readonly #ms: number;
  readonly #everyMs: number | null;
  #event: Event;

  constructor(time: VirtualTime, run: () => void, ms: number, everyMs: number | null) {
    this.#time = time;
    this.#run = run;
    this.#ms = ms;
    this.#everyMs = everyMs;
    this.#event = this.#start(ms);
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  refresh(): this {
    this.#event.run = null;
    this.#event = this.#start(this.#ms);
    return this;
  }

  close(): void {
    this.#event.run = null;
  }

  #start(ms: number): Event {
    return this.#time.after(ms, () => {
      // First, so that the callback can stop it.
      if (this.#everyMs !== null) this.#event = this.#start(this.#everyMs);
      this.#run();
    });
  }
}

/** Returns when every promise and tick that could go on has done so. */
function rest(): Promise<void> {
  return new Promise((resolve) => REAL_IMMEDIATE(resolve));
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

function push(heap: Event[], event: Event): void {
  let at = heap.length;
  heap.push(event);
  while (at > 0) {
    const parent = (at - 1) >> 1;
    const above = heap[parent];
    if (above === undefined || isBefore(above, event)) break;
    heap[at] = above;
    at = parent;
  }
  heap[at] = event;
}

function pop(heap: Event[]): Event | undefined {
  const first = heap[0];
  const last = heap.pop();
  if (first === undefined || last === undefined || heap.length === 0) return first;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    const [left, right] = [heap[child], heap[child + 1]];
    if (left !== undefined && right !== undefined && isBefore(right, left)) child += 1;
    const least = heap[child];
    if (least === undefined || isBefore(last, least)) break;
    heap[at] = least;
    at = child;
  }
  heap[at] = last;
  return first;
}
