/** The daemon is killed; its VMs run on, and the next daemon takes them up. */
import { execFile } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type ExecEvent, Sandbox } from '@space/sdk';
import { processesNaming, startPlatform } from '@space/server';
import { expect, it } from 'vitest';
import { clientConfigOf, endDaemon, startDaemon } from './daemon.ts';
import { ask, placeWitness } from './witness.ts';
import { removeAll, testConfig } from './world.ts';

it('keeps running sandboxes through a kill -9 of the daemon, and pauses them when it is stopped', async () => {
  const config = testConfig(await mkdtemp('/var/tmp/space-e2e-'));
  let daemon = await startDaemon(config);
  const port = Number(new URL(daemon.url).port);
  try {
    const { apiKey } = daemon;
    if (apiKey === null) throw new Error('the first start showed no key');
    const sandbox = await Sandbox.create({ baseUrl: daemon.url, apiKey });
    const before = await placeWitness(sandbox);
    const { processId } = await sandbox.start('for i in $(seq 1 1000); do echo $i; sleep 0.01; done; exit 3');
    const printed = await readSome(sandbox.attach(processId));
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

    daemon = await startDaemon(config, port);
    const paused = await Sandbox.connect(sandbox.id, { baseUrl: daemon.url, apiKey });
    expect(paused.status).toBe('paused');
    expect((await ask(paused)).word).toBe(before.word);
  } finally {
    await endDaemon(daemon, 'SIGINT');
    // Takes up whatever a failed test left, and closes it.
    await (await startPlatform(config)).close();
    await removeAll(config);
  }
});

/** The command line, with what the first start left for it. */
function space(dataDir: string, ...args: string[]) {
  const env = { PATH: process.env['PATH'] ?? '', SPACE_CONFIG: clientConfigOf(dataDir) };
  return promisify(execFile)(join(import.meta.dirname, '../../space'), args, { env });
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
