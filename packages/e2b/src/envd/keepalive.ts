/** Signs of life in a stream that says nothing for a while, so that nothing on the way takes it for dead. */

export const KEEPALIVE = Symbol('keepalive');

const DEFAULT_SECONDS = 90;
/** A client that asks for none, or for one all the time, gets what is sane. */
const MIN_SECONDS = 1;
const MAX_SECONDS = 300;

/** What the header asks for. */
export function keepaliveMsOf(header: string | null): number {
  const seconds = /^[0-9]{1,6}$/.test(header ?? '') ? Number(header) : DEFAULT_SECONDS;
  return Math.min(Math.max(seconds, MIN_SECONDS), MAX_SECONDS) * 1000;
}

/** The items, one asked for at a time, and `KEEPALIVE` whenever none has come for so long. */
export async function* withKeepalive<T>(
  items: AsyncIterable<T>,
  everyMs: number,
): AsyncGenerator<T | typeof KEEPALIVE, void> {
  const iterator = items[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = iterator.next();
      const arrival = new Arrival(next);
      while (!(await arrival.within(everyMs))) yield KEEPALIVE;
      const item = await next;
      if (item.done) return;
      yield item.value;
    }
  } finally {
    await iterator.return?.();
  }
}

/** Of one promise, that is waited for again and again: whoever races it each time leaves something at it each time. */
class Arrival {
  #isThere = false;
  #wake: () => void = () => undefined;

  /** Whoever leaves while nothing has come does not see how it ends. */
  constructor(promise: Promise<unknown>) {
    const arrived = () => {
      this.#isThere = true;
      this.#wake();
    };
    promise.then(arrived, arrived);
  }

  async within(waitMs: number): Promise<boolean> {
    if (this.#isThere) return true;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, waitMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    return this.#isThere;
  }
}
