/** Runs schedules by hand: `node tests/simulation/main.ts FIRST_SEED [COUNT]`; of one alone, every step is told. */
import { runSchedule } from './schedule.ts';

const [first = '1', count] = process.argv.slice(2);
const started = performance.now();
let failed = 0;
for (let seed = Number(first); seed < Number(first) + Number(count ?? 1); seed++) {
  const report = await runSchedule(seed, { traced: count === undefined });
  if (count === undefined) console.log(report.trace.join('\n'));
  if (count === undefined || report.violation !== null) {
    console.log(
      `seed ${seed}: ${report.steps} steps, ${report.faults} faults, ${report.digest}: ${report.violation?.stack ?? 'well'}`,
    );
  }
  if (report.violation !== null) failed += 1;
}
console.log(`${failed} failed, in ${Math.round(performance.now() - started)} ms`);
