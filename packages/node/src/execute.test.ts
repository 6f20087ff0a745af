import { AppError, type GuestCommand, newId, type ProcessEvent } from '@space/core';
import { seededChance } from '@space/testkit';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { execute } from './execute.ts';

const processId = newId('process', seededChance(1));
const command: GuestCommand = { processId, argv: ['x'], env: {}, timeoutMs: 1_000 };
const output: ProcessEvent = { kind: 'output', stream: 'stdout', data: Buffer.from('x'), offset: 0 };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** An agent that prints so often, then says nothing until it is given up. */
const printing = (times: number) => ({
  async *exec(_command: GuestCommand, signal?: AbortSignal) {
    for (let time = 0; time < times; time++) yield output;
    await new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
  },
});

it('gives up an agent that is silent long after the time limit', async () => {
  const events = execute(printing(1), command)[Symbol.asyncIterator]();
  await events.next();
  const next = events.next();
  const failing = expect(next).rejects.toMatchObject({ code: 'agent_lost' });
  await vi.advanceTimersByTimeAsync(20_900);
  const isOver = await Promise.race([
    next.then(
      () => true,
      () => true,
    ),
    Promise.resolve(false),
  ]);
  expect(isOver).toBe(false);
  await vi.advanceTimersByTimeAsync(200);
  await failing;
});

it('takes no slow reader for an agent that is lost', async () => {
  const events = execute(printing(5), command)[Symbol.asyncIterator]();
  for (let read = 0; read < 5; read++) {
    expect((await events.next()).value).toEqual(output);
    await vi.advanceTimersByTimeAsync(60_000);
  }
  const failing = expect(events.next()).rejects.toMatchObject({ code: 'agent_lost' });
  await vi.advanceTimersByTimeAsync(19_000);
  await vi.advanceTimersByTimeAsync(2_000);
  await failing;
});

it.each([undefined, 40 * 24 * 60 * 60 * 1000])(
  'waits for a command as long as its limit (%s ms) says',
  async (timeoutMs) => {
    const { timeoutMs: _, ...unlimited } = command;
    const patient = timeoutMs === undefined ? unlimited : { ...unlimited, timeoutMs };
    const events = execute(printing(1), patient)[Symbol.asyncIterator]();
    await events.next();
    let isOver = false;
    void events.next().finally(() => {
      isOver = true;
    });
    await vi.advanceTimersByTimeAsync(30 * 24 * 60 * 60 * 1000);
    expect(isOver).toBe(false);
  },
);

it('starts a command again that met a frozen guest', async () => {
  vi.useRealTimers();
  let tries = 0;
  const guest = {
    async *exec(): AsyncIterable<ProcessEvent> {
      if (++tries < 3) throw new AppError('command_not_started', 'frozen');
      yield output;
    },
  };
  expect(await Array.fromAsync(execute(guest, command))).toEqual([output]);
  expect(tries).toBe(3);
});
