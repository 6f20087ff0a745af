/** A template of your own: set a sandbox up once, name a snapshot of it, and create others from that. */
import { randomUUID } from 'node:crypto';
import { deleteSnapshot, Sandbox } from '@space/sdk';

const name = `with-tools-${randomUUID().slice(0, 8)}`; // this program's own; yours would be `with-tools`

const setUp = await Sandbox.create();
await setUp.files.write('tools/greet.sh', 'echo hello from the tools\n');
const golden = await setUp.snapshot({ name }); // outlives its sandbox
await setUp.delete();

const sandboxes = await Promise.all([1, 2].map(() => Sandbox.create({ snapshot: name })));
for (const sandbox of sandboxes) console.log((await sandbox.run('cat tools/greet.sh')).stdout.trimEnd());

for (const sandbox of sandboxes) await sandbox.delete();
await deleteSnapshot(golden.id);
