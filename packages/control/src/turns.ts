/** Waiting, with bounds: one at a time per key, a few at once, a promise within a time. */
import { setTimeout as sleep } from 'node:timers/promises';

/** Runs steps under one key in the order in which they came, one at a time. */
export class Turns<Key> {
  readonly #tails = new Map<Key, Promise<unknown>>();

  async take<T>(key: Key, step: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve();
    const turn = before.then(step);
    const tail = turn.catch(() => undefined);
    this.#tails.set(key, tail);
    try {
      return await turn;
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    }
  }
}

/** Runs at most so many steps at once, in the order in which they came. */
export class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async take<T>(step: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await step();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}

/** Does all of it, whatever fails; throws what failed first at the end. */
export async function eachInTurn(steps: readonly (() => Promise<unknown>)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) await step().catch((thrown: unknown) => failures.push(thrown));
  if (failures.length > 0) throw failures[0];
}

/** Whether the promise settled, in whatever way, within the time. The signal's reason is thrown when it aborts. */
export async function settledWithin(promise: Promise<unknown>, ms: number, signal?: AbortSignal): Promise<boolean> {
  signal?.throwIfAborted();
  const stop = new AbortController();
  const both = signal === undefined ? stop.signal : AbortSignal.any([stop.signal, signal]);
  const settled = promise.then(
    () => true,
    () => true,
  );
  const late = sleep(Math.max(0, ms), false, { signal: both }).catch(() => false);
  const inTime = await Promise.race([settled, late]);
  stop.abort();
  if (!inTime) signal?.throwIfAborted();
  return inTime;
}

/** The results in order, with at most `parallel` under way. `work` must not throw. */
export async function mapInParallel<T, R>(
  items: readonly T[],
  parallel: number,
  work: (item: T) => Promise<R>,
): Promise<readonly R[]> {
  const results: R[] = new Array(items.length);
  const queue = items.entries();
  const worker = async () => {
    for (const [index, item] of queue) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(parallel, items.length) }, worker));
  return results;
}
