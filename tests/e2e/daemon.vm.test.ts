/** The node, then all of the daemon is killed; VMs run on, and the next process takes them up. */

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type ExecEvent, Sandbox } from '@space/sdk';
import { mountsNaming, processesNaming, startPlatform } from '@space/server';
import { expect, it } from 'vitest';
import { clientConfigOf, endDaemon, killRole, ROLES, ROOT, rolesOf, startDaemon } from './daemon.ts';
import { ask, placeWitness } from './witness.ts';
import { removeAll, testConfig } from './world.ts';

const run = promisify(execFile);

it('keeps running sandboxes and their commands through a kill -9 of the node and of the daemon, and pauses them when it is stopped', async () => {
  const config = { ...testConfig(await mkdtemp('/var/tmp/space-e2e-')), encrypted: true };
  const checkout = await closedCheckout();
  let daemon = await startDaemon(config, await privilegedPort(), checkout.path);
  const port = Number(new URL(daemon.url).port);
  try {
    const { apiKey } = daemon;
    if (apiKey === null) throw new Error('the first start showed no key');
    const sandbox = await Sandbox.create({ baseUrl: daemon.url, apiKey });
    const before = await placeWitness(sandbox);
    const { processId } = await sandbox.start('for i in $(seq 1 1000); do echo $i; sleep 0.01; done; exit 3');
    const printed = await readSome(sandbox.attach(processId));
    const roles = await rolesOf(daemon);
    for (const name of ROLES) expect(await privilegesOf(roles.get(name)), name).toBe('none');

    // The node alone: control answers that it is away, and the sandbox runs on.
    await killRole(daemon, 'node');
    const away = await fetch(`${daemon.url}/v1/sandboxes/${sandbox.id}/processes`, {
      headers: { authorization: `Bearer ${apiKey}` },
    });
    expect(away).toMatchObject({ status: 503 });
    expect(await away.json()).toMatchObject({ code: 'node_unavailable', retry: 'later' });
    expect(await notReady(daemon.url)).toEqual(['node', 'templates']);
    await expect.poll(() => notReady(daemon.url), { timeout: 30_000 }).toEqual([]);
    expect(await ask(sandbox)).toMatchObject({ word: before.word, pid: before.pid });

    // Its answer dies with the daemon, and the same call is sent again below.
    const cut = await execOnce(daemon.url, apiKey, sandbox.id);
    const beginning = await cut.body?.getReader().read();
    expect(beginning?.done).toBe(false);

    await endDaemon(daemon, 'SIGKILL');
    expect(await processesNaming(`${config.runDir}/lives`)).not.toEqual([]);

    daemon = await startDaemon(config, port);
    expect(daemon.apiKey).toBeNull();
    const found = await Sandbox.connect(sandbox.id, { baseUrl: daemon.url, apiKey });
    expect(found.status).toBe('running');
    const after = await ask(found);
    expect(after).toMatchObject({ word: before.word, pid: before.pid });
    expect(found.fields.generation).toBe(1);
    const rest = await Array.fromAsync(found.attach(processId, { stdoutOffset: printed.length }));
    const text = rest.map((event) => (event.type === 'stdout' ? Buffer.from(event.data).toString() : '')).join('');
    expect(printed + text).toBe(Array.from({ length: 1000 }, (_, index) => `${index + 1}\n`).join(''));
    expect(rest.at(-1)).toMatchObject({ type: 'exited', exitCode: 3 });
    // From its first byte on, and it was started once.
    const again = (await (await execOnce(daemon.url, apiKey, sandbox.id)).text()).trim().split('\n').filter(Boolean);
    const events = again.map((line) => JSON.parse(line));
    const told = events.map(({ type, data }) => (type === 'stdout' ? Buffer.from(data, 'base64').toString() : ''));
    expect(told.join('')).toBe(`${Array.from({ length: 50 }, (_, index) => `${index + 1}\n`).join('')}started 1\n`);
    expect(events.at(-1)).toMatchObject({ type: 'exited', exitCode: 4 });

    // SIGTERM leaves what runs to the next start.
    await endDaemon(daemon, 'SIGTERM');
    expect(await processesNaming(`${config.runDir}/lives`)).not.toEqual([]);
    daemon = await startDaemon(config, port);
    expect((await ask(found)).pid).toBe(before.pid);

    // The command line finds it by what the first start wrote, and `down` pauses everything.
    expect(JSON.parse((await space(config.dataDir, 'ls', '--json')).stdout)).toMatchObject([{ id: sandbox.id }]);
    expect((await space(config.dataDir, 'down', '--data', config.dataDir)).stdout).toContain(
      'Stopped. Everything is kept',
    );
    expect(await processesNaming(config.runDir, config.dataDir)).toEqual([]);
    expect(existsSync(config.runDir)).toBe(false);
    // Its vault is closed, and no other was made.
    expect(await mountsNaming(config.dataDir)).toEqual([]);
    expect(await readdir(join(config.dataDir, 'vaults'))).toEqual([expect.stringMatching(/^org-/)]);

    daemon = await startDaemon(config, port);
    const paused = await Sandbox.connect(sandbox.id, { baseUrl: daemon.url, apiKey });
    expect(paused.status).toBe('paused');
    expect((await ask(paused)).word).toBe(before.word);
  } finally {
    await endDaemon(daemon, 'SIGINT');
    // Takes up whatever a failed test left, and closes it.
    await (await startPlatform(config)).close();
    await removeAll(config);
    await checkout.remove();
  }
});

