/** The unit of `deploy/systemd`, as it stands, under a real systemd: what the guide says of it holds. */
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Sandbox } from '@space/sdk';
import { mountsNaming, processesNaming } from '@space/server';
import { expect, it } from 'vitest';
import { freePort, ROOT } from './daemon.ts';
import { SYSTEMD, startSystemd } from './systemd.ts';
import { ask, placeWitness } from './witness.ts';

const UNIT = 'deploy/systemd/space.service';

// Where no systemd is installed, none can be tried.
it.runIf(SYSTEMD !== null)(
  'starts at boot, is started again after a crash, leaves sandboxes running at a SIGTERM, and pauses them when it is stopped',
  { timeout: 300_000 },
  async () => {
    const folder = await mkdtemp('/var/tmp/space-service-');
    await chmod(folder, 0o755);
    const [data, client] = [join(folder, 'data'), join(folder, 'client.json')];
    const port = await freePort(Math.random);
    const url = `http://127.0.0.1:${port}`;
    await mkdir(join(folder, 'systemd'));
    await using systemd = await startSystemd(join(folder, 'systemd'), ROOT);
    const unit = join(systemd.etc, 'systemd/system/space.service');
    await cp(join(ROOT, UNIT), unit);
    // Its journal is not there.
    const log = join(folder, 'log');
    await mkdir(`${unit}.d`);
    await writeFile(`${unit}.d/log.conf`, `[Service]\nStandardOutput=append:${log}\nStandardError=append:${log}\n`);
    const options = {
      DATA: data,
      LISTEN: `127.0.0.1:${port}`,
      MEMORY_MIB: 1500,
      POOL_MIB: 0,
      VAULT_GIB: 8,
      CONFIG: client,
    };
    const lines = Object.entries(options).map(([name, value]) => `SPACE_${name}=${value}\n`);
    await writeFile(join(systemd.etc, 'space.env'), lines.join(''));
    const systemctl = (...words: string[]) => systemd.run('systemctl', ...words);
    const isReady = () =>
      fetch(`${url}/readyz`).then(
        ({ status }) => status === 200,
        () => false,
      );
    const ready = async () => {
      await expect
        .poll(isReady, { timeout: 90_000, interval: 200 })
        .toBe(true)
        .catch(async (cause: unknown) => {
          throw new Error(`It is not ready. It says: ${await readFile(log, 'utf8').catch(String)}`, { cause });
        });
    };

    expect(await systemd.run('systemd-analyze', 'verify', '/etc/systemd/system/space.service')).toBe('');
    await systemctl('daemon-reload');
    await systemctl('enable', '--now', 'space');
    expect(await systemctl('show', '-P', 'Wants', 'multi-user.target')).toContain('space.service');
    await ready();
    await expect.poll(() => existsSync(client), { timeout: 30_000 }).toBe(true);
    const { apiKey } = JSON.parse(await readFile(client, 'utf8')) as { apiKey: string };
    const sandbox = await Sandbox.create({ baseUrl: url, apiKey });
    const witness = await placeWitness(sandbox);
    const seen = async () => {
      await sandbox.refresh();
      const { word, pid } = await ask(sandbox);
      expect({ word, pid }).toEqual({ word: witness.word, pid: witness.pid });
      return sandbox.fields.generation;
    };

    // For a new version: the microVMs run on.
    await systemctl('kill', '--kill-whom=main', '--signal=SIGTERM', 'space');
    await expect.poll(() => systemctl('show', '-P', 'ActiveState', 'space'), { timeout: 30_000 }).toBe('inactive\n');
    expect(await processesNaming(join(data, 'vmm'))).not.toEqual([]);
    await systemctl('start', 'space');
    await ready();
    expect(await seen()).toBe(1);

    // A crash: nobody has to do anything.
    await systemctl('kill', '--kill-whom=main', '--signal=SIGKILL', 'space');
    await expect.poll(() => systemctl('show', '-P', 'NRestarts', 'space'), { timeout: 30_000 }).toBe('1\n');
    await ready();
    expect(await seen()).toBe(1);

    // What a shutdown of the machine does, too.
    await systemctl('stop', 'space');
    expect(await systemctl('show', '-P', 'Result', 'space')).toBe('success\n');
    expect(await processesNaming(data)).toEqual([]);
    expect(await systemd.run('cat', '/proc/mounts')).not.toContain(`${data}/vaults`);
    await systemctl('start', 'space');
    await ready();
    await sandbox.refresh();
    expect(sandbox.status).toBe('paused');
    await seen();
    await systemctl('stop', 'space');
    await systemd[Symbol.asyncDispose]();
    expect(await mountsNaming(folder)).toEqual([]);
    await rm(folder, { recursive: true });
  },
);
