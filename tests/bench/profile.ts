/**
 * Where each millisecond of a verb goes: the steps that the platform tells of itself by its traces, over some calls of each.
 *
 *   npm run bench:profile -- [--rounds N]
 *
 * It says when each step begins within the call, and how long it takes (medians, in milliseconds). Traces cost a little themselves.
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

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '15' } } });
const rounds = Number(values.rounds);
/** One in so many rounds has what takes longer. */
const SELDOM = 5;

await using receiver = await SpanReceiver.open();
process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = receiver.url;
{
  await using installation = await startInstallation();
  const sandbox = await installation.create();
  await sandbox.start(HOLD_WORKING_SET);
  await sandbox.run(WAIT_FOR_WORKING_SET);
  const ours = { installation, samples: new Samples(), sandbox };
  receiver.spans.length = 0;
  for (let round = 0; round < rounds; round++) {
    console.error(`round ${round} of ${rounds}`);
    await snapshotRound(ours);
    await pauseRound(ours);
    await forkRound(ours);
    await rewindRound(ours);
    await createRound(ours);
    if (round % SELDOM === 0) await manyForksRound(ours);
  }
}
for (const [verb, steps] of stepsOf(receiver.spans)) {
  console.log(`\n${verb}\n${steps.map(lineOf).join('\n')}`);
}

function lineOf({ path, n, startMs, p50 }: Step): string {
  const name = `${'  '.repeat(path.length - 1)}${path.at(-1)}`;
  return `${name.padEnd(48)} n ${String(n).padStart(4)}  at ${startMs.toFixed(1).padStart(7)}  ${p50.toFixed(1).padStart(7)} ms`;
}
