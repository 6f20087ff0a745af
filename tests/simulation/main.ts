/**
 * Runs schedules by hand: `node tests/simulation/main.ts FIRST_SEED [COUNT]`, those of moves with `moves` before; of one alone, every
 * step is told.
 */
import { runMoves } from './moving.ts';
import { runSchedule } from './schedule.ts';

const [, , ...given] = process.argv;
const run = given[0] === 'moves' ? runMoves : runSchedule;
const [first = '1', count] = given.filter((word) => word !== 'moves');
const started = performance.now();
let failed = 0;
for (let seed = Number(first); seed < Number(first) + Number(count ?? 1); seed++) {
  const report = await run(seed, { traced: count === undefined });
  if (count === undefined) console.log(report.trace.join('\n'));
  if (count === undefined || report.violation !== null) {
    console.log(
      `seed ${seed}: ${report.steps} steps, ${report.faults} faults, ${report.digest}: ${report.violation?.stack ?? 'well'}`,
    );
  }
  if (report.violation !== null) failed += 1;
}
console.log(`${failed} failed, in ${Math.round(performance.now() - started)} ms`);
