/**
 * Records what the agent of the present version sends, into `golden/agent-<version>.json`: a fixture for all later hosts. Run
 * once for each release whose agent is another: `node packages/adapters/guest-grpc/test/record-agent.ts`.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connectGuest } from '../src/index.ts';
import { RealAgent } from './real-agent.ts';
import { CALLS, meaningOf, RECORDED_CLOCK, type Recording, tapped } from './recorded-agent.ts';

const agent = await RealAgent.start();
try {
  const recordings: Recording[] = [];
  let version = '';
  for (const call of Object.keys(CALLS)) {
    const { connect, heard } = tapped(agent.port);
    const guest = await connectGuest(connect, { clock: RECORDED_CLOCK });
    const means = await meaningOf(call, guest);
    if (call === 'hello') version = (means as { result: { agentVersion: string } }).result.agentVersion;
    recordings.push({ call, answer: heard().toString('hex'), means });
    await guest.close();
  }
  const folder = join(import.meta.dirname, 'golden');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `agent-${version}.json`), `${JSON.stringify(recordings, null, 2)}\n`);
} finally {
  await agent.stop();
}
