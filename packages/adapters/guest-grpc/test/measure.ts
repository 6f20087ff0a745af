/** Measures the channel against the real agent on this machine: `node test/measure.ts`. No VM: what is left is our own cost. */
import { join } from 'node:path';
import { newId } from '@space/core';
import { RealAgent } from './real-agent.ts';

const ROUNDS = 200;
const FILE_BYTES = 200_000_000;
const chance = { bytes: (count: number) => crypto.getRandomValues(new Uint8Array(count)) };

async function sample(rounds: number, run: () => Promise<void>): Promise<string> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const start = performance.now();
    await run();
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  const at = (share: number): string =>
    (times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0).toFixed(2);
  return `p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, p99 ${at(0.99)} ms`;
}

async function* blocks(): AsyncGenerator<Uint8Array, void, undefined> {
  const block = Buffer.alloc(1_000_000, 7);
  for (let sent = 0; sent < FILE_BYTES; sent += block.length) yield block;
}

function rate(start: number): string {
  const seconds = (performance.now() - start) / 1_000;
  const memory = Math.round(process.memoryUsage.rss() / 1e6);
  return `${(FILE_BYTES / 1e6 / seconds).toFixed(0)} MB/s (rss ${memory} MB)`;
}

const agent = await RealAgent.start();
try {
  const connectAndHello = async (): Promise<void> => {
    const guest = await agent.connect();
    await guest.hello();
    await guest.close();
  };
  await connectAndHello();
  console.log('connect + first hello:', await sample(ROUNDS, connectAndHello));

  const guest = await agent.connect();
  console.log('hello:', await sample(ROUNDS, async () => void (await guest.hello())));
  console.log(
    'exec of true:',
    await sample(ROUNDS, async () => {
      const command = { processId: newId('process', chance), argv: ['/bin/true'], env: {}, user: 'root', cwd: '/' };
      for await (const event of guest.exec(command)) if (event.kind === 'exited') break;
    }),
  );

  const file = { path: join(agent.directory, 'file'), user: 'root' };
  const writing = performance.now();
  await guest.writeFile(file, blocks());
  console.log('write, sync and digests:', rate(writing));
  const reading = performance.now();
  let bytes = 0;
  for await (const part of (await guest.readFile(file)).body) bytes += part.length;
  console.log('read:', rate(reading), bytes === FILE_BYTES ? '' : `but ${bytes} bytes`);
  const output = {
    processId: newId('process', chance),
    argv: ['head', '-c', String(FILE_BYTES), '/dev/zero'],
    env: {},
  };
  const printing = performance.now();
  for await (const event of guest.exec({ ...output, user: 'root' })) void event;
  console.log('output of a command:', rate(printing));
  await guest.close();
} finally {
  await agent.stop();
}
