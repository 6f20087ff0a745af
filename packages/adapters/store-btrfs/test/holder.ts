/**
 * A daemon that is going to be killed: opens the vault of the folder given, does what its second argument says, and then
 * waits for its end.
 *
 *     hold                 takes the vault, boots a life in it and stages a point
 *     attach               attaches the loop device and does not get to mounting it
 *     <step of a commit>   commits a point and kills itself at that step
 */
import { join } from 'node:path';
import type { VaultName } from '@space/core';
import { bootLife, manifestFor, newSnapshot } from '@space/testkit/vault-suite';
import { attachLoop } from '../src/loop.ts';
import { openVaultWithSteps } from '../src/open-vault.ts';

const [folder = '', task = ''] = process.argv.slice(2);
const sizeBytes = 512 * 1024 * 1024;
const deviceState = Buffer.from('device state');

if (task === 'attach') {
  await attachLoop(join(folder, 'vault.btrfs'));
} else {
  const options = { name: 'default' as VaultName, folder, backing: { kind: 'loop', sizeBytes } } as const;
  const vault = await openVaultWithSteps(options, async (step) => {
    if (step === task) process.kill(process.pid, 'SIGKILL');
  });
  const snapshotId = newSnapshot();
  await vault.capture(await bootLife(vault), snapshotId);
  if (task !== 'hold') await vault.commit(manifestFor(snapshotId, deviceState), deviceState);
}
process.stdout.write('ready\n');
// Ends with the test process, if that is the first to die.
process.stdin.on('end', () => process.exit()).resume();
