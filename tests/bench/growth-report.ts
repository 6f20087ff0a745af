/** What `growth.ts` writes and `plots.ts` draws. */
import type { Machine } from './report.ts';
import type { Result } from './samples.ts';

/** What was measured at one value of what varies. */
export interface Point {
  readonly x: number | string;
  readonly results: readonly Result[];
}

export interface Series {
  /** What `x` is, with its unit. */
  readonly varies: string;
  readonly points: readonly Point[];
}

export interface GrowthReport {
  readonly machine: Machine;
  readonly accelerator: string;
  readonly series: Readonly<Record<string, Series>>;
}
