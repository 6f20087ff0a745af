/** The supervision of one process, shown on the smallest: the gateway, under its own user. Needs root, as the platform does. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, readFile, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { newId, type PortConnection } from '@space/core';
import { connectEgress, connectGateway } from '@space/link';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { chance } from './clock.ts';
import { type Config, configFrom } from './config.ts';
import { lockData } from './data-lock.ts';
import { egressSocketOf, gatewaySocketOf, lockFileOf, makeDataFolder, makeFolders } from './places.ts';
import type { RoleConfig } from './role-messages.ts';
import { type EndFacts, Supervised } from './supervised.ts';
import { findUsers, type Users } from './users.ts';

let config: Config;
let users: Users;
const ends: EndFacts[] = [];
const stops: (() => Promise<void>)[] = [];

beforeEach(async () => {
  const dataDir = await mkdtemp('/var/tmp/space-supervised-');
  const made = configFrom(['--data', dataDir], {});
  if (made === null) throw new Error('no configuration');
  config = made;
  users = await findUsers();
  await makeDataFolder(config);
  await makeFolders(config, users);
  ends.length = 0;
});
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
  for (const folder of [config.dataDir, config.runDir]) await rm(folder, { recursive: true, force: true });
});

function plain({ tls: _, ...rest }: Config): RoleConfig {
  return rest;
}

async function startGateway(): Promise<Supervised> {
  const lock = await open(lockFileOf(config), 'a');
  const gateway = new Supervised({
    name: 'gateway',
    user: users.gateway,
    config: () => plain(config),
    openDescriptors: async () => ({ descriptors: [lock.fd], close: () => undefined }),
    onMessage: () => undefined,
    onEnd: (facts) => ends.push(facts),
  });
  stops.push(
    () => gateway.stop(false),
    () => lock.close(),
  );
  await gateway.start();
  return gateway;
}

async function statusOf(pid: number | undefined): Promise<string> {
  return readFile(`/proc/${pid}/status`, 'utf8');
}

const isHealthy = () =>
  connectGateway(gatewaySocketOf(config))
    .health()
    .then(
      () => true,
      () => false,
    );

it('runs as its own user, without any capability, other group or way to gain one', async () => {
  const gateway = await startGateway();
  const status = await statusOf(gateway.pid);
  const { uid, gid } = users.gateway;
  expect(status).toMatch(new RegExp(`^Uid:\\s+${uid}\\s+${uid}\\s+${uid}\\s+${uid}$`, 'm'));
  expect(status).toMatch(new RegExp(`^Gid:\\s+${gid}\\s+${gid}\\s+${gid}\\s+${gid}$`, 'm'));
  expect(status).toMatch(/^Groups:\s*$/m);
  for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapAmb'])
    expect(status).toMatch(new RegExp(`^${set}:\\s+0+$`, 'm'));
  expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
  // Nor does it leave its memory in a file.
  expect(await readFile(`/proc/${gateway.pid}/limits`, 'utf8')).toMatch(/^Max core file size\s+0\s+0\s/m);
  const socket = await stat(gatewaySocketOf(config));
  expect(socket).toMatchObject({ uid, gid: users.control.gid });
  expect(socket.mode & 0o777).toBe(0o660);
});

it('is started again each time it dies, and says how it died; stopped, it stays away', async () => {
  const gateway = await startGateway();
  for (let death = 1; death <= 3; death++) {
    const { pid } = gateway;
    if (pid === undefined) throw new Error('it has no process');
    process.kill(pid, 'SIGKILL');
    await expect.poll(() => ends.length, { timeout: 10_000 }).toBe(death);
    await expect.poll(isHealthy, { timeout: 30_000 }).toBe(true);
    expect(gateway.pid).not.toBe(pid);
  }
  expect(ends.map(({ role, signal }) => [role, signal])).toEqual(Array(3).fill(['gateway', 'SIGKILL']));
  expect(ends.map(({ pauseMs }) => pauseMs)).toEqual([100, 200, 400]);
  const { pid } = gateway;
  await gateway.stop(false);
  await expect(statusOf(pid)).rejects.toThrow();
  expect(ends).toHaveLength(3);
}, 120_000);

it('refuses every connection by name, at a socket that is the node’s alone: there are no rules', async () => {
  await startGateway();
  const socketPath = egressSocketOf(config);
  expect(await stat(dirname(socketPath))).toMatchObject({ uid: users.gateway.uid, gid: users.node.gid });
  expect((await stat(dirname(socketPath))).mode & 0o007).toBe(0);
  const ids = { sandboxId: newId('sandbox', chance), lifeId: newId('life', chance) };
  const quiet: PortConnection = {
    output: (async function* () {})(),
    write: async () => undefined,
    end: () => undefined,
    reset: () => undefined,
    closed: Promise.resolve(),
  };
  const { signal } = new AbortController();
  const carried = connectEgress(socketPath).carry({ ...ids, host: 'example.com', port: 443 }, quiet, signal);
  await expect(carried).rejects.toMatchObject({ code: 'egress_refused' });
});

it('ends when its supervisor is killed, and until then nobody else gets the data folder', async () => {
  const program = `
    const { Supervised } = await import(${JSON.stringify(new URL('supervised.ts', import.meta.url).href)});
    const { lockData } = await import(${JSON.stringify(new URL('data-lock.ts', import.meta.url).href)});
    const lock = await lockData(${JSON.stringify(lockFileOf(config))});
    const gateway = new Supervised({
      ...${JSON.stringify({ name: 'gateway', user: users.gateway })},
      config: () => (${JSON.stringify(plain(config))}),
      openDescriptors: async () => ({ descriptors: [lock.fd], close: () => undefined }),
      onMessage: () => undefined,
      onEnd: () => undefined,
    });
    await gateway.start();
    console.log(gateway.pid);`;
  const supervisor = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(createInterface({ input: supervisor.stdout }), 'line')) as [string];
  // It inherits the lock: were it to live on, the lock would never be had.
  process.kill(Number(line), 'SIGSTOP');
  supervisor.kill('SIGKILL');
  await once(supervisor, 'exit');
  let locked = false;
  const next = lockData(lockFileOf(config)).then((lock) => {
    locked = true;
    return lock;
  });
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(locked).toBe(false);
  process.kill(Number(line), 'SIGCONT');
  await (await next).close();
  // Listed for a moment more, until its new parent has noticed.
  const isGone = () =>
    statusOf(Number(line)).then(
      (status) => /^State:\s+[ZX]/m.test(status),
      () => true,
    );
  await expect.poll(isGone).toBe(true);
});

it('is not told what is for control alone', async () => {
  process.env['DATABASE_URL'] = 'postgres://somebody:for-control@127.0.0.1/space';
  try {
    const gateway = await startGateway();
    const environment = await readFile(`/proc/${gateway.pid}/environ`, 'utf8');
    expect(environment).toContain('PATH=');
    expect(environment).not.toContain('for-control');
  } finally {
    delete process.env['DATABASE_URL'];
  }
});
