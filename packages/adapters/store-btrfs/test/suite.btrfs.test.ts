import { closeSync } from 'node:fs';
import { readdir, readlink } from 'node:fs/promises';
import { containersSuite } from '@space/testkit/containers-suite';
import { vaultSuite } from '@space/testkit/vault-suite';
import { afterAll } from 'vitest';
import { BtrfsContainers } from '../src/containers.ts';
import { expectNothingLeft, forgetPattern, makeContainers, makeSealedWorld, makeWorld } from './world.ts';

afterAll(() => forgetPattern());

vaultSuite('Btrfs', () => makeWorld());
vaultSuite('Btrfs, encrypted', () => makeSealedWorld());

containersSuite('Btrfs', async () => {
  const { folder, helper, process: helperProcess, containers, dispose } = await makeContainers();
  return {
    containers,
    async afterCrash() {
      // As the kernel does it: what the dead process had locked is free. The helper dies with it.
      process.kill(helperProcess.pid ?? 0, 'SIGKILL');
      for (const fd of await readdir('/proc/self/fd')) {
        const path = await readlink(`/proc/self/fd/${fd}`).catch(() => '');
        if (path.startsWith(`${folder}/`) && path.endsWith('/lock')) closeSync(Number(fd));
      }
      return new BtrfsContainers({ folder, helper });
    },
    async dispose() {
      try {
        await expectNothingLeft(folder);
      } finally {
        await dispose();
      }
    },
  };
});
