/** How outcomes are said to people. */
import type { Outcome } from './run.ts';

const WORDS: Readonly<Record<Outcome['outcome'], string>> = { ok: 'ok', miss: 'MISS', 'not run': 'not run' };

export function lineOf({ outcome, topic, name, why }: Outcome): string {
  return `${WORDS[outcome].padEnd(8)}${topic}: ${name}${why === null ? '' : `  (${why})`}`;
}

export interface Count {
  readonly ok: number;
  readonly missed: number;
  readonly notRun: number;
}

export function countOf(outcomes: readonly Outcome[]): Count {
  const of = (wanted: Outcome['outcome']) => outcomes.filter(({ outcome }) => outcome === wanted).length;
  return { ok: of('ok'), missed: of('miss'), notRun: of('not run') };
}

export function summaryOf({ ok, missed, notRun }: Count): string {
  return `${ok} ok, ${missed} missed, ${notRun} not run`;
}

/** Also when nothing was proven. */
export function failed({ ok, missed }: Count): boolean {
  return missed > 0 || ok === 0;
}
