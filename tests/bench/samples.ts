/** Samples by name, and their percentiles, stated only where there are enough samples to mean something. */
const SAMPLES_FOR_P95 = 100;
const SAMPLES_FOR_P99 = 1000;

type Unit = 'ms' | 'MiB' | '/s';

export interface Result {
  readonly name: string;
  readonly unit: Unit;
  readonly n: number;
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
  /** Why a percentile is null. */
  readonly missing?: string;
}

export class Samples {
  readonly #values = new Map<string, number[]>();

  add(name: string, value: number): void {
    const values = this.#values.get(name);
    if (values === undefined) this.#values.set(name, [value]);
    else values.push(value);
  }

  async timed<T>(name: string, action: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    const result = await action();
    this.add(name, performance.now() - startedAt);
    return result;
  }

  names(): readonly string[] {
    return [...this.#values.keys()];
  }

  of(name: string): readonly number[] {
    return this.#values.get(name) ?? [];
  }
}

/** `absent` says why there is nothing, where that is known. */
export function summarise(name: string, values: readonly number[], absent = 'it was not measured'): Result {
  const n = values.length;
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number, needed: number): number | null => {
    const value = sorted[Math.min(n - 1, Math.ceil(share * n) - 1)];
    return value === undefined || n < needed ? null : Number(value.toFixed(2));
  };
  const missing = whyMissing(n, absent);
  return {
    name,
    unit: unitOf(name),
    n,
    p50: at(0.5, 1),
    p95: at(0.95, SAMPLES_FOR_P95),
    p99: at(0.99, SAMPLES_FOR_P99),
    ...(missing === undefined ? {} : { missing }),
  };
}

function unitOf(name: string): Unit {
  if (name.startsWith('memory.')) return 'MiB';
  return name.startsWith('rate.') ? '/s' : 'ms';
}

function whyMissing(n: number, absent: string): string | undefined {
  if (n === 0) return absent;
  if (n < SAMPLES_FOR_P95) return `a p95 needs ${SAMPLES_FOR_P95} samples, a p99 ${SAMPLES_FOR_P99}`;
  return n < SAMPLES_FOR_P99 ? `a p99 needs ${SAMPLES_FOR_P99} samples` : undefined;
}
