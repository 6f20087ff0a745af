/** All that a node does, done by a process without any privilege, with the helper beside it. */
import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { loadAssets } from '@space/guest-image';
import { startHelper } from '@space/root-helper';
import { helperConfig } from '@space/server/helper-config';
import { expect, it } from 'vitest';
import { testConfig } from '../e2e/world.ts';

const NODE = { uid: 64_123, gid: 64_124 };

it('a node without root creates, snapshots, forks, rewinds, pauses, resumes and deletes', async () => {
  const config = testConfig(await mkdtemp('/var/tmp/space-e2e-'));
  await chmod(config.dataDir, 0o711);
  for (const folder of [join(config.dataDir, 'vaults'), config.runDir]) {
    await mkdir(folder, { recursive: true, mode: 0o711 });
  }
  const assets = await loadAssets();
  const helper = await startHelper({ program: assets.helper.program, config: helperConfig(config, assets, NODE) });
  try {
    const program = join(import.meta.dirname, 'node-alone.ts');
    const { stdout } = await promisify(execFile)(process.execPath, [program, JSON.stringify(config)], {
      ...NODE,
      env: {},
    });
    expect(JSON.parse(stdout)).toEqual({
      ids: [NODE.uid, NODE.uid, NODE.gid],
      inFork: 'first',
      rewound: 'first',
      resumed: 'first',
      memoryBytes: expect.any(Number),
    });
    expect(await readFile('/proc/self/mountinfo', 'utf8')).not.toContain(config.dataDir);
  } finally {
    await helper.close();
    await rm(config.runDir, { recursive: true, force: true });
    await rm(config.dataDir, { recursive: true, force: true });
  }
});
