import { setTimeout as sleep } from 'node:timers/promises';
import { Code, ConnectError } from '@connectrpc/connect';
import type { GuestCommand, ProcessEvent, ProcessId } from '@space/core';
import { Output_Stream, type StartRequest } from '@space/guest-proto';
import { expect, test } from 'vitest';
import { type Answers, fakeAgent } from './fake-agent.ts';

const processId = 'prc_0123456789abcdef' as ProcessId;
const command: GuestCommand = { processId, argv: ['run'], env: {} };

type Start = NonNullable<NonNullable<Answers['processes']>['start']>;
type Event = ReturnType<Start> extends AsyncIterable<infer E> ? E : never;

const started: Event = { event: { case: 'started', value: { pid: 7 } } };
const exited = (code: number): Event => ({ event: { case: 'exited', value: { end: { case: 'code', value: code } } } });
const output = (text: string, offset: bigint, stream: Output_Stream = Output_Stream.STDOUT): Event => ({
  event: { case: 'output', value: { stream, offset, data: Buffer.from(text) } },
});

/** An agent whose every command has these events. */
function runs(...events: Event[]): Answers {
  return {
    processes: {
      start: async function* () {
        yield* events;
      },
    },
  };
}

function failsWith(code: Code, message: string): Answers {
  return {
    processes: {
      // biome-ignore lint/correctness/useYield: a stream that fails before its first event.
      start: async function* () {
        throw new ConnectError(message, code);
      },
    },
  };
}

/** All events, and what the stream ended with, if it failed. */
async function outcome(events: AsyncIterable<ProcessEvent>) {
  const seen: ProcessEvent[] = [];
  try {
    for await (const event of events) seen.push(event);
  } catch (failure) {
    return { seen, failure };
  }
  return { seen };
}

test('a command starts, prints and exits', async () => {
  const { guest } = await fakeAgent(
    runs(started, output('ab', 0n), output('e', 0n, Output_Stream.STDERR), output('c', 2n), exited(3)),
  );
  expect((await outcome(guest.exec(command))).seen).toEqual([
    { kind: 'started', processId, pid: 7 },
    { kind: 'output', stream: 'stdout', offset: 0, data: Buffer.from('ab') },
    { kind: 'output', stream: 'stderr', offset: 0, data: Buffer.from('e') },
    { kind: 'output', stream: 'stdout', offset: 2, data: Buffer.from('c') },
    { kind: 'exited', exit: { code: 3 }, timedOut: false, oom: false },
  ]);
});

test('a command killed by a signal says so', async () => {
  const end: Event = { event: { case: 'exited', value: { end: { case: 'signal', value: 9 } } } };
  const { guest } = await fakeAgent(runs(started, end));
  expect((await outcome(guest.exec(command))).seen.at(-1)).toMatchObject({ kind: 'exited', exit: { signal: 9 } });
});

test('the command travels as UTF-8 bytes', async () => {
  let got: StartRequest | undefined;
  const { guest } = await fakeAgent({
    processes: {
      start: async function* (request) {
        got = request;
        yield started;
        yield exited(0);
      },
    },
  });
  await outcome(guest.exec({ processId, argv: ['ä', ''], env: { A: 'ß' }, cwd: '/é', user: 'root' }));
  expect(got).toMatchObject({ processId, user: 'root' });
  expect(got?.argv.map((argument) => Buffer.from(argument).toString())).toEqual(['ä', '']);
  expect(Buffer.from(Object.values(got?.env ?? {})[0] ?? []).toString()).toBe('ß');
  expect(Buffer.from(got?.cwd ?? []).toString()).toBe('/é');
});

const impossible: Record<string, Partial<GuestCommand>> = {
  'no arguments': { argv: [] },
  'a NUL in an argument': { argv: ['a\0b'] },
  'a lone surrogate': { argv: ['\ud800'] },
  'a variable without a name': { env: { '': 'x' } },
  'a variable with "=" in its name': { env: { 'A=B': 'x' } },
  'too many bytes': { argv: ['x'.repeat(300_000)] },
};

test.each(Object.entries(impossible))('%s is a bad_request', async (_name, part) => {
  const { guest } = await fakeAgent(runs(started, exited(0)));
  expect((await outcome(guest.exec({ ...command, ...part }))).failure).toMatchObject({ code: 'bad_request' });
});

const broken: Record<string, Event[]> = {
  'ends without an exit': [started, output('a', 0n)],
  'ends before it starts': [],
  'prints before it starts': [output('a', 0n)],
  'starts twice': [started, started],
  'leaves a gap': [started, output('a', 0n), output('b', 2n)],
  'repeats output': [started, output('a', 0n), output('a', 0n)],
  'prints on an unknown stream': [started, output('a', 0n, 9 as Output_Stream)],
  'exits with neither code nor signal': [started, { event: { case: 'exited', value: {} } }],
  'exits with an impossible code': [started, exited(70_000)],
  'sends an unknown event': [started, {}],
  'goes on after its exit': [started, exited(0), output('a', 0n)],
};

