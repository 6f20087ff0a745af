/**
 * What a sandbox that pumps all it can through the gateway costs another: `npm run bench:neighbours -- [--rounds 5] [--json FILE]`. The
 * times of commands in one sandbox, in turn: with nothing beside; with a client on the host side of the channel that pumps through
 * the gateway, so that it is the gateway's part alone; and with a guest that does. On a machine with fewer processors than busy parties, the
 * guest's part is mostly that of its emulation. Hosts, pump and platform are processes of their own.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { Hosts } from '@space/conformance/hosts';
import { type LocalHosts, openPlatform } from '@space/conformance-local/platform';
import { Sandbox } from '@space/sdk';
import { openWays } from './egress/ways.ts';
import { Samples, summarise } from './samples.ts';

const COMMANDS = 20;
const SETTLE_MS = 2_000;
const PUMPED_MIB = 64;

/** Not by an argument: whoever is imported here looks at those for its own role. */
const ROLE = 'SPACE_BENCH_ROLE';
const role = process.env[ROLE];

if (role !== undefined) await beChild(role);
else await measure();

async function measure(): Promise<void> {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => stop.abort(new Error('It was interrupted.')));
  const { values } = parseArgs({ options: { rounds: { type: 'string', default: '5' }, json: { type: 'string' } } });
  const load = async () => (await readFile('/proc/loadavg', 'utf8')).split(' ')[0];
  const machine = `${cpus().length} × ${cpus()[0]?.model}, load ${await load()}`;
  console.log(machine);
  const hosts = await begin('hosts');
  try {
    const samples = await sample(hosts.ready as LocalHosts, Number(values.rounds), stop.signal);
    const results = samples.names().map((name) => summarise(name, samples.of(name)));
    for (const { name, n, unit, p50, p95 } of results) {
      console.log(`${name.padEnd(28)} n ${n}  p50 ${p50} ${unit}  p95 ${p95 ?? '–'} ${unit}`);
    }
    if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify({ machine, results }, null, 2)}\n`);
  } finally {
    await hosts.end();
  }
}

async function sample(hosts: LocalHosts, rounds: number, stop: AbortSignal): Promise<Samples> {
  await using platform = await openPlatform(hosts, (step) => console.error(`… ${step}`));
  const { open, https } = hosts.places;
  const network = { preset: 'none', allow: [{ host: open, access: 'read', ports: [https] }] } as const;
  const idle = { pauseAfterMs: null };
  const snapshots = { everyMs: 'off' } as const;
  const quiet = await Sandbox.create({ ...platform.connection, network: { preset: 'none' }, idle, snapshots });
  const loud = await Sandbox.create({ ...platform.connection, network, idle, snapshots });
  const samples = new Samples();
  const commands = async (name: string): Promise<void> => {
    for (let count = 0; count < COMMANDS; count++) {
      stop.throwIfAborted();
      await samples.timed(`exec.${name}`, () => quiet.run(['/bin/true']));
    }
  };
  await commands('warm-up');
  for (let round = 0; round < rounds; round++) {
    await commands('alone');
    const pump = await begin('pump');
    await settle();
    await commands('beside the gateway');
    const { mib } = (await pump.end()) as { mib: number };
    samples.add('rate.MiB pumped', mib);
    const { processId } = await loud.start(
      `while :; do curl -s -o /dev/null https://${open}:${https}/open/flood; done`,
    );
    await settle();
    await commands('beside a guest');
    await loud.kill(processId);
  }
  return samples;
}

function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
}

/** The child says what it has begun, and at its end what came of it. */
async function begin(role: string) {
  const child: ChildProcess = fork(import.meta.filename, [], {
    env: { ...process.env, [ROLE]: role },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const [ready] = await Promise.race([once(child, 'message'), failed(child)]);
  const end = async (): Promise<unknown> => {
    const told = once(child, 'message');
    child.send('end');
    const [result] = await Promise.race([told, failed(child)]);
    child.disconnect();
    await once(child, 'exit');
    return result;
  };
  return { ready: ready as unknown, end };
}

async function failed(child: ChildProcess): Promise<never> {
  const [code] = await once(child, 'exit');
  throw new Error(`a process of the benchmark ended with ${code}`);
}

async function beChild(role: string): Promise<void> {
  const asked = once(process, 'message');
  let isOver = false;
  void asked.then(() => {
    isOver = true;
  });
  if (role === 'hosts') {
    await using hosts = await Hosts.open();
    process.send?.({ dnsServer: hosts.dnsServer, authorityPem: hosts.authorityPem, places: hosts.places });
    await asked;
    process.send?.({});
    await once(process, 'disconnect');
    return;
  }
  const ways = await openWays();
  try {
    const way = ways.all.find(({ name }) => name === 'gateway');
    if (way === undefined) throw new Error('there is no way through the gateway');
    process.send?.({});
    const startedAt = performance.now();
    let mib = 0;
    for (; !isOver; mib += PUMPED_MIB) await way.kept.get(`/body/${PUMPED_MIB}`);
    process.send?.({ mib: Math.round(mib / ((performance.now() - startedAt) / 1000)) });
    await once(process, 'disconnect');
  } finally {
    await ways.close();
  }
}
