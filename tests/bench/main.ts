/**
 * The benchmark: what each verb costs on this machine, on a platform of its own, one thing at a time.
 *
 *   npm run bench -- [--json FILE] [--rounds N]
 *
 * Times are in milliseconds. A p95 is stated from 100 rounds on, a p99 from 1,000 on. The machine is named in the header:
 * numbers of different machines, or of a busy and a quiet one, do not compare.
 */
import { writeFile } from 'node:fs/promises';
import { cpus, loadavg, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { measure } from './measure.ts';
import { summarise } from './summary.ts';

const { values } = parseArgs({ options: { json: { type: 'string' }, rounds: { type: 'string', default: '100' } } });
const rounds = Number(values.rounds);
if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds must be a whole number of at least 1');

const loadBefore = loadavg()[0] ?? 0;
const { accelerator, vmm, samples } = await measure(rounds, (text) => console.error(text));
const report = {
  machine: {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryMib: Math.round(totalmem() / 2 ** 20),
    loadBefore: Number(loadBefore.toFixed(2)),
    vmm,
    date: new Date().toISOString(),
  },
  accelerator,
  results: [...samples].map(([name, times]) => ({ name, unit: 'ms', ...summarise(times) })),
};

const { machine } = report;
console.log(
  `\n${machine.cores} × ${machine.cpu}, ${machine.memoryMib} MiB, load ${machine.loadBefore} before, ${accelerator}, QEMU ${vmm}\n`,
);
console.log(`${'name'.padEnd(24)}${'n'.padStart(6)}${'p50'.padStart(10)}${'p95'.padStart(10)}${'p99'.padStart(10)}`);
for (const { name, n, p50, p95, p99 } of report.results) {
  const cell = (value: number | null) => (value === null ? '–' : value.toFixed(1)).padStart(10);
  console.log(`${name.padEnd(24)}${String(n).padStart(6)}${cell(p50)}${cell(p95)}${cell(p99)}`);
}
if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(report, null, 2)}\n`);
