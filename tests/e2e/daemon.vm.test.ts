/** The daemon is killed; its VMs run on, and the next daemon takes them up. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Sandbox } from '@space/sdk';
import { startPlatform } from '@space/server';
import { expect, it } from 'vitest';
import { ask, placeWitness } from './witness.ts';
import { processesNaming, removeAll, testConfig } from './world.ts';

const ROOT = join(import.meta.dirname, '../..');

it('keeps running sandboxes through a kill -9 of the daemon, and pauses them when it is stopped', async () => {
  const config = testConfig(await mkdtemp('/var/tmp/space-e2e-'));
  let daemon = await startDaemon(config.dataDir);
  try {
    const { apiKey } = daemon;
    if (apiKey === null) throw new Error('the first start showed no key');
    const sandbox = await Sandbox.create({ baseUrl: daemon.url, apiKey });
    const before = await placeWitness(sandbox);
    daemon.process.kill('SIGKILL');
    await daemon.ended;
    expect(await processesNaming(`${config.runDir}/lives`)).not.toEqual([]);

    daemon = await startDaemon(config.dataDir);
    expect(daemon.apiKey).toBeNull();
    const found = await Sandbox.connect(sandbox.id, { baseUrl: daemon.url, apiKey });
    expect(found.status).toBe('running');
    const after = await ask(found);
    expect(after).toMatchObject({ word: before.word, pid: before.pid });
    expect(found.fields.generation).toBe(1);

    daemon.process.kill('SIGTERM');
    await daemon.ended;
    expect(await processesNaming(config.runDir, config.dataDir)).toEqual([]);

    daemon = await startDaemon(config.dataDir);
    const paused = await Sandbox.connect(sandbox.id, { baseUrl: daemon.url, apiKey });
    expect(paused.status).toBe('paused');
    expect((await ask(paused)).word).toBe(before.word);
  } finally {
    daemon.process.kill('SIGTERM');
    await daemon.ended;
    // Takes up whatever a failed test left, and closes it.
    await (await startPlatform(config)).close();
    await removeAll(config);
  }
});

interface Daemon {
  readonly process: ChildProcess;
  readonly url: string;
  readonly apiKey: string | null;
  readonly ended: Promise<void>;
}

/** `npm start`'s program, on a free port; returns when it has said all that it says at a start. */
async function startDaemon(dataDir: string): Promise<Daemon> {
  const argv = ['apps/server/src/main.ts', '--data', dataDir, '--listen', '127.0.0.1:0', '--vault-size', '24'];
  const child = spawn(process.execPath, argv, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  let url: string | null = null;
  let apiKey: string | null = null;
  const ready = new Promise<void>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the daemon ended with ${code}`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      url ??= /SPACE serves (\S+)/.exec(line)?.[1] ?? null;
      apiKey ??= /SPACE_API_KEY=(\S+)/.exec(line)?.[1] ?? null;
      if (line === READY) resolve();
    });
  });
  await ready;
  if (url === null) throw new Error('the daemon did not say where it serves');
  return { process: child, url, apiKey, ended };
}

/** The last line of every start. */
const READY = 'Ready.';
