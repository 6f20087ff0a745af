/** What the demo says: each step with its time, each claim with its proof. A false claim ends the demo. */
interface Row {
  readonly step: string;
  readonly ms: number;
}

export class Narrator {
  readonly #rows: Row[] = [];

  /** Times an action and shows it as a row of the closing table. */
  async step<T>(step: string, action: () => Promise<T>): Promise<T> {
    console.log(`\n▸ ${step}`);
    const startedAt = performance.now();
    const result = await action();
    const ms = performance.now() - startedAt;
    this.#rows.push({ step, ms });
    return result;
  }

  /** A claim that was checked; throws when it is false. */
  claim(text: string, isTrue: boolean, seen?: unknown): void {
    const shown = seen === undefined ? '' : `  (${String(seen)})`;
    if (!isTrue) throw new Error(`This claim is false: ${text}${shown}`);
    console.log(`  ✓ ${text}${shown}`);
  }

  note(text: string): void {
    console.log(`  · ${text}`);
  }

  failed(error: unknown): void {
    console.error(`\n✗ ${error instanceof Error ? error.message : String(error)}`);
    for (let cause = error instanceof Error ? error.cause : undefined; cause instanceof Error; cause = cause.cause) {
      console.error(`  because: ${cause.message}`);
    }
  }

  table(): void {
    const width = Math.max(...this.#rows.map(({ step }) => step.length));
    console.log(`\n${'step'.padEnd(width)}         time`);
    for (const { step, ms } of this.#rows) {
      const time = ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s `;
      console.log(`${step.padEnd(width)}  ${time.padStart(11)}`);
    }
  }
}
