/** A command in a sandbox behaves as one that runs here: on a pipe, on a terminal, and however it ends. */
import { EventEmitter, once } from 'node:events';
import { constants } from 'node:os';
import { Sandbox } from '@space/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from './pty.ts';
import { World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await World.start();
  await world.ok('create', '--name', 'box', '--env', 'GREETING=hello there');
});
afterAll(() => world[Symbol.asyncDispose]());

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => from + at);

describe('an exit code', () => {
  it('passes through, whatever it is', async () => {
    // Those that a shell or this program gives a meaning to, those beside them, and the ends of a byte.
    for (const code of [0, 1, 2, 3, 63, 64, 99, ...range(123, 159), 191, 192, 254, 255]) {
      expect((await world.run(['exec', 'box', `exit ${code}`])).code).toBe(code);
    }
  });

  it('is 128 + N when signal N ended the command, and 124 when its time had passed', async () => {
    const killed = world.run(['exec', 'box', 'sleep 1000']);
    const [{ processId }] = await untilRunning();
    await (await Sandbox.connect('box', world.platform.connection)).kill(processId, 'SIGKILL');
    expect((await killed).code).toBe(137);
    expect((await world.run(['exec', '--timeout', '200ms', 'box', 'sleep 1000'])).code).toBe(124);
  });

  it('is 127 when the command cannot start, 125 when SPACE fails, and 2 when the words make no sense', async () => {
    expect((await world.run(['exec', 'box', '/no/such', 'program'])).code).toBe(127);
    expect((await world.run(['exec', 'nobody', 'true'])).code).toBe(125);
    expect((await world.run(['exec', 'box', 'true'], { env: { SPACE_URL: 'http://127.0.0.1:9' } })).code).toBe(125);
    expect((await world.run(['exec'])).code).toBe(2);
    expect((await world.run(['ls', '--nonsense'])).code).toBe(2);
  });
});

describe('a signal while the sandbox is made', () => {
  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    '%s ends `run` as it would any program, and leaves nothing',
    async (signal) => {
      const signals = new EventEmitter();
      const ending = world.run(['run', 'echo never'], { signals });
      await until(() => signals.listenerCount(signal) > 0);
      signals.emit(signal, signal);
      const { code, stdout } = await ending;
      expect([code, stdout.toString()]).toEqual([128 + constants.signals[signal], '']);
      expect(await world.json('ls')).toHaveLength(1);
    },
  );
});

describe('on a pipe', () => {
  it('input and output are bytes, whatever they are, and ends travel', async () => {
    const stdin = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 7) & 255));
    const { code, stdout } = await world.spawned(['exec', 'box', 'cat'], { stdin });
    expect(code).toBe(0);
    expect(Buffer.compare(stdout, stdin)).toBe(0);
    expect((await world.run(['exec', '--no-stdin', 'box', 'cat'], { stdin: 'x' })).stdout).toHaveLength(0);
  });

  it('stdout and stderr stay apart, and several words are a program with its arguments', async () => {
    const { stdout, stderr } = await world.run(['exec', 'box', 'echo $GREETING; echo oh >&2']);
    expect([stdout.toString(), stderr]).toEqual(['hello there\n', 'oh\n']);
    expect(await world.ok('exec', '-e', 'A=1', '-w', '/tmp', 'box', 'echo', '$GREETING', '-e', 'x')).toBe(
      '$GREETING -e x\n',
    );
  });

  it('a reader that leaves ends the command, as in a pipe of a shell', async () => {
    const writer = world.start(['exec', 'box', 'bytes 4000000; sleep 1000']);
    writer.stdout.once('data', () => writer.stdout.destroy());
    expect(await once(writer, 'exit')).toEqual([141, null]);
    expect(await running()).toEqual([]);
  });

  it.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1'] as const)('%s reaches the command', async (signal) => {
    const child = world.start(['exec', 'box', 'echo begun; sleep 1000']);
    await once(child.stdout, 'data');
    child.kill(signal);
    expect(await once(child, 'exit')).toEqual([128 + constants.signals[signal], null]);
    expect(await running()).toEqual([]);
  });

  it('prints events under --json, one to a line, and still ends as the command does', async () => {
    const { code, stdout } = await world.run(['exec', '--json', 'box', 'echo hi; exit 3']);
    const events = stdout
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(code).toBe(3);
    expect(events.map(({ type }) => type)).toEqual(['started', 'stdout', 'exited']);
    expect(Buffer.from(events[1].data, 'base64').toString()).toBe('hi\n');
    expect(events[2]).toMatchObject({ exitCode: 3, signal: null, timedOut: false, oom: false });
  });
});

