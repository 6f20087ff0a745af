/**
 * Where each millisecond of a verb goes: the steps that the platform tells of itself by its traces, over some calls of each.
 *
 *   npm run bench:profile -- [--rounds N] [--after N]
 *
 * It says when each step begins within the call, and how long it takes (medians, in milliseconds). `--after`: rounds that are not
 * counted, for what a sandbox costs that has many points. Traces cost a little themselves.
 */
import { parseArgs } from 'node:util';
import { startInstallation } from './installation.ts';
import {
  createRound,
  forkRound,
  HOLD_WORKING_SET,
  manyForksRound,
  pauseRound,
  rewindRound,
  snapshotRound,
  WAIT_FOR_WORKING_SET,
} from './ours.ts';
import { Samples } from './samples.ts';
import { SpanReceiver, type Step, stepsOf } from './spans.ts';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '15' }, after: { type: 'string', default: '0' } },
});
const [rounds, after] = [Number(values.rounds), Number(values.after)];
/** One in so many rounds has what takes longer. */
const SELDOM = 5;

await using receiver = await SpanReceiver.open();
let countedFrom = 0;
process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = receiver.url;
{
  await using installation = await startInstallation();
  const sandbox = await installation.create();
  await sandbox.start(HOLD_WORKING_SET);
  await sandbox.run(WAIT_FOR_WORKING_SET);
  const ours = { installation, samples: new Samples(), sandbox };
  for (let round = -after; round < rounds; round++) {
    console.error(round < 0 ? `${-round} before` : `round ${round} of ${rounds}`);
    if (round === 0) countedFrom = Date.now();
    await snapshotRound(ours);
    await pauseRound(ours);
    await forkRound(ours);
    await rewindRound(ours);
    await createRound(ours);
    if (round % SELDOM === 0) await manyForksRound(ours);
  }
}
const counted = receiver.spans.filter((span) => Number(span.startTimeUnixNano) / 1e6 >= countedFrom);
for (const [verb, steps] of stepsOf(counted)) {
  console.log(`\n${verb}\n${steps.map(lineOf).join('\n')}`);
}

function lineOf({ path, n, startMs, p50 }: Step): string {
  const name = `${'  '.repeat(path.length - 1)}${path.at(-1)}`;
  return `${name.padEnd(48)} n ${String(n).padStart(4)}  at ${startMs.toFixed(1).padStart(7)}  ${p50.toFixed(1).padStart(7)} ms`;
}
