/**
 * Agents of earlier versions, which live on in snapshots, are understood: as they were recorded, and where they lack what has
 * come since. How the recordings come about: `CONTRIBUTING.md`.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ProcessId } from '@space/core';
import { describe, expect, it } from 'vitest';
import { connectGuest } from '../src/index.ts';
import { fakeAgent } from './fake-agent.ts';
import { meaningOf, playing, RECORDED_CLOCK, type Recording } from './recorded-agent.ts';

const GOLDEN = join(import.meta.dirname, 'golden');

const recordings = globSync('agent-*.json', { cwd: GOLDEN }).flatMap((file) =>
  (JSON.parse(readFileSync(join(GOLDEN, file), 'utf8')) as Recording[]).map(
    (recording) => [file.replace('.json', ''), recording.call, recording] as const,
  ),
);

it.each(recordings)('%s is understood: %s', async (_, call, recording) => {
  const guest = await connectGuest(playing(recording), { clock: RECORDED_CLOCK });
  expect(await meaningOf(call, guest)).toEqual(recording.means);
  await guest.close();
});

it('the present agent has been recorded', () => {
  const manifest = readFileSync(join(import.meta.dirname, '../../../../guest/agent/Cargo.toml'), 'utf8');
  const version = /^version = "(.*)"$/m.exec(manifest)?.[1];
  expect(recordings.map(([name]) => name)).toContain(`agent-${version}`);
});

/** As the first of all agents spoke: it took commands, and had no files, ports, terminals or attaching. */
describe('an agent that lacks a call', () => {
  const HELLO = { agentVersion: '0.0.1', contracts: ['v1'], uptimeNs: 1n, frozen: false };
  const first = () => fakeAgent({ machine: { hello: () => HELLO, thaw: () => ({ processes: 1 }) } });
  const processId = 'prc_0123456789abcdef' as ProcessId;

  it.each([
    ['files', ({ guest }) => guest.stat({ path: '/' })],
    ['extended attributes', ({ guest }) => guest.xattrs({ path: '/' })],
    ['watches', ({ guest }) => Array.fromAsync(guest.watch({ path: '/' }))],
    ['ports', ({ guest }) => guest.openPort(8000)],
    ['attaching', ({ guest }) => Array.fromAsync(guest.attach({ processId, stdoutOffset: 0, stderrOffset: 0 }))],
    ['terminals', ({ guest }) => guest.resizeTerminal(processId, { cols: 80, rows: 24 })],
    ['input', ({ guest }) => guest.writeInput({ processId, data: new Uint8Array(1), eof: false })],
  ] satisfies [string, (agent: Awaited<ReturnType<typeof first>>) => Promise<unknown>][])(
    'says so by name for %s, and serves the calls that it has',
    async (_, call) => {
      const agent = await first();
      await expect(call(agent)).rejects.toMatchObject({
        code: 'snapshot_unfit',
        message: expect.stringContaining('does not have this call'),
      });
      expect(await agent.guest.hello()).toMatchObject({ agentVersion: '0.0.1' });
      await agent.guest.thaw();
    },
  );
});
