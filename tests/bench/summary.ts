/** Percentiles, stated only where there are enough samples to mean something. */
export interface Summary {
  readonly n: number;
  readonly p50: number;
  readonly p95: number | null;
  readonly p99: number | null;
}

export function summarise(times: readonly number[]): Summary {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
  const rounded = (value: number) => Number(value.toFixed(2));
  return {
    n: sorted.length,
    p50: rounded(at(0.5)),
    p95: sorted.length >= 100 ? rounded(at(0.95)) : null,
    p99: sorted.length >= 1000 ? rounded(at(0.99)) : null,
  };
}
