/**
 * A bound on slow work. Flushes, commits and deletions each hold a thread of libuv's pool (four by default) for as long as
 * the disk takes. Were they to hold all of them, a capture would queue behind them while its VM stands still. So only
 * `width` run at once, over all vaults of the process, and the rest wait here without a thread.
 */
export class Lane {
  readonly #width: number;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(width: number) {
    this.#width = width;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#width) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running += 1;
    try {
      return await work();
    } finally {
      // The place is handed over, not freed, so that nobody slips in between.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running -= 1;
    }
  }
}

/** Two of the four threads stay free for captures and everything else. */
export const SLOW_LANE = new Lane(2);
