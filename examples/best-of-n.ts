/** Best of N: prepare once, fork, let each copy try another way, keep the best and delete the rest. */
import { Sandbox } from '@space/sdk';

const ways = ['echo "a short answer" > answer', 'echo "a much longer and better answer" > answer', 'exit 1'];

await using source = await Sandbox.create();
await source.files.write('task.md', 'Answer well.\n'); // what all copies share, made once

const copies = await source.fork(ways.length); // all from one instant, each with its own identity and clock
const scores = await Promise.all(
  copies.map(async (copy, way) => {
    const { exitCode } = await copy.run(ways[way] ?? 'true', { timeoutMs: 60_000 });
    return exitCode === 0 ? (await copy.files.read('answer')).length : 0;
  }),
);

const best = scores.indexOf(Math.max(...scores));
console.log(`way ${best + 1} wins: ${(await copies[best]?.files.read('answer'))?.trimEnd()}`);
await Promise.all(copies.map((copy) => copy.delete()));
