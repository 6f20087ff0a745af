/** What was opened, to be closed in reverse. */
export class Closers {
  readonly #closers: (() => Promise<unknown>)[] = [];

  add<T>(value: T, close: (value: T) => Promise<unknown>): T {
    this.#closers.unshift(() => close(value));
    return value;
  }

  /** Each once, whatever the others do; throws the first failure at the end. */
  async closeAll(): Promise<void> {
    const failures: unknown[] = [];
    for (const close of this.#closers.splice(0)) await close().catch((error: unknown) => failures.push(error));
    if (failures.length > 0) throw failures[0];
  }
}
