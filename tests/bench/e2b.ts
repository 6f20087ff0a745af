/**
 * What E2B's SDK, unmodified, adds to our own on the same machine: `npm run bench:e2b -- [rounds]`, as root. Both call one installation,
 * the SDK by its URLs, in turns and each first in every other round, so that a disturbance meets both. A round makes a sandbox and runs
 * a shell that does nothing: `commands.run('true')` of theirs is `bash -l -c true` of ours, as the same user. Nothing is taken from the pool.
 */
import { readFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import * as e2b from 'e2b';
import { startInstallation } from './installation.ts';
import { type Result, Samples, summarise } from './samples.ts';

const ROUNDS = Number(process.argv[2] ?? 60);
const WARM_UP = 3;
/** What the face may add, at the median. */
const AIMS_MS = { create: 15, command: 8 } as const;
const SHELL = ['/bin/bash', '-l', '-c', 'true'];

if (!(ROUNDS > 0)) throw new Error('Give the number of rounds.');
const load = async () => (await readFile('/proc/loadavg', 'utf8')).split(' ').slice(0, 3).join(' ');
const startLoad = await load();
const samples = new Samples();
await using installation = await startInstallation({ poolMib: 0 });
const { baseUrl, apiKey } = installation.connection;
const theirs = { apiUrl: baseUrl, sandboxUrl: baseUrl, apiKey };

const byUs = await installation.create();
const byThem = await e2b.Sandbox.create(theirs);
const ways = {
  create: {
    ours: async () => {
      const made = await samples.timed('create.ours', () => installation.create());
      await made.delete();
    },
    e2b: async () => {
      const made = await samples.timed('create.e2b', () => e2b.Sandbox.create(theirs));
      await made.kill();
    },
  },
  command: {
    ours: () => samples.timed('command.ours', () => byUs.run(SHELL, { user: 'user' })),
    e2b: () => samples.timed('command.e2b', () => byThem.commands.run('true')),
  },
};

/** Not measured: the first of each reads what the later ones find in memory. */
for (let round = 0; round < WARM_UP; round++) {
  await byUs.run(SHELL, { user: 'user' });
  await byThem.commands.run('true');
  await (await installation.create()).delete();
  await (await e2b.Sandbox.create(theirs)).kill();
}
for (let round = 0; round < ROUNDS; round++) {
  for (const { ours, e2b: face } of [ways.command, ways.create]) {
    for (const work of round % 2 === 0 ? [ours, face] : [face, ours]) await work();
  }
}
await byUs.delete();
await byThem.kill();

const results = samples.names().map((name) => summarise(name, samples.of(name)));
const { accelerator } = await installation.capabilities();
console.log(
  `${cpus().length} × ${cpus()[0]?.model}, ${accelerator.name}, load ${startLoad} at the start, ${await load()} at the end`,
);
console.log('what                 n     p50     p95  (ms)');
for (const { name, n, p50, p95 } of results) {
  const cell = (value: number | null) => (value === null ? '–' : value.toFixed(1)).padStart(8);
  console.log(`${name.padEnd(16)}${String(n).padStart(6)}${cell(p50)}${cell(p95)}`);
}
const p50Of = (wanted: string, of: readonly Result[]) => of.find(({ name }) => name === wanted)?.p50 ?? Number.NaN;
for (const [what, aim] of Object.entries(AIMS_MS)) {
  const added = p50Of(`${what}.e2b`, results) - p50Of(`${what}.ours`, results);
  console.log(`${what}: ${added.toFixed(1)} ms more at the median (aim: at most ${aim})`);
}
