/** The README's program: `npm run example -- examples/first.ts`, with SPACE_API_KEY set. */
import { Sandbox } from '@space/sdk';

await using sandbox = await Sandbox.create();
await sandbox.files.write('task.md', 'Find the bug.\n');
const { stdout } = await sandbox.run('python3 -c "print(6 * 7)"');
console.log(`Python says ${stdout.trim()}`);

const before = await sandbox.snapshot();
for (const [index, copy] of (await sandbox.fork(2)).entries()) {
  await copy.run(`echo "way ${index + 1}" > answer`);
  console.log(`A copy went its own way: ${(await copy.run('cat answer')).stdout.trim()}`);
  await copy.delete();
}

await sandbox.rewind(before);
await sandbox.pause();
console.log(`Woken, it still has its file: ${(await sandbox.run('cat task.md')).stdout.trim()}`);
