/**
 * Proves the way out of sandboxes on an installation, from within a real one: cases that are tried there, and what must be seen of
 * each. It speaks to the installation as any user does, by the SDK.
 */
export { EGRESS_CASES } from './cases/cases.ts';
export type { Heard, Places } from './places.ts';
export { countOf, failed, lineOf, summaryOf } from './report.ts';
export { type Outcome, type RunOptions, runCases } from './run.ts';
