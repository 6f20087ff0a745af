/**
 * The benchmark: what each verb costs on this machine, on an installation of its own, one thing at a time; and beside it,
 * in the same run, what one would do with QEMU alone (`baseline.ts`).
 *
 *   npm run bench -- [--json FILE] [--vaults encrypted|plain] [--minutes N] [--full]
 *
 * A round measures each verb once, so that a disturbance meets all of them. It ends after 100 rounds (`--full`: 1,000), or
 * when the time is over: a default run takes less than ten minutes. A p95 is stated from 100 samples on, a p99 from 1,000.
 * Vaults are encrypted, as those of a new installation, unless it is told otherwise; the baseline's files lie in the same one.
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { Baseline } from './baseline.ts';
import { startInstallation } from './installation.ts';
import {
  answerRound,
  createRound,
  discardingRewindRound,
  forkRound,
  HOLD_WORKING_SET,
  idleRound,
  manyForksRound,
  type Ours,
  pauseRound,
  rewindRound,
  snapshotRound,
  stallRound,
  WAIT_FOR_WORKING_SET,
  WORKING_SET_MIB,
} from './ours.ts';
import { reportOf, startOfReport, textOf } from './report.ts';
import { Samples } from './samples.ts';

const { values } = parseArgs({
  options: {
    json: { type: 'string' },
    vaults: { type: 'string', default: 'encrypted' },
    minutes: { type: 'string', default: '9' },
    full: { type: 'boolean', default: false },
  },
});
const { vaults } = values;
if (vaults !== 'encrypted' && vaults !== 'plain') throw new Error('Give --vaults encrypted or --vaults plain.');
if (!(Number(values.minutes) > 0)) throw new Error('Give --minutes as a number.');

const ROUNDS = values.full ? 1000 : 100;
const TIME_LIMIT_MS = values.full ? Number.POSITIVE_INFINITY : Number(values.minutes) * 60_000;
const ANSWERS_PER_ROUND = 5;
/** One in so many rounds has what takes longer, or long. */
const SOMETIMES = 5;
const SELDOM = 10;
const IDLE_COUNT = 10;
const MAX_FAILURES = 10;

const machineAtEnd = startOfReport();
const startedAt = performance.now();
const samples = new Samples();
const say = (text: string) => console.error(text);

await using installation = await startInstallation({ vaults });
say('building the ready snapshot');
const sandbox = await installation.create();
await sandbox.start(HOLD_WORKING_SET);
await sandbox.run(WAIT_FOR_WORKING_SET);
const ours: Ours = { installation, samples, sandbox };
const { accelerator, vmmVersion } = await installation.capabilities();
const { size } = sandbox.fields;
say('booting the plain VMs');
await using baseline = await Baseline.start(samples, await installation.vaultFolder(), size, accelerator.name);
await idleRound(ours, IDLE_COUNT);

const failures: string[] = [];

/** A call that fails is no sample, and is told in the report. */
async function attempt(round: () => Promise<void>): Promise<void> {
  try {
    await round();
  } catch (thrown) {
    failures.push(String(thrown));
    say(String(thrown));
    if (failures.length > MAX_FAILURES) throw thrown;
  }
}

for (let round = 0; round < ROUNDS; round++) {
  if (performance.now() - startedAt > TIME_LIMIT_MS) {
    say(`the time is over after ${round} rounds`);
    break;
  }
  if (round % SELDOM === 0) say(`round ${round} of ${ROUNDS}`);
  await answerRound(ours, ANSWERS_PER_ROUND);
  await snapshotRound(ours);
  await pauseRound(ours);
  await forkRound(ours);
  await rewindRound(ours);
  if (round % SOMETIMES === 0) {
    await discardingRewindRound(ours);
    await createRound(ours);
    await baseline.round();
  }
  if (round % SELDOM === 0) await attempt(() => stallRound(ours, SELDOM));
  if (round % SELDOM === 0) await attempt(() => manyForksRound(ours));
}
await sandbox.delete();

const guest = `${size.vcpus} vCPU, ${size.memoryMib} MiB, ${WORKING_SET_MIB} MiB of them held by a program, template base`;
const report = reportOf(
  { machine: machineAtEnd(vmmVersion, guest), accelerator: accelerator.name, vaults },
  samples,
  failures,
);
console.log(`\n${textOf(report)}`);
if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(report, null, 2)}\n`);
