/** Faults on request: fakes announce each step before they take it, and a test can make the next one fail or wait. */
export class Faults {
  readonly #next = new Map<string, (() => Promise<void>)[]>();
  /** Every step announced so far, in order. */
  readonly steps: string[] = [];

  /** Announces a step; called by fakes. */
  async at(step: string): Promise<void> {
    this.steps.push(step);
    await this.#next.get(step)?.shift()?.();
  }

  /** The next occurrence of the step throws. */
  failNext(step: string, error: Error = new Error(`injected fault at ${step}`)): void {
    this.#plan(step, () => Promise.reject(error));
  }

  /** The next occurrence of the step waits until the returned function is called; `reached` settles when it is there. */
  holdNext(step: string): { readonly reached: Promise<void>; readonly letGo: () => void } {
    const reached = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    this.#plan(step, () => {
      reached.resolve();
      return released.promise;
    });
    return { reached: reached.promise, letGo: released.resolve };
  }

  /** Nothing more of what was planned for the step happens. */
  clear(step: string): void {
    this.#next.delete(step);
  }

  #plan(step: string, action: () => Promise<void>): void {
    this.#next.set(step, [...(this.#next.get(step) ?? []), action]);
  }
}
