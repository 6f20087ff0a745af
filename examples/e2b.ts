// An agent that was written for E2B. Where it runs is said by E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY.
import { Sandbox } from 'e2b';

const sandbox = await Sandbox.create({ metadata: { task: 'bug' }, envs: { WHO: 'agent' }, timeoutMs: 300_000 });
try {
  await sandbox.files.write('task.md', 'Find the bug.\n');
  const { stdout } = await sandbox.commands.run('cat task.md');
  console.log(stdout.trim());

  const before = await sandbox.createSnapshot(); // disk and memory; the sandbox runs on
  await sandbox.pause();
  const again = await Sandbox.connect(sandbox.sandboxId);
  console.log((await again.files.read('task.md')).trim());

  const copy = await Sandbox.create(before.snapshotId, { timeoutMs: 60_000 });
  console.log(await copy.files.exists('task.md'));
  await copy.kill();
  await Sandbox.deleteSnapshot(before.snapshotId);
} finally {
  await sandbox.kill();
}
