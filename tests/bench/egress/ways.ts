/** The ways from a client to one HTTPS host: direct, and through two proxies that open TLS. */
import { type ChildProcess, execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { Agent, request } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import { CARRIER_OPTIONS } from '@space/link';
import { HOST, type Ready } from './processes.ts';

const run = promisify(execFile);
/** Of the clock that the kernel tells processor time by. */
const TICK_MS = 10;

interface Client {
  /** Bytes of the body that came. Throws when the answer is not 200. */
  get(path: string): Promise<number>;
}

export interface Way {
  readonly name: string;
  /** On a connection that stays. */
  readonly kept: Client;
  /** On one of its own. */
  once(): Client;
  /** The most that the process between has had. */
  memoryMiB(): Promise<number | null>;
  /** Processor time of the process between so far. */
  cpuMs(): Promise<number | null>;
}

export async function openWays(): Promise<{ readonly all: readonly Way[]; close(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'space-bench-gateway-'));
  const processes: ChildProcess[] = [];
  const begin = async (role: string, ...args: string[]) => {
    const child = fork(join(import.meta.dirname, 'processes.ts'), [role, folder, ...args], {
      // As the installation starts them.
      execArgv: role === 'gateway' || role === 'node' ? [...CARRIER_OPTIONS] : [],
      env: { ...process.env, NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem') },
    });
    processes.push(child);
    const [ready] = (await Promise.race([once(child, 'message'), failed(role, child)])) as [Ready];
    return { child, ready };
  };
  const close = async () => {
    for (const child of processes) {
      child.disconnect();
      await once(child, 'exit');
    }
    await rm(folder, { recursive: true });
  };
  try {
    await makeCertificates(folder);
    const host = await begin('host');
    const gateway = await begin('gateway');
    const mitm = await begin('mitm');
    const port = host.ready.port;
    const ca = [await readFile(join(folder, 'ca.pem'), 'utf8')];
    const node = await begin('node', `${port}`);
    const all = [
      wayOf('direct', port, ca, null, async () => undefined),
      wayOf('gateway', port, [gateway.ready.ca], gateway.child, async () =>
        connect({ host: '127.0.0.1', port: node.ready.port, noDelay: true }),
      ),
      wayOf('mitm', port, [mitm.ready.ca], mitm.child, () => tunnelled(mitm.ready.port, port)),
    ];
    return { all, close };
  } catch (thrown) {
    await close();
    throw thrown;
  }
}

function wayOf(
  name: string,
  port: number,
  ca: readonly string[],
  child: ChildProcess | null,
  open: () => Promise<Duplex | undefined>,
): Way {
  const clientOf = (agent: Agent): Client => ({
    async get(path) {
      const [answer] = await once(request({ host: HOST, port, path, agent }).end(), 'response');
      let bytes = 0;
      for await (const part of answer) bytes += (part as Buffer).length;
      if (answer.statusCode !== 200) throw new Error(`${name}: ${answer.statusCode}`);
      return bytes;
    },
  });
  const agentOf = (keepAlive: boolean) => {
    const agent = new Agent({ keepAlive, maxSockets: 1 });
    agent.createConnection = (_options, done) => {
      open().then(
        (socket) => {
          const far = socket === undefined ? { host: '127.0.0.1', port } : { socket };
          const tls = connectTls({ ...far, ca: [...ca], servername: HOST, ALPNProtocols: ['http/1.1'] });
          tls.once('secureConnect', () => done?.(null, tls));
          tls.once('error', (error) => done?.(error, tls));
        },
        (error: Error) => done?.(error, undefined as never),
      );
      return undefined;
    };
    return agent;
  };
  return {
    name,
    kept: clientOf(agentOf(true)),
    once: () => clientOf(agentOf(false)),
    async memoryMiB() {
      if (child === null) return null;
      const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
      return Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1]) / 1024;
    },
    async cpuMs() {
      if (child === null) return null;
      const stat = await readFile(`/proc/${child.pid}/stat`, 'utf8');
      const [userTicks, systemTicks] = stat
        .slice(stat.lastIndexOf(')') + 2)
        .split(' ')
        .slice(11, 13);
      return (Number(userTicks) + Number(systemTicks)) * TICK_MS;
    },
  };
}

async function tunnelled(proxyPort: number, port: number): Promise<Duplex> {
  const asked = httpRequest({
    host: '127.0.0.1',
    port: proxyPort,
    method: 'CONNECT',
    path: `${HOST}:${port}`,
    agent: false,
  });
  asked.end();
  const [answer, socket] = (await once(asked, 'connect')) as [{ statusCode: number }, Duplex];
  if (answer.statusCode !== 200) throw new Error(`the proxy answered ${answer.statusCode}`);
  return socket;
}

async function failed(role: string, child: ChildProcess): Promise<never> {
  const [code] = await once(child, 'exit');
  throw new Error(`the process "${role}" ended with ${code}`);
}

async function makeCertificates(folder: string): Promise<void> {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const openssl = (...args: string[]) => run('openssl', args, { cwd: folder });
  await openssl('req', '-x509', ...key, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=Bench');
  await openssl('req', ...key, '-keyout', 'host.key', '-out', 'host.csr', '-subj', `/CN=${HOST}`);
  await writeFile(join(folder, 'host.ext'), `subjectAltName=DNS:${HOST}\n`);
  const by = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'host.ext', '-days', '2'];
  await openssl('x509', '-req', '-in', 'host.csr', ...by, '-out', 'host.pem');
}
