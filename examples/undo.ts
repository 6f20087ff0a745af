/** A rewind can itself be undone: it keeps what was, as a snapshot. */
import { Sandbox } from '@space/sdk';

await using sandbox = await Sandbox.create();
await sandbox.files.write('report', 'first draft');
const point = await sandbox.snapshot({ note: 'first draft' });
await sandbox.files.write('report', 'second draft');

const kept = await sandbox.rewind(point);
console.log('after the rewind:', await sandbox.files.read('report'));

if (kept !== null) await sandbox.rewind(kept);
console.log('after undoing it:', await sandbox.files.read('report'));

for (const { cause, note } of (await sandbox.timeline()).snapshots) console.log('in the timeline:', cause, note ?? '');
