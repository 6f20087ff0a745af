import { type GuestCommand, newId } from '@space/core';
import { expect, test } from 'vitest';
import { chance, collect, exited, type WithGuest, type World } from './world.ts';

export function commandCases(withGuest: WithGuest): void {
  test(
    'a command starts and exits with its code',
    withGuest(async (world) => {
      const command = world.shell('exit 3');
      const events = await Array.fromAsync(world.guest.exec(command));
      expect(events[0]).toMatchObject({ kind: 'started', processId: command.processId });
      expect(events.at(-1)).toEqual(exited({ code: 3 }));
      expect((await world.run('true')).exit).toEqual({ code: 0 });
    }),
  );

  test(
    'one that has ended can be attached to, from any offset that it has printed',
    withGuest(async (world) => {
      const command = world.shell('hostname');
      const { processId } = command;
      const { stdout } = await collect(world.guest.exec(command));
      expect(stdout.length).toBeGreaterThan(2);
      for (const stdoutOffset of [0, 2, stdout.length]) {
        const events = await Array.fromAsync(world.guest.attach({ processId, stdoutOffset, stderrOffset: 0 }));
        expect(events[0]).toMatchObject({ kind: 'started', processId });
        expect(events.at(-1)).toEqual(exited({ code: 0 }));
        const output = events.flatMap((event) => (event.kind === 'output' ? [event] : []));
        expect(output[0]?.offset ?? stdout.length).toBe(stdoutOffset);
        expect(`${Buffer.concat(output.map(({ data }) => data))}`).toBe(stdout.slice(stdoutOffset));
      }
      const attach = (id: typeof processId, stdoutOffset: number) =>
        Array.fromAsync(world.guest.attach({ processId: id, stdoutOffset, stderrOffset: 0 }));
      await expect(attach(processId, stdout.length + 1)).rejects.toMatchObject({ code: 'bad_request' });
      await expect(attach(newId('process', chance), 0)).rejects.toMatchObject({ code: 'not_found' });
    }),
  );

  test(
    'one without input takes none',
    withGuest(async (world) => {
      const command = world.shell('true');
      const { processId } = command;
      await collect(world.guest.exec(command));
      const data = Buffer.from('x');
      await expect(world.guest.writeInput({ processId, data, eof: false })).rejects.toMatchObject({
        code: 'input_closed',
      });
      await expect(world.guest.resizeTerminal(processId, { cols: 80, rows: 24 })).rejects.toMatchObject({
        code: 'input_closed',
      });
      const stranger = newId('process', chance);
      await expect(world.guest.writeInput({ processId: stranger, data, eof: true })).rejects.toMatchObject({
        code: 'not_found',
      });
    }),
  );

  test(
    'many commands run at once',
    withGuest(async (world) => {
      const codes = Array.from({ length: 20 }, (_, index) => index);
      const exits = await Promise.all(codes.map(async (code) => (await world.run(`exit ${code}`)).exit));
      expect(exits).toEqual(codes.map((code) => ({ code })));
    }),
  );
}

export function shellCases(withGuest: WithGuest): void {
  test(
    'output comes by stream, byte for byte',
    withGuest(async (world) => {
      const ran = await world.run('printf "a\\nb"; printf "\\303\\244" >&2; exit 1');
      expect(ran).toEqual({ stdout: 'a\nb', stderr: 'ä', exit: { code: 1 } });
    }),
  );

  test(
    'the command is what was asked for: arguments, variables, directory, login environment',
    withGuest(async (world) => {
      const base = world.command(
        '/bin/bash',
        '-c',
        'echo "$0|$1|$A|$PWD|$USER|$(test "$HOME" && echo home)"',
        'ä b',
        '',
      );
      const ran = await collect(world.guest.exec({ ...base, env: { A: 'x=y\n' }, cwd: '/' }));
      expect(ran.stdout).toBe(`ä b||x=y\n|/|${world.user}|home\n`);
    }),
  );

  test(
    'stdin is empty',
    withGuest(async (world) => {
      expect((await world.run('cat; echo end')).stdout).toBe('end\n');
    }),
  );

  test(
    'a command that is killed exits with the signal',
    withGuest(async (world) => {
      expect((await world.run('kill -TERM $$')).exit).toEqual({ signal: 15 });
    }),
  );

  test(
    'output of many megabytes arrives whole',
    withGuest(async (world) => {
      const ran = await world.run('head -c 20000000 /dev/zero | tr "\\0" x');
      expect(ran.stdout).toHaveLength(20_000_000);
    }),
  );

  test(
    'a slow reader loses nothing, and others are not held up',
    withGuest(async (world) => {
      let bytes = 0;
      for await (const event of world.guest.exec(world.shell('head -c 3000000 /dev/zero'))) {
        if (event.kind !== 'output') continue;
        if (bytes === 0) expect((await world.run('echo other')).stdout).toBe('other\n');
        bytes += event.data.length;
      }
      expect(bytes).toBe(3_000_000);
    }),
  );

  const unstartable: Record<string, (world: World) => GuestCommand> = {
    'a program that is not there': (world) => world.command('/no/such/program'),
    'a name that is not in PATH': (world) => world.command('no-such-program'),
    'a file that is no program': (world) => world.command('/etc/passwd'),
    'a directory': (world) => world.command('/etc'),
    'a directory to work in that is not there': (world) => ({ ...world.command('true'), cwd: '/no/such' }),
    'a user that is not there': (world) => ({ ...world.command('true'), user: 'nosuchuser' }),
  };
  for (const [what, command] of Object.entries(unstartable)) {
    test(
      `${what} is command_not_started`,
      withGuest(async (world) => {
        const events = Array.fromAsync(world.guest.exec(command(world)));
        await expect(events).rejects.toMatchObject({ code: 'command_not_started' });
      }),
    );
  }

  test(
    'an id is used once',
    withGuest(async (world) => {
      const command = world.shell('sleep 60');
      const events = world.guest.exec(command)[Symbol.asyncIterator]();
      await events.next();
      await expect(collect(world.guest.exec(command))).rejects.toMatchObject({ code: 'name_taken' });
      await world.kill(command.processId);
      expect((await events.next()).value).toEqual(exited({ signal: 9 }));
    }),
  );
}
