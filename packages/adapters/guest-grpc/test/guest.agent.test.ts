/** The cases that every guest passes, against the real agent, and what only a real one can show. */
import { mkdirSync } from 'node:fs';
import { connect as connectSocket } from 'node:net';
import { join } from 'node:path';
import { newId } from '@space/core';
import { guestSuite } from '@space/testkit/guest-suite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FRAME_KIND, frameHeader, MAX_PAYLOAD_BYTES } from '../src/frame.ts';
import { canMakeCgroup, RealAgent } from './real-agent.ts';

const chance = { bytes: (count: number) => crypto.getRandomValues(new Uint8Array(count)) };

let agent: RealAgent;
let cases = 0;

beforeAll(async () => {
  agent = await RealAgent.start();
});
afterAll(() => agent?.stop());

const hasCgroup = canMakeCgroup();

guestSuite(
  async () => {
    cases += 1;
    const directory = join(agent.directory, `case-${cases}`);
    mkdirSync(directory);
    return { guest: await agent.connect(), reconnect: () => agent.connect(), user: 'root', directory };
  },
  { shell: true, fileSystem: true, xattrs: true, freeze: hasCgroup, trees: hasCgroup },
);

test('an agent left inside a cut frame by a host that died is reached again', async () => {
  const dying = connectSocket(join(agent.directory, 'control'));
  dying.write(frameHeader(FRAME_KIND.data, Buffer.alloc(8, 1), MAX_PAYLOAD_BYTES));
  await new Promise((resolve) => setTimeout(resolve, 20));
  const guest = await agent.connect();
  expect((await guest.hello()).frozen).toBe(false);
  dying.destroy();
  await guest.close();
});

test('output without end passes in bounded memory', async () => {
  const guest = await agent.connect();
  const command = { processId: newId('process', chance), argv: ['head', '-c', '400000000', '/dev/zero'], env: {} };
  const before = process.memoryUsage().arrayBuffers;
  let highest = 0;
  let bytes = 0;
  for await (const event of guest.exec({ ...command, user: 'root' })) {
    if (event.kind !== 'output') continue;
    bytes += event.data.length;
    highest = Math.max(highest, process.memoryUsage().arrayBuffers - before);
  }
  expect(bytes).toBe(400_000_000);
  expect(highest).toBeLessThan(150_000_000);
  await guest.close();
}, 60_000);

test('the death of the agent ends running streams as link_lost', async () => {
  const other = await RealAgent.start();
  const guest = await other.connect();
  const command = { processId: newId('process', chance), argv: ['sleep', '0.5'], env: {}, user: 'root' };
  const events = guest.exec(command)[Symbol.asyncIterator]();
  await events.next();
  const next = events.next();
  process.kill(other.pid, 'SIGKILL');
  await expect(next).rejects.toMatchObject({ code: 'link_lost' });
  await guest.closed;
  await other.stop();
});
