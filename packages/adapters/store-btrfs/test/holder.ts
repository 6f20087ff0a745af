/**
 * A daemon that is going to be killed: opens the vault of the folder given, by the helper at the socket given, does what its
 * third argument says, and then waits for its end.
 *
 *     hold                 takes the vault, boots a life in it and stages a point
 *     all                  does all that a node does with a vault, and closes it
 *     <step of a commit>   commits a point and kills itself at that step
 *     <step of a seal>     the same of a point that is sealed
 */
import type { VaultName } from '@space/core';
import { connectHelper } from '@space/root-helper';
import { bootLife, manifestFor, newLife, newSnapshot, takePoint } from '@space/testkit/vault-suite';
import { openVaultWithSteps } from '../src/open-vault.ts';
import { SEAL_STEPS } from '../src/steps.ts';

const [folder = '', socket = '', task = ''] = process.argv.slice(2);
const deviceState = Buffer.from('device state');

const helper = await connectHelper(socket);
const options = { name: 'default' as VaultName, folder, backing: 'loop', helper } as const;
const vault = await openVaultWithSteps(options, async (step) => {
  if (step === task) process.kill(process.pid, 'SIGKILL');
});
const snapshotId = newSnapshot();
const lifeId = await bootLife(vault);
if (task === 'all') {
  const point = await takePoint(vault, lifeId);
  const forked = newLife();
  await vault.createLife(forked, { kind: 'point', snapshotId: point });
  await vault.createLife(newLife(), { kind: 'crashed', lifeId: forked, memoryBytes: 1024 * 1024 });
  await vault.readPoint(point);
  await takePoint(vault, forked);
  await vault.deletePoint(point);
  for (const each of await vault.lives()) await vault.deleteLife(each);
  await vault.close();
} else if (SEAL_STEPS.some((step) => step === task)) {
  await vault.seal(lifeId, manifestFor(snapshotId, deviceState), deviceState);
} else {
  await vault.capture(lifeId, snapshotId);
  if (task !== 'hold') await vault.commit(manifestFor(snapshotId, deviceState), deviceState);
}
process.stdout.write('ready\n');
// Ends with the test process, if that is the first to die.
process.stdin.on('end', () => process.exit()).resume();
