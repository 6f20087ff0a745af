/**
 * Runs everything that must hold, and ends with one plain line: `N passed, N failed, N skipped`.
 *
 * Usage: run.ts [--full] [stage…]   stages: check, rust, unit, machine (default: all, in this order)
 * `--full` runs the long matrices too. The exit code is 0 only if nothing failed and something passed.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

const ROOT = new URL('..', import.meta.url).pathname;
const BIN = join(ROOT, 'node_modules/.bin');

const CRATES = ['guest/agent', 'packages/adapters/root-helper/program', 'packages/adapters/root-helper/vault-server'];
const JAIL = 'packages/adapters/runtime-qemu/jail';
const FULL = process.argv.includes('--full');

const STAGES: Readonly<Record<string, () => Promise<Counts>>> = {
  check: async () =>
    sum([await command('biome', ['check', '.']), await command('tsc', ['-p', '.']), await command('knip', [])]),
  rust: async () => {
    const counts: Counts[] = [];
    for (const crate of CRATES) counts.push(await command('cargo', ['fmt', '--check'], crate), await cargoTests(crate));
    if (FULL) for (const crate of [...CRATES, JAIL]) counts.push(await oldestRust(crate));
    return sum(counts);
  },
  unit: () => vitest('unit'),
  machine: () => vitest('machine'),
};

const args = process.argv.slice(2);
if (FULL) process.env['SPACE_FULL'] = '1';
const asked = args.filter((arg) => !arg.startsWith('--'));
const unknown = asked.filter((name) => STAGES[name] === undefined);
if (unknown.length > 0) {
  console.error(`There is no stage "${unknown.join(', ')}". Stages: ${Object.keys(STAGES).join(', ')}.`);
  process.exit(2);
}

const results: Counts[] = [];
for (const [name, stage] of Object.entries(STAGES)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  const startedAt = Date.now();
  console.log(`\n== ${name} ==`);
  results.push(await stage());
  console.log(`== ${name}: ${Math.round((Date.now() - startedAt) / 1000)} s ==`);
}
const total = sum(results);
console.log(`\n${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exit(total.failed === 0 && total.passed > 0 ? 0 : 1);

/** A program whose success is one test. */
async function command(program: string, args: string[], folder = '.'): Promise<Counts> {
  const { code } = await run(program, args, folder);
  console.log(`${code === 0 ? 'ok' : 'FAILED'}: ${program} ${args.join(' ')}`);
  return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, skipped: 0 };
}

async function vitest(project: string): Promise<Counts> {
  const folder = mkdtempSync(join(tmpdir(), 'space-test-'));
  const report = join(folder, 'report.json');
  try {
    const { code } = await run('vitest', [
      'run',
      '--project',
      project,
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
    ]);
    const found = JSON.parse(readFileSync(report, 'utf8')) as {
      numPassedTests: number;
      numFailedTests: number;
      numPendingTests: number;
      numTodoTests: number;
      testResults: { status: string; assertionResults: unknown[] }[];
    };
    // A file that could not be loaded has no test to count, and an error outside of any test fails the run alone.
    const unloaded = found.testResults.filter(
      (file) => file.status === 'failed' && file.assertionResults.length === 0,
    ).length;
    const failed = found.numFailedTests + unloaded;
    return {
      passed: found.numPassedTests,
      failed: failed === 0 && code !== 0 ? 1 : failed,
      skipped: found.numPendingTests + found.numTodoTests,
    };
  } catch (error) {
    console.error(`No report of the tests: ${error instanceof Error ? error.message : String(error)}`);
    return { passed: 0, failed: 1, skipped: 0 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function cargoTests(crate: string): Promise<Counts> {
  const { code, output } = await run('cargo', ['test', '--release', '--locked'], crate);
  const results = [...output.matchAll(/^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored/gm)];
  const counts = sum(
    results.map(([, passed, failed, ignored]) => ({
      passed: Number(passed),
      failed: Number(failed),
      skipped: Number(ignored),
    })),
  );
  return code !== 0 && counts.failed === 0 ? { ...counts, failed: 1 } : counts;
}

/** Nothing is used that the oldest Rust, which is Debian 13's, does not have. */
async function oldestRust(crate: string): Promise<Counts> {
  const { code } = await run('cargo', ['clippy', '--version'], crate);
  if (code === 0)
    return command(
      'cargo',
      ['clippy', '--locked', '--', '-A', 'clippy::all', '-D', 'clippy::incompatible_msrv'],
      crate,
    );
  console.log(`skipped: whether ${crate} fits the oldest Rust. There is no cargo clippy.`);
  return { passed: 0, failed: 0, skipped: 1 };
}

/** Runs a program of the project or of the PATH, showing its output and keeping it. */
function run(program: string, args: string[], folder = '.'): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      cwd: join(ROOT, folder),
      env: { ...process.env, PATH: `${BIN}:${process.env['PATH']}:${process.env['HOME']}/.cargo/bin` },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const [stream, target] of [
      [child.stdout, process.stdout],
      [child.stderr, process.stderr],
    ] as const) {
      stream.on('data', (chunk: Buffer) => {
        output += chunk.toString();
        target.write(chunk);
      });
    }
    child.on('error', (error) => resolve({ code: 127, output: error.message }));
    child.on('close', (code) => resolve({ code: code ?? 1, output }));
  });
}

function sum(all: readonly Counts[]): Counts {
  return all.reduce(
    (a, b) => ({ passed: a.passed + b.passed, failed: a.failed + b.failed, skipped: a.skipped + b.skipped }),
    { passed: 0, failed: 0, skipped: 0 },
  );
}
