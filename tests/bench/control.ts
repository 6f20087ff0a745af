/**
 * What the control plane can take by itself: `node tests/bench/control.ts [seconds]`, as root. The HTTP server, the use-cases
 * and PostgreSQL are real and in processes of their own; the node and the gateway answer at once. Creates, and
 * reconnects (a sandbox is asked for by its id, as a client that comes back does), each by so many clients at once as the rows say.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { createApiKey, createControl } from '@space/control';
import { NO_TRACES } from '@space/core';
import { createPostgresRecords, openDatabase, startPrivateCluster } from '@space/db-postgres';
import { createHttpServer, createLogger, listen } from '@space/http';
import { FakeGateway, FakeNode, realClock, seededChance } from '@space/testkit';
import { Samples, summarise } from './samples.ts';

const CLIENTS = [1, 4, 16];
const SECONDS = Number(process.argv[2] ?? 10);
const logger = createLogger({ level: 'silent' });

if (process.send === undefined) await measure();
else await serve();

interface Served {
  readonly url: string;
  readonly secretKey: string;
}

/** The process that is measured. Tells its parent where it serves, and ends with it. */
async function serve(): Promise<void> {
  const folder = await mkdtemp('/var/tmp/space-bench-control-');
  await chmod(folder, 0o755);
  const cluster = await startPrivateCluster({
    dataDir: join(folder, 'postgres'),
    socketDir: join(folder, 'socket'),
    user: 'postgres',
    logger,
  });
  const database = await openDatabase(cluster.address, logger);
  const [records, clock] = [createPostgresRecords(database), realClock()];
  const chance = seededChance(randomBytes(4).readUInt32LE());
  const control = createControl(
    { node: new FakeNode(), records, clock, chance, logger, tracer: NO_TRACES },
    new FakeGateway(),
  );
  await control.start();
  const server = createHttpServer({
    useCases: control,
    authenticate: (token, project) => control.authenticate(token, project),
    openShare: (token, target) => control.openShare(token, target),
    logger,
    version: '1',
    tracer: NO_TRACES,
  });
  const url = await listen(server, { host: '127.0.0.1', port: 0 });
  const { secretKey } = await createApiKey({ records, clock, chance });
  process.send?.({ url, secretKey } satisfies Served);
  await once(process, 'disconnect');
  await server.close();
  await control.close();
  await database.close();
  await cluster.close();
  await rm(folder, { recursive: true });
}

async function measure(): Promise<void> {
  const server = fork(import.meta.filename);
  try {
    const [served] = (await once(server, 'message')) as [Served];
    console.log(
      `${cpus().length} × ${cpus()[0]?.model}, load ${(await readFile('/proc/loadavg', 'utf8')).split(' ')[0]}`,
    );
    console.log('what              clients    per s   core      n     p50     p95     p99');
    for (const clients of CLIENTS)
      await row('control.create', clients, server, (ask) => ask('POST', '/v1/sandboxes', '{}'));
    const made = JSON.parse(await asker(served)('POST', '/v1/sandboxes', '{}')) as { readonly id: string };
    for (const clients of CLIENTS)
      await row('control.reconnect', clients, server, (ask) => ask('GET', `/v1/sandboxes/${made.id}`));

    async function row(name: string, clients: number, child: ChildProcess, work: (ask: Ask) => Promise<unknown>) {
      const samples = new Samples();
      const ask = asker(served);
      const [startedAt, cpuBefore] = [performance.now(), await cpuSeconds(child)];
      const client = async () => {
        while (performance.now() - startedAt < SECONDS * 1000) await samples.timed(name, () => work(ask));
      };
      await Promise.all(Array.from({ length: clients }, client));
      const seconds = (performance.now() - startedAt) / 1000;
      const { n, p50, p95, p99 } = summarise(name, samples.of(name));
      const cell = (value: number | null) => (value === null ? '–' : value.toFixed(1)).padStart(8);
      const core = ((await cpuSeconds(child)) - cpuBefore) / seconds;
      const rate = (n / seconds).toFixed(0).padStart(8);
      console.log(
        `${name.padEnd(18)}${String(clients).padStart(7)} ${rate}${core.toFixed(2).padStart(7)}${String(n).padStart(7)}${cell(p50)}${cell(p95)}${cell(p99)}`,
      );
    }
  } finally {
    server.disconnect();
    await once(server, 'exit');
  }
}

type Ask = (method: string, path: string, body?: string) => Promise<string>;

function asker({ url, secretKey }: Served): Ask {
  const agent = new Agent({ keepAlive: true });
  return async (method, path, body) => {
    const headers = {
      authorization: `Bearer ${secretKey}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    };
    const asked = request(url + path, { method, headers, agent }).end(body);
    const [answer] = await once(asked, 'response');
    const text = Buffer.concat(await Array.fromAsync(answer)).toString();
    if (answer.statusCode >= 300) throw new Error(text);
    return text;
  };
}

/** Of the server's process, PostgreSQL not counted. */
async function cpuSeconds({ pid }: ChildProcess): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}
