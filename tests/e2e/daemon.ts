/** The platform as its own processes, as `npm start` runs them: each can be killed, and all started again. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Config } from '@space/server';

export const ROOT = join(import.meta.dirname, '../..');
/** The last line of every start. */
const READY = 'Ready.';

export const ROLES = ['control', 'node', 'gateway'] as const;
export type RoleName = (typeof ROLES)[number];

/** `process` is the supervisor. */
export interface Daemon {
  readonly process: ChildProcess;
  readonly url: string;
  /** Shown by the first start on a data folder. */
  readonly apiKey: string | null;
  readonly ended: Promise<void>;
}

/** Where the first start leaves URL and key for clients. */
export const clientConfigOf = (dataDir: string): string => join(dataDir, 'client/config.json');

/** Returns when it has said all that it says at a start; `port` 0: any free one. `checkout`: where its code lies. */
export async function startDaemon(
  { dataDir, encrypted, memoryMib, poolMib }: Config,
  port = 0,
  checkout = ROOT,
): Promise<Daemon> {
  const memory = { memory: `${memoryMib}`, 'pool-memory': `${poolMib}` };
  const options = {
    data: dataDir,
    listen: `127.0.0.1:${port}`,
    'vault-size': '24',
    ...memory,
    vaults: encrypted ? 'encrypted' : 'plain',
  };
  const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  const child = spawn(process.execPath, ['apps/server/src/main.ts', ...flags], {
    cwd: checkout,
    env: { ...process.env, SPACE_CLIENT_CONFIG: clientConfigOf(dataDir) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  let url: string | null = null;
  let apiKey: string | null = null;
  await new Promise<void>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the daemon ended with ${code}`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      url ??= /SPACE serves (\S+)/.exec(line)?.[1] ?? null;
      apiKey ??= /SPACE_API_KEY=(\S+)/.exec(line)?.[1] ?? null;
      if (line === READY) resolve();
    });
  });
  if (url === null) throw new Error('the daemon did not say where it serves');
  return { process: child, url, apiKey, ended };
}

/** Not one that the kernel gives to whoever connects while the platform is down. */
export async function freePort(random: () => number): Promise<number> {
  const port = 20_000 + Math.floor(random() * 10_000);
  const server = createServer();
  const isFree = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => resolve(true));
  });
  if (!isFree) return freePort(random);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The processes that the supervisor has started and not yet reaped, by role. */
export async function rolesOf(daemon: Daemon): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const read = (file: string) => readFile(join('/proc', pid, file), 'utf8').catch(() => '');
    const parent = (await read('status')).match(/^PPid:\s+(\d+)$/m)?.[1];
    if (Number(parent) !== daemon.process.pid) continue;
    const role = /role\.ts\0(\w+)\0/.exec(await read('cmdline'))?.[1];
    if (role !== undefined) found.set(role, Number(pid));
  }
  return found;
}

export async function killRole(daemon: Daemon, name: RoleName): Promise<void> {
  const pid = (await rolesOf(daemon)).get(name);
  // It may be between one run and the next, from the round before.
  if (pid !== undefined) process.kill(pid, 'SIGKILL');
}

export async function endDaemon(daemon: Daemon, signal: 'SIGINT' | 'SIGTERM' | 'SIGKILL'): Promise<void> {
  daemon.process.kill(signal);
  await daemon.ended;
}
