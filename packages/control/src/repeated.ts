/** Work that is done again and again while the process lives. A round that is not over yet is the next one, too. */
export class Repeated {
  readonly #everyMs: number;
  readonly #work: () => Promise<void>;
  readonly #onFailure: (err: unknown) => void;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | null = null;

  constructor(everyMs: number, work: () => Promise<void>, onFailure: (err: unknown) => void) {
    this.#everyMs = everyMs;
    this.#work = work;
    this.#onFailure = onFailure;
  }

  start(): void {
    this.#timer ??= setInterval(() => {
      this.#round ??= this.#work()
        .catch(this.#onFailure)
        .finally(() => {
          this.#round = null;
        });
    }, this.#everyMs).unref();
  }

  /** Begins no other round; returns when the last has ended. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#round;
  }
}