test.each(Object.entries(broken))('a command that %s is link_lost, never a made-up exit', async (_name, events) => {
  const { guest } = await fakeAgent(runs(...events));
  const { seen, failure } = await outcome(guest.exec(command));
  expect(failure).toMatchObject({ code: 'link_lost' });
  expect(seen.filter((event) => event.kind === 'exited')).toHaveLength(
    events.length === 3 && _name.startsWith('goes') ? 1 : 0,
  );
});

test.each([
  [Code.NotFound, 'command_not_started'],
  [Code.PermissionDenied, 'command_not_started'],
  [Code.FailedPrecondition, 'command_not_started'],
  [Code.InvalidArgument, 'command_not_started'],
  [Code.AlreadyExists, 'name_taken'],
  [Code.ResourceExhausted, 'guest_exhausted'],
  [Code.Unavailable, 'link_lost'],
  [Code.Internal, 'internal'],
])('a start that the agent answers with %i is %s', async (code, expected) => {
  const { guest } = await fakeAgent(failsWith(code, 'ENOENT\u0007 no such\r\nfile'));
  const { failure } = await outcome(guest.exec(command));
  expect(failure).toMatchObject({ code: expected, message: 'ENOENT no such file' });
});

test('a status after the start is an interruption, not a fact about the command', async () => {
  const { guest } = await fakeAgent({
    processes: {
      start: async function* () {
        yield started;
        throw new ConnectError('lost it', Code.NotFound);
      },
    },
  });
  expect((await outcome(guest.exec(command))).failure).toMatchObject({ code: 'agent_lost' });
});

test('a command that could not be killed when its time had passed is timed_out, never an exit', async () => {
  const { guest } = await fakeAgent({
    processes: {
      start: async function* () {
        yield started;
        throw new ConnectError('not killed', Code.DeadlineExceeded);
      },
    },
  });
  const { seen, failure } = await outcome(guest.exec({ ...command, timeoutMs: 10 }));
  expect(failure).toMatchObject({ code: 'timed_out' });
  expect(seen).toHaveLength(1);
});

test('a command without a first event in time is agent_lost; a running one may be silent', async () => {
  const silent = await fakeAgent(
    {
      processes: {
        start: async function* (_request, context) {
          await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
          yield started;
        },
      },
    },
    { limits: { startMs: 50 } },
  );
  expect((await outcome(silent.guest.exec(command))).failure).toMatchObject({ code: 'agent_lost' });
  const slow = await fakeAgent(
    {
      processes: {
        start: async function* () {
          yield started;
          await sleep(200);
          yield exited(0);
        },
      },
    },
    { limits: { startMs: 50 } },
  );
  expect((await outcome(slow.guest.exec(command))).seen).toHaveLength(2);
});

/** An agent whose commands print without end, and that knows how many streams are open. */
function endless() {
  const state = { open: 0, sentBytes: 0 };
  const answers: Answers = {
    processes: {
      start: async function* (_request, context) {
        state.open += 1;
        try {
          yield started;
          const data = Buffer.alloc(32_768);
          while (!context.signal.aborted) {
            yield { event: { case: 'output', value: { stream: 1, offset: BigInt(state.sentBytes), data } } };
            state.sentBytes += data.length;
          }
        } finally {
          state.open -= 1;
        }
      },
      list: () => ({ processes: [] }),
    },
  };
  return { state, answers };
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; !condition(); tries += 1) {
    if (tries > 500) throw new Error('the condition did not come true');
    await sleep(10);
  }
}

test('aborting ends the stream with the reason of the signal', async () => {
  const { state, answers } = endless();
  const { guest } = await fakeAgent(answers);
  const controller = new AbortController();
  const reason = new Error('enough');
  const running = outcome(guest.exec(command, controller.signal));
  await until(() => state.sentBytes > 100_000);
  controller.abort(reason);
  expect((await running).failure).toBe(reason);
  await until(() => state.open === 0);
  expect(await guest.processes()).toEqual([]);
});

test('leaving the stream ends it at the agent', async () => {
  const { state, answers } = endless();
  const { guest } = await fakeAgent(answers);
  for await (const event of guest.exec(command)) if (event.kind === 'output') break;
  await until(() => state.open === 0);
});

test('a reader that lags holds up its own stream, bounded, and no other call', async () => {
  const { state, answers } = endless();
  const { guest } = await fakeAgent(answers);
  const reader = guest.exec(command)[Symbol.asyncIterator]();
  await reader.next();
  await reader.next();
  let before = -1;
  await until(() => {
    const still = state.sentBytes === before;
    before = state.sentBytes;
    return still;
  });
  expect(state.sentBytes).toBeLessThan(2_000_000);
  expect(await guest.processes()).toEqual([]);
  await reader.return?.();
});

test('a link that breaks while a command runs is link_lost', async () => {
  const { state, answers } = endless();
  const { guest, cut } = await fakeAgent(answers);
  const running = outcome(guest.exec(command));
  await until(() => state.sentBytes > 100_000);
  cut();
  const { seen, failure } = await running;
  expect(failure).toMatchObject({ code: 'link_lost' });
  expect(seen.some((event) => event.kind === 'exited')).toBe(false);
});

