/** An agent's loop: a snapshot before each turn, so that a turn that went wrong is as if it had never been. */
import { Sandbox, type Snapshot } from '@space/sdk';

/** What a model would answer: a command for each turn. */
const turns = ['echo "the bug is in parse()" > notes', 'echo "fixed it" >> notes', 'rm notes; exit 1'];

await using sandbox = await Sandbox.create();
const before: Snapshot[] = [];

for (const [turn, command] of turns.entries()) {
  before.push(await sandbox.snapshot({ note: `before turn ${turn + 1}` }));
  const { exitCode } = await sandbox.run(command, { timeoutMs: 60_000 });
  console.log(`turn ${turn + 1}: exit code ${exitCode}`);
  if (exitCode === 0) continue;
  await sandbox.rewind(before[turn] as Snapshot); // files, memory and running programs
  console.log(`turn ${turn + 1} is taken back`);
}

console.log((await sandbox.run('cat notes')).stdout.trimEnd());
