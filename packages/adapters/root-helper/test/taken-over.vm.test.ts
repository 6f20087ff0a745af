/** What the user of the node can do on the machine, beyond asking the helper. */
import { execFileSync } from 'node:child_process';
import { closeSync } from 'node:fs';
import { chown, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { connectHelper, socketPair } from '../src/index.ts';
import { KIND, makeWorld, RUN } from './world.ts';

const NODE = { uid: 64_123, gid: 64_124 };

it('a process with the uid of the node can reach nothing of the host, of root or of another user', async () => {
  await using world = await makeWorld(NODE);
  const { config } = world;
  const vmm = await asNode(async () => {
    const helper = await connectHelper(world.process.socketPath);
    const { ours, theirs } = socketPair();
    ours.on('error', () => undefined).resume();
    await helper.openVault('default');
    const started = await helper.startVmm(RUN, KIND, theirs);
    closeSync(theirs);
    helper.close();
    return started;
  });
  const fileOfAnother = join(world.folder, 'of-another');
  await writeFile(fileOfAnother, 'private', { mode: 0o600 });
  await chown(fileOfAnother, 64_777, 64_777);
  const known = {
    config: {
      folder: config.folder,
      runDir: config.runDir,
      registry: config.uids.registry,
      vault: config.vaults[0]?.folder,
    },
    ...{ run: RUN, vmmPid: vmm.pid, helperPid: world.process.pid, fileOfAnother },
  };
  const program = join(import.meta.dirname, 'taken-over.ts');
  const said = execFileSync(process.execPath, [program, JSON.stringify(known)], { ...NODE, encoding: 'utf8' });
  const { uid, ends } = JSON.parse(said) as { uid: number; ends: Record<string, string> };
  expect(uid).toBe(NODE.uid);
  const { 'read the record of a VMM': record, ...attempts } = ends;
  expect(record).toBe('done');
  expect(Object.keys(attempts).length).toBeGreaterThan(15);
  expect(Object.entries(attempts).filter(([, end]) => end !== 'refused')).toEqual([]);
  await asNode(async () => {
    const helper = await connectHelper(world.process.socketPath);
    await helper.endVmm(RUN);
    await helper.clearVmm(RUN);
    await helper.closeVault('default');
    helper.close();
  });
  expect(await world.remains()).toEqual([]);
});

/** This thread's effective user, for as long as it takes: whom the helper sees as its peer. */
async function asNode<T>(work: () => Promise<T>): Promise<T> {
  process.setegid?.(NODE.gid);
  process.seteuid?.(NODE.uid);
  try {
    return await work();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
  }
}
