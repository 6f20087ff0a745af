import { Sandbox } from '@space/sdk';

const sandbox = await Sandbox.create();
await sandbox.files.write('task.md', 'Find the bug.\n');
const { stdout } = await sandbox.run('python3 -c "print(6 * 7)"');

const before = await sandbox.snapshot(); // disk and memory; the sandbox runs on
const copies = await sandbox.fork(2); // two running copies, from one instant
await Promise.all(copies.map((copy, way) => copy.run(`echo "way ${way}" > answer`)));

await sandbox.rewind(before); // back to the point, running programs included
await sandbox.pause(); // no process left; everything kept
console.log(stdout.trim(), (await sandbox.run('cat task.md')).stdout.trim()); // wakes it

for (const each of [sandbox, ...copies]) await each.delete();
