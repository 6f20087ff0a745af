/**
 * What the gateway costs: `npm run bench:gateway -- [--full] [--json FILE]`. The same HTTPS requests to a host on this machine, in turn
 * direct, through the gateway, and through http-mitm-proxy, an established proxy that opens TLS. Host and proxies are processes of
 * their own; the client stands where the node does, so that no guest hides what is measured.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { openWays, type Way } from './egress/ways.ts';
import { type Result, Samples, summarise } from './samples.ts';

const { values } = parseArgs({ options: { full: { type: 'boolean', default: false }, json: { type: 'string' } } });
const REQUESTS = values.full ? 10_000 : 1_500;
const CONNECTIONS = values.full ? 1_000 : 200;
const BODY_MIB = values.full ? 10_240 : 512;
const AT_ONCE = 1_000;
const TURNS = 3;

/** Of the process between, for one. */
interface Processor {
  readonly name: string;
  readonly ms: number;
}

interface Stream {
  readonly way: string;
  readonly mib: number;
  readonly mibPerSecond: number;
  /** Of the process between, beyond what it was before. */
  readonly peakMiB: number | null;
  readonly cpuMs: number | null;
}

const ways = await openWays();
try {
  const machine = `${cpus().length} × ${cpus()[0]?.model}, load ${(await readFile('/proc/loadavg', 'utf8')).split(' ')[0]}`;
  console.log(machine);
  const samples = new Samples();
  const processor = [
    await inTurns('request', REQUESTS, samples, (way) => way.kept.get('/small')),
    await inTurns('connection', CONNECTIONS, samples, (way) => way.once().get('/small')),
  ].flat();
  const results = samples.names().map((name) => summarise(name, samples.of(name)));
  show(results);
  for (const { name, ms } of processor)
    console.log(`processor time of the process between, ${name}: ${ms.toFixed(2)} ms`);
  const streams: Stream[] = [];
  for (let turn = 0; turn < TURNS; turn++) for (const way of ways.all) streams.push(await stream(way));
  showStreams(streams);
  const crowds = [];
  for (const way of ways.all) crowds.push(await crowd(way));
  const report = { machine, results, processor, added: addedOf(results), streams, crowds };
  console.log(
    `added to a request, p50: ${Object.entries(report.added)
      .map(([way, ms]) => `${way} ${ms} ms`)
      .join(', ')}`,
  );
  if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(report, null, 2)}\n`);
} finally {
  await ways.close();
}

/** One of each way after another, so that whatever else the machine does falls on all of them. */
async function inTurns(
  what: string,
  times: number,
  samples: Samples,
  work: (way: Way) => Promise<number>,
): Promise<readonly Processor[]> {
  for (const way of ways.all) await work(way);
  const before = await Promise.all(ways.all.map((way) => way.cpuMs()));
  for (let time = 0; time < times; time++) {
    for (const way of ways.all) await samples.timed(`${what}.${way.name}`, () => work(way));
  }
  const after = await Promise.all(ways.all.map((way) => way.cpuMs()));
  return ways.all.flatMap(({ name }, index) => {
    const [begin = null, end = null] = [before[index], after[index]];
    return begin === null || end === null ? [] : [{ name: `${what}.${name}`, ms: (end - begin) / times }];
  });
}

async function stream(way: Way): Promise<Stream> {
  const [before, cpuBefore] = [await way.memoryMiB(), await way.cpuMs()];
  const startedAt = performance.now();
  const bytes = await way.once().get(`/body/${BODY_MIB}`);
  const seconds = (performance.now() - startedAt) / 1000;
  if (bytes !== BODY_MIB * 1024 * 1024) throw new Error(`${way.name}: ${bytes} bytes came of ${BODY_MIB} MiB`);
  const [peak, cpu] = [await way.memoryMiB(), await way.cpuMs()];
  const peakMiB = peak === null || before === null ? null : Math.max(0, Math.round(peak - before));
  return {
    way: way.name,
    mib: BODY_MIB,
    mibPerSecond: Math.round(BODY_MIB / seconds),
    peakMiB,
    cpuMs: cpu === null || cpuBefore === null ? null : cpu - cpuBefore,
  };
}

/** So many connections that are all open before the first is answered. */
async function crowd(way: Way) {
  const startedAt = performance.now();
  const asked = Array.from({ length: AT_ONCE }, () => way.once().get(`/together/${way.name}/${AT_ONCE}`));
  const answered = (await Promise.allSettled(asked)).filter(({ status }) => status === 'fulfilled').length;
  const told = { way: way.name, atOnce: AT_ONCE, answered, seconds: (performance.now() - startedAt) / 1000 };
  console.log(`${AT_ONCE} at once, ${way.name}: ${answered} answered in ${told.seconds.toFixed(1)} s`);
  return told;
}

function addedOf(results: readonly Result[]): Readonly<Record<string, number>> {
  const p50 = (way: string) => results.find(({ name }) => name === `request.${way}`)?.p50 ?? Number.NaN;
  const between = ways.all.filter(({ name }) => name !== 'direct');
  return Object.fromEntries(between.map(({ name }) => [name, Number((p50(name) - p50('direct')).toFixed(2))]));
}

function show(results: readonly Result[]): void {
  const cell = (value: number | null) => (value === null ? '–' : value.toFixed(2)).padStart(9);
  console.log('what                        n      p50      p95      p99  (ms)');
  for (const { name, n, p50, p95, p99 } of results) {
    console.log(`${name.padEnd(22)}${String(n).padStart(7)}${cell(p50)}${cell(p95)}${cell(p99)}`);
  }
}

function showStreams(streams: readonly Stream[]): void {
  for (const way of ways.all) {
    const own = streams.filter((one) => one.way === way.name);
    const speeds = own.map(({ mibPerSecond }) => mibPerSecond).sort((a, b) => a - b);
    const peaks = own.flatMap(({ peakMiB }) => peakMiB ?? []);
    const cpu = own.flatMap(({ cpuMs }) => cpuMs ?? []).sort((a, b) => a - b)[Math.floor(own.length / 2)];
    const processor = cpu === undefined ? '' : `, processor time ${(cpu / BODY_MIB).toFixed(2)} ms a MiB`;
    const memory = peaks.length === 0 ? '' : `, at most ${Math.max(...peaks)} MiB more memory`;
    console.log(
      `${BODY_MIB} MiB, ${way.name}: ${speeds[Math.floor(speeds.length / 2)]} MiB/s (median of ${own.length})${processor}${memory}`,
    );
  }
}
