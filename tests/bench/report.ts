/** The report: on what machine, what was measured, and how ours compares with the baseline of the same run. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { type Result, type Samples, summarise } from './samples.ts';

/** In the order of the report. What else was measured follows. */
const NAMES = [
  'create.pool',
  'create.pool.first_command',
  'create.clone',
  'create.clone.first_command',
  'exec',
  'ping',
  'snapshot.stopped',
  'snapshot.guest_stall',
  'snapshot.total',
  'pause',
  'resume.running',
  'resume.first_command',
  'fork.1',
  'fork.10',
  'rewind',
  'memory.idle',
] as const;

/** Baseline ÷ ours, of the medians; each from the same beginning to the same end. */
const RATIOS = {
  pause: ['baseline.pause', 'pause'],
  resume: ['baseline.resume.running', 'resume.running'],
  snapshot: ['baseline.snapshot', 'snapshot.total'],
  fork: ['baseline.fork.running', 'fork.running'],
  rewind: ['baseline.rewind', 'rewind.running'],
} as const;

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryMib: number;
  readonly kernel: string;
  readonly load: { readonly before: number; readonly after: number };
  readonly vmm: string;
  readonly node: string;
  readonly commit: string;
  readonly guest: string;
  readonly date: string;
  readonly durationS: number;
}

/** On what it was measured. */
interface Ground {
  readonly machine: Machine;
  readonly accelerator: string;
  /** What ours and the baseline's files lie in. */
  readonly vaults: 'encrypted' | 'plain';
}

export interface Report extends Ground {
  readonly results: readonly Result[];
  readonly ratios: Readonly<Record<keyof typeof RATIOS, number | null>>;
  /** Calls that failed, and so are no samples. */
  readonly failures: readonly string[];
}

/** What is known of the machine before the first measurement. */
export function startOfReport() {
  const startedAt = performance.now();
  const before = load();
  return (vmm: string, guest: string): Machine => ({
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryMib: Math.round(totalmem() / 2 ** 20),
    kernel: release(),
    load: { before, after: load() },
    vmm,
    node: process.version,
    commit: commit(),
    guest,
    date: new Date().toISOString(),
    durationS: Math.round((performance.now() - startedAt) / 1000),
  });
}

export function reportOf(ground: Ground, samples: Samples, failures: readonly string[]): Report {
  const others = samples.names().filter((name) => !NAMES.some((known) => known === name));
  const results = [...NAMES, ...others].map((name) => summarise(name, samples.of(name)));
  const median = (name: string) => results.find((result) => result.name === name)?.p50 ?? null;
  const ratios = Object.fromEntries(
    Object.entries(RATIOS).map(([verb, [baseline, ours]]) => [verb, ratio(median(baseline), median(ours))]),
  ) as Report['ratios'];
  return { ...ground, results, ratios, failures };
}

function ratio(baseline: number | null, ours: number | null): number | null {
  return baseline === null || ours === null ? null : Number((baseline / ours).toFixed(2));
}

export function textOf({ machine, accelerator, vaults, results, ratios, failures }: Report): string {
  const cell = (value: number | null) => (value === null ? '–' : value.toFixed(1)).padStart(10);
  const rows = results.map(
    ({ name, unit, n, p50, p95, p99 }) =>
      `${name.padEnd(30)}${unit}${String(n).padStart(6)}${cell(p50)}${cell(p95)}${cell(p99)}`,
  );
  return [
    `${machine.cores} × ${machine.cpu}, ${machine.memoryMib} MiB, Linux ${machine.kernel}; ${accelerator}, QEMU ${machine.vmm}`,
    `load ${machine.load.before} before, ${machine.load.after} after; commit ${machine.commit}; Node ${machine.node}`,
    `guest: ${machine.guest}; vaults ${vaults}; ${machine.durationS} s in all`,
    '',
    `${'name'.padEnd(30)}  ${'n'.padStart(6)}${'p50'.padStart(10)}${'p95'.padStart(10)}${'p99'.padStart(10)}`,
    ...rows,
    '',
    `baseline ÷ ours: ${Object.entries(ratios)
      .map(([verb, value]) => `${verb} ${value ?? '–'}`)
      .join(', ')}`,
    ...failures.map((failure) => `failed: ${failure}`),
  ].join('\n');
}

function load(): number {
  return Number((loadavg()[0] ?? 0).toFixed(2));
}

/** With a mark when the tree is not as it was committed. */
function commit(): string {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty', '--abbrev=12'], { encoding: 'utf8' }).trim();
  } catch {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
      version: string;
    };
    return `unknown, version ${version}`;
  }
}
