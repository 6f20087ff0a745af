/** Commands by the unmodified SDKs. */
import { setTimeout as wait } from 'node:timers/promises';
import * as newest from 'e2b';
import * as earlier from 'e2b-2-45';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEnvdWorld, type EnvdWorld } from './envd-world.ts';

const PROGRAMS = {
  bash: async ({
    command,
    input,
    print,
  }: Parameters<NonNullable<Parameters<typeof createEnvdWorld>[0]>[string]>[0]) => {
    print(`${command.env['TERM']} ${command.pty?.cols}x${command.pty?.rows}\n`);
    for await (const bytes of input) print(bytes);
    return 0;
  },
};

describe.each([
  ['2.51.0', newest.Sandbox],
  ['2.45.0', earlier.Sandbox as unknown as typeof newest.Sandbox],
])('the commands of e2b %s', (_, Sandbox) => {
  let world: EnvdWorld;
  let sandbox: newest.Sandbox;

  beforeAll(async () => {
    world = await createEnvdWorld(PROGRAMS);
    sandbox = await Sandbox.create(world.options);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  it('run, and give output and exit code', async () => {
    const parts: string[] = [];
    const result = await sandbox.commands.run('echo out; echo err >&2', { onStdout: (part) => void parts.push(part) });
    expect(result).toMatchObject({ exitCode: 0, stdout: 'out\n', stderr: 'err\n' });
    expect(parts.join('')).toBe('out\n');
  });

  it('fail with the error of the SDK, which has what they printed', async () => {
    const failed = await sandbox.commands.run('echo before; exit 7').catch((error) => error);
    expect(failed.constructor.name).toBe('CommandExitError');
    expect(failed).toMatchObject({ exitCode: 7, stdout: 'before\n', error: 'exit status 7' });
  });

  it('get the environment of the sandbox, its names, and their own, which wins', async () => {
    const envs = { OWN: 'mine' };
    const { stdout } = await sandbox.commands.run('echo $GIVEN $OWN $E2B_SANDBOX $E2B_SANDBOX_ID', { envs });
    expect(stdout).toBe('at create mine true itest\n');
    expect((await sandbox.commands.run('echo $GIVEN', { envs: { GIVEN: 'here' } })).stdout).toBe('here\n');
  });

  it('are listed while they run, can be connected to, and killed, once', async () => {
    const command = await sandbox.commands.run('sleep 100', { background: true });
    const listed = await sandbox.commands.list();
    expect(listed.find(({ pid }) => pid === command.pid)).toMatchObject({
      cmd: '/bin/bash',
      args: ['-l', '-c', 'sleep 100'],
    });
    const connected = await sandbox.commands.connect(command.pid);
    expect(connected.pid).toBe(command.pid);
    const end = connected.wait().catch((error) => error);
    expect(await sandbox.commands.kill(command.pid)).toBe(true);
    expect(await end).toMatchObject({ exitCode: -1, error: 'signal: killed' });
    expect(await sandbox.commands.kill(command.pid)).toBe(false);
    expect((await sandbox.commands.list()).map(({ pid }) => pid)).not.toContain(command.pid);
  });

  it('live on when the client leaves, and tell whoever connects later only what is new', async () => {
    const command = await sandbox.commands.run('echo first; cat', { background: true, stdin: true });
    await expect.poll(() => command.stdout).toBe('first\n');
    await command.disconnect();
    const connected = await sandbox.commands.connect(command.pid);
    await sandbox.commands.sendStdin(command.pid, 'second\n');
    await expect.poll(() => connected.stdout).toBe('second\n');
    await sandbox.commands.closeStdin(command.pid);
    expect(await connected.wait()).toMatchObject({ exitCode: 0, stdout: 'second\n' });
    expect(await (await sandbox.commands.connect(command.pid)).wait()).toMatchObject({ exitCode: 0, stdout: '' });
  });

  it('get all input, each piece whole, also when several are sent at once', async () => {
    const command = await sandbox.commands.run('cat', { background: true, stdin: true });
    const pieces = Array.from({ length: 12 }, (_, at) => `${at} ${'x'.repeat(3000)}`);
    await Promise.all(pieces.map((piece) => sandbox.commands.sendStdin(command.pid, `${piece}\n`)));
    await sandbox.commands.closeStdin(command.pid);
    expect((await command.wait()).stdout.trim().split('\n').sort()).toEqual(pieces.sort());
  });

  it('are killed when their time is over', async () => {
    const failed = await sandbox.commands.run('sleep 100', { timeoutMs: 300 }).catch((error) => error);
    expect(failed.constructor.name).toBe('TimeoutError');
    await expect
      .poll(async () => (await sandbox.commands.list()).filter(({ args }) => args[2] === 'sleep 100'))
      .toEqual([]);
  });

  it('run on terminals, which are typed on and resized', async () => {
    let shown = '';
    const decoder = new TextDecoder();
    const onData = (data: Uint8Array) => {
      shown += decoder.decode(data);
    };
    const terminal = await sandbox.pty.create({ cols: 90, rows: 25, onData });
    await expect.poll(() => shown).toBe('xterm-256color 90x25\n');
    await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 });
    await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('typed\n'));
    await expect.poll(() => shown).toContain('typed\n');
    await expect(sandbox.commands.sendStdin(terminal.pid, 'x')).rejects.toThrow('terminal');
    expect(await sandbox.pty.kill(terminal.pid)).toBe(true);
  });

  it('are spoken to, and ended, by what stands for them', async () => {
    const command = await sandbox.commands.run('cat', { background: true, stdin: true });
    await command.sendStdin('typed\n');
    await command.closeStdin();
    expect(await command.wait()).toMatchObject({ exitCode: 0, stdout: 'typed\n' });
    const handle = await sandbox.commands.run('sleep 100', { background: true });
    expect(await handle.kill()).toBe(true);
    await expect(handle.wait()).rejects.toThrow('signal: killed');
  });

  it('on terminals are connected to again', async () => {
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined });
    let shown = '';
    const onData = (data: Uint8Array) => {
      shown += Buffer.from(data).toString();
    };
    const connected = await sandbox.pty.connect(terminal.pid, { onData });
    await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('again\n'));
    await expect.poll(() => shown).toContain('again\n');
    expect(connected.pid).toBe(terminal.pid);
    expect(await sandbox.pty.kill(terminal.pid)).toBe(true);
  });

  it('of a sandbox that is killed end with the time-out error of the SDK', async () => {
    const mine = await createEnvdWorld();
    try {
      const client = await Sandbox.create(mine.options);
      const command = await client.commands.run('sleep 100', { background: true });
      const end = command.wait().catch((error) => error);
      await wait(50);
      await mine.kill();
      const error = await end;
      expect(error.constructor.name).toBe('TimeoutError');
      expect(error.message).toContain(
        'The sandbox was killed or reached its end of life while the request was in flight.',
      );
    } finally {
      await mine[Symbol.asyncDispose]();
    }
  });
});