test('a stream that is attached to begins at its offsets, and what was lost has its place', async () => {
  let got: unknown;
  const { guest } = await fakeAgent({
    processes: {
      attach: async function* (request) {
        got = request;
        yield started;
        yield { event: { case: 'lost', value: { stream: Output_Stream.STDOUT, offset: 5n, size: 10n } } };
        yield output('ab', 15n);
        yield output('e', 3n, Output_Stream.STDERR);
        yield exited(0);
      },
    },
  });
  const { seen } = await outcome(guest.attach({ processId, stdoutOffset: 5, stderrOffset: 3 }));
  expect(got).toMatchObject({ processId, stdoutOffset: 5n, stderrOffset: 3n });
  expect(seen.slice(1, -1)).toEqual([
    { kind: 'lost', stream: 'stdout', offset: 5, sizeBytes: 10 },
    { kind: 'output', stream: 'stdout', offset: 15, data: Buffer.from('ab') },
    { kind: 'output', stream: 'stderr', offset: 3, data: Buffer.from('e') },
  ]);
});

test.each([
  [Code.NotFound, 'not_found'],
  [Code.OutOfRange, 'bad_request'],
  [Code.ResourceExhausted, 'unavailable'],
])('an attach that the agent answers with %i is %s', async (code, expected) => {
  const { guest } = await fakeAgent({
    processes: {
      // biome-ignore lint/correctness/useYield: a stream that fails before its first event.
      attach: async function* () {
        throw new ConnectError('no', code);
      },
    },
  });
  const { failure } = await outcome(guest.attach({ processId, stdoutOffset: 0, stderrOffset: 0 }));
  expect(failure).toMatchObject({ code: expected });
});

test('input has its place, or goes to the end; one that is closed says so', async () => {
  const got: unknown[] = [];
  const { guest } = await fakeAgent({
    processes: {
      writeInput: ({ offset, data, eof }) => {
        if (eof) throw new ConnectError('closed', Code.FailedPrecondition);
        got.push([offset, String(Buffer.from(data))]);
        return { accepted: 9n };
      },
    },
  });
  const write = (text: string, more: object = {}) =>
    guest.writeInput({ processId, data: Buffer.from(text), eof: false, ...more });
  expect(await write('a', { offset: 4 })).toEqual({ acceptedBytes: 9 });
  await write('b');
  expect(got).toEqual([
    [4n, 'a'],
    [undefined, 'b'],
  ]);
  await expect(write('', { eof: true })).rejects.toMatchObject({ code: 'input_closed' });
  await expect(write('x'.repeat(70_000))).rejects.toMatchObject({ code: 'bad_request' });
});

test('signals go to the whole tree or the leader', async () => {
  const got: unknown[] = [];
  const { guest } = await fakeAgent({
    processes: {
      signal: ({ processId: id, signal, tree }) => {
        got.push([id, signal, tree]);
        return {};
      },
    },
  });
  await guest.signalProcess(processId, 9, 'tree');
  await guest.signalProcess(processId, 2, 'leader');
  expect(got).toEqual([
    [processId, 9, true],
    [processId, 2, false],
  ]);
  await expect(guest.signalProcess(processId, 0, 'tree')).rejects.toMatchObject({ code: 'bad_request' });
});

test('a signal to a process that is gone is not_found', async () => {
  const { guest } = await fakeAgent({
    processes: {
      signal: () => {
        throw new ConnectError('no such process', Code.NotFound);
      },
    },
  });
  await expect(guest.signalProcess(processId, 15, 'tree')).rejects.toMatchObject({ code: 'not_found' });
});

test('processes are listed; an id that is none of ours is refused', async () => {
  let id: string = processId;
  const { guest } = await fakeAgent({
    processes: {
      list: ({ ended }) => ({
        processes: [
          {
            processId: id,
            pid: 7,
            argv: [Buffer.from('ä')],
            cwd: Buffer.from('/'),
            leaderAlive: !ended,
            liveProcesses: 2,
            startedNs: 1_700_000_000_123_456_789n,
            stdoutBytes: 5n,
            ...(ended ? { exited: { end: { case: 'code', value: 3 } } as const } : {}),
          },
        ],
      }),
    },
  });
  const process = {
    processId,
    pid: 7,
    argv: ['ä'],
    cwd: '/',
    pty: false,
    label: '',
    startedMs: 1_700_000_000_123,
    leaderAlive: true,
    liveProcesses: 2,
    stdoutBytes: 5,
    stderrBytes: 0,
    stdinBytes: 0,
  };
  expect(await guest.processes()).toEqual([process]);
  const end = { exit: { code: 3 }, timedOut: false, oom: false };
  expect(await guest.processes({ ended: true })).toEqual([{ ...process, leaderAlive: false, end }]);
  id = '../../etc';
  await expect(guest.processes()).rejects.toMatchObject({ code: 'link_lost' });
});
