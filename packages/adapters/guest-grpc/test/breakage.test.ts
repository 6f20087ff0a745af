/** The channel breaks at any moment: every call ends with a typed error, nothing is left behind, nothing goes unhandled. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, type ProcessId } from '@space/core';
import { FileStatus_Type } from '@space/guest-proto';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { type Answers, type FakeAgent, fakeAgent } from './fake-agent.ts';

const processId = 'prc_0123456789abcdef' as ProcessId;
const status = { name: Buffer.from('f'), type: FileStatus_Type.FILE };

/** An agent that is busy in every way. */
const busy: Answers = {
  machine: { hello: () => ({ agentVersion: '1', contracts: ['v1'] }) },
  processes: {
    start: async function* () {
      yield { event: { case: 'started', value: { pid: 7 } } };
      for (let offset = 0; ; offset += 9_000) {
        yield { event: { case: 'output', value: { stream: 1, offset: BigInt(offset), data: Buffer.alloc(9_000) } } };
        await sleep(1);
      }
    },
  },
  files: {
    read: async function* () {
      yield { part: { case: 'status', value: status } };
      for (;;) yield { part: { case: 'data', value: Buffer.alloc(30_000) } };
    },
    write: async (requests) => {
      for await (const _request of requests) await sleep(1);
      return {};
    },
  },
};

async function* endless() {
  for (;;) yield Buffer.alloc(70_000);
}

/** One of each kind of call; each ends only when the channel does. */
function everyCall({ guest }: FakeAgent): Promise<unknown>[] {
  const drain = async (items: AsyncIterable<unknown>): Promise<void> => {
    for await (const _item of items);
  };
  const hellos = async (): Promise<void> => {
    for (;;) await guest.hello();
  };
  return [
    hellos(),
    drain(guest.exec({ processId, argv: ['run'], env: {} })),
    guest.readFile({ path: 'f' }).then(({ body }) => drain(body)),
    guest.writeFile({ path: 'f' }, endless()),
  ];
}

test('whenever the channel breaks, every call ends with the same typed error', async () => {
  const unhandled: unknown[] = [];
  const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
  process.on('unhandledRejection', onUnhandled);
  onTestFinished(() => void process.off('unhandledRejection', onUnhandled));

  const breaks = fc.constantFrom<'cut' | 'close' | 'garbage'>('cut', 'close', 'garbage');
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: 30 }), breaks, async (afterMs, how) => {
      const agent = await fakeAgent(busy);
      const calls = Promise.allSettled(everyCall(agent));
      if (afterMs > 0) await sleep(afterMs);
      if (how === 'cut') agent.cut();
      if (how === 'close') await agent.guest.close();
      if (how === 'garbage') for (const link of agent.links) link.raw.write(Buffer.alloc(64, 0xff));
      // Before the handshake garbage is skipped, as it must be.
      await sleep(5);
      await agent.guest.close();
      for (const call of await calls) {
        expect(call.status).toBe('rejected');
        const reason = call.status === 'rejected' ? call.reason : undefined;
        expect(reason).toBeInstanceOf(AppError);
        expect(reason).toMatchObject({ code: 'link_lost' });
      }
      expect(await agent.guest.closed).not.toBe('');
      for (const link of agent.links) link.raw.destroy();
    }),
    { numRuns: 40 },
  );
  await sleep(20);
  expect(unhandled).toEqual([]);
}, 60_000);

test('an idle guest sends nothing', async () => {
  const { guest, links } = await fakeAgent(busy);
  await guest.hello();
  await sleep(50);
  let received = 0;
  links[0]?.raw.on('data', (chunk: Buffer) => {
    received += chunk.length;
  });
  await sleep(500);
  expect(received).toBe(0);
});

test('a caller that aborts many calls leaves no listener on its signal', async () => {
  const { guest } = await fakeAgent(busy);
  const controller = new AbortController();
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  for (let round = 0; round < 30; round += 1) {
    const { body } = await guest.readFile({ path: 'f' }, controller.signal);
    for await (const _part of body) break;
  }
  await sleep(10);
  expect(warnings).toEqual([]);
});