/** A call under one idempotency key: what it starts counts its starts, and takes longer than the restart of a daemon may. */
function execOnce(url: string, apiKey: string, id: string): Promise<Response> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', 'idempotency-key': 'once' };
  const command =
    'echo >> starts; for i in $(seq 1 50); do echo $i; sleep 0.1; done; echo started $(wc -l < starts); exit 4';
  return fetch(`${url}/v1/sandboxes/${id}/exec`, { method: 'POST', headers, body: JSON.stringify({ command }) });
}

/** The command line, with what the first start left for it. */
function space(dataDir: string, ...args: string[]) {
  const env = { PATH: process.env['PATH'] ?? '', SPACE_CONFIG: clientConfigOf(dataDir) };
  return run(join(import.meta.dirname, '../../space'), args, { env });
}

/** This checkout where nobody but root may go, as one in root's home: the code of the processes without root lies there too. */
async function closedCheckout() {
  const folder = await mkdtemp('/var/tmp/space-closed-');
  const path = join(folder, 'checkout');
  await mkdir(path);
  await run('mount', ['--bind', ROOT, path]);
  return {
    path,
    async remove() {
      await run('umount', [path]);
      await rm(folder, { recursive: true });
    },
  };
}

/** A free one that only root may listen on. */
async function privilegedPort(): Promise<number> {
  for (let port = 1023; port > 512; port--) {
    const server = createServer();
    const isFree = await new Promise((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
  throw new Error('no privileged port is free');
}

/** What GET /readyz says is missing. */
async function notReady(url: string): Promise<string[]> {
  const answer = await fetch(`${url}/readyz`);
  const { checks } = (await answer.json()) as { checks: readonly { name: string; ready: boolean }[] };
  expect(answer.status).toBe(checks.every(({ ready }) => ready) ? 200 : 503);
  return checks.filter(({ ready }) => !ready).map(({ name }) => name);
}

/** `none`: neither root nor a capability, nor a way to them. */
async function privilegesOf(pid: number | undefined): Promise<string> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const lines = status
    .split('\n')
    .filter((line) => /^(Uid:.*\t0\b|Cap(Prm|Eff|Inh|Amb):\t.*[^0]|NoNewPrivs:\t0)/.test(line));
  return lines.join('; ') || 'none';
}

/** Some of what a process prints. */
async function readSome(events: AsyncGenerator<ExecEvent>): Promise<string> {
  let text = '';
  for await (const event of events) {
    if (event.type === 'stdout') text += Buffer.from(event.data).toString();
    if (text.length > 100) break;
  }
  return text;
}