describe('a terminal', () => {
  it('is raw while the command has it, passes every key, and is as before at its end', async () => {
    const terminal = world.onTerminal('exec', 'box', 'interactive');
    await terminal.sees('ready');
    expect(await terminal.state()).toMatchObject({ raw: true });
    terminal.type('\x03\x1a\x1c\x04é');
    await terminal.sees('<\x03\x1a\x1c\x04');
    terminal.type('quit 5');
    expect(await terminal.ended).toEqual({ code: 5, restored: true });
    // What the program had switched on is off, and what it had switched off is on.
    expect(terminal.screen).toContain('\x1b[?1049l\x1b[?25h');
  });

  it('has the size of ours, and hears of another', async () => {
    const terminal = world.onTerminal('exec', 'box', 'interactive');
    await terminal.sees('ready');
    terminal.resize(101, 31);
    terminal.type('quit 0');
    expect(await terminal.ended).toEqual({ code: 0, restored: true });
  });

  it('is given back while we are stopped, and taken again', async () => {
    const terminal = world.onTerminal('exec', 'box', 'interactive');
    await terminal.sees('ready');
    terminal.kill('SIGTSTP');
    await until(async () => (await terminal.state()).state === 'T');
    expect(await terminal.state()).toMatchObject({ raw: false });
    terminal.kill('SIGCONT');
    await until(async () => (await terminal.state()).raw);
    terminal.type('quit 4');
    expect(await terminal.ended).toEqual({ code: 4, restored: true });
  });

  it.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
    ['SIGHUP', 129],
    ['SIGQUIT', 131],
  ])('is restored when %s ends us', async (signal, code) => {
    const terminal = world.onTerminal('exec', 'box', 'interactive');
    await terminal.sees('ready');
    terminal.kill(signal);
    expect(await terminal.ended).toEqual({ code, restored: true });
    expect(await running()).toEqual([]);
  });

  it('is restored when the microVM dies under the command', async () => {
    const id = (await world.ok('create')).trim();
    const terminal = world.onTerminal('exec', id, 'interactive');
    await terminal.sees('ready');
    world.platform.crash(id);
    expect(await terminal.ended).toEqual({ code: 125, restored: true });
    expect(terminal.screen).toContain('vm_lost');
  });

  it('is left by Enter ~ . and the command is hung up', async () => {
    const terminal = world.onTerminal('exec', 'box', 'interactive');
    await terminal.sees('ready');
    terminal.type('a~.b\r~~x');
    await terminal.sees('<a~.b\r~x>');
    terminal.type('\r');
    terminal.type('~.');
    expect(await terminal.ended).toEqual({ code: 129, restored: true });
  });
});

describe('run', () => {
  it('creates a sandbox, runs the command in it, and deletes it, whatever the end', async () => {
    const before = await world.json('ls');
    expect((await world.run(['run', '--name', 'brief', 'echo in it; exit 9'])).code).toBe(9);
    expect(await world.json('ls')).toEqual(before);
    const child = world.start(['run', 'echo begun; sleep 1000']);
    await once(child.stdout, 'data');
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([143, null]);
    expect(await world.json('ls')).toEqual(before);
  });

  it('keeps the sandbox when asked to, and says which', async () => {
    const { code, stderr } = await world.run(['run', '--keep', 'true']);
    const id = /sbx_[a-z0-9]{16}/.exec(stderr)?.[0] ?? '';
    expect([code, (await world.json('get', id)).status]).toEqual([0, 'running']);
    await world.ok('rm', id);
  });
});

async function running() {
  return (await Sandbox.connect('box', world.platform.connection)).processes();
}

async function untilRunning(): Promise<[{ processId: string }]> {
  await until(async () => (await running()).length > 0);
  return (await running()) as [Awaited<ReturnType<typeof running>>[number]];
}
