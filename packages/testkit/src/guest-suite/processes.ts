import { newId } from '@space/core';
import { expect, test } from 'vitest';
import { chance, collect, eventually, exited, type GuestAbilities, type WithGuest } from './world.ts';

export function processCases(withGuest: WithGuest, can: GuestAbilities): void {
  test(
    'aborting ends the stream, not the command',
    withGuest(async (world) => {
      const command = world.shell('sleep 60');
      const controller = new AbortController();
      const events = world.guest.exec(command, controller.signal)[Symbol.asyncIterator]();
      await events.next();
      const next = events.next();
      controller.abort(new Error('enough'));
      await expect(next).rejects.toThrow('enough');
      expect(await world.guest.processes()).toContainEqual(
        expect.objectContaining({ processId: command.processId, leaderAlive: true }),
      );
      await world.kill(command.processId);
      await eventually(async () => !(await world.guest.processes()).some((p) => p.processId === command.processId));
    }),
  );

  test(
    'a running command is listed as it was asked for',
    withGuest(async (world) => {
      const command = { ...world.command('sleep', '60'), label: 'of the one who asked' };
      const events = world.guest.exec(command)[Symbol.asyncIterator]();
      const first = await events.next();
      const pid = first.value?.kind === 'started' ? first.value.pid : 0;
      const listed = (await world.guest.processes()).find((process) => process.processId === command.processId);
      expect(listed).toMatchObject({
        processId: command.processId,
        pid,
        argv: ['sleep', '60'],
        cwd: world.directory,
        pty: false,
        label: 'of the one who asked',
        leaderAlive: true,
        liveProcesses: 1,
      });
      expect(listed).not.toHaveProperty('end');
      expect(Math.abs((listed?.startedMs ?? 0) - Date.now())).toBeLessThan(30_000);
      await world.kill(command.processId);
      await events.next();
    }),
  );

  test.runIf(can.trees)(
    'the exit comes when the leader ends; what it left behind lives on, is listed, and can be killed',
    withGuest(async (world) => {
      const command = world.shell('sleep 60 & echo started');
      const ran = await collect(world.guest.exec(command));
      expect(ran).toMatchObject({ stdout: 'started\n', exit: { code: 0 } });
      const mine = async () => (await world.guest.processes()).filter((p) => p.processId === command.processId);
      expect(await mine()).toMatchObject([{ leaderAlive: false }]);
      await world.kill(command.processId);
      expect(await mine()).toEqual([]);
    }),
  );

  test.runIf(can.trees)(
    'SIGKILL of a tree returns when the tree is gone, however it hides',
    withGuest(async (world) => {
      const command = world.shell('setsid sleep 60 & (setsid bash -c "trap : TERM; sleep 60; sleep 60" &) ; sleep 60');
      const events = world.guest.exec(command)[Symbol.asyncIterator]();
      await events.next();
      await world.kill(command.processId);
      expect((await world.guest.processes()).some((p) => p.processId === command.processId)).toBe(false);
      expect((await events.next()).value).toEqual(exited({ signal: 9 }));
    }),
  );

  test(
    'a signal to a process that is not there is not_found',
    withGuest(async ({ guest }) => {
      await expect(guest.signalProcess(newId('process', chance), 15, 'tree')).rejects.toMatchObject({
        code: 'not_found',
      });
    }),
  );

  test(
    'a connection that is replaced fails its streams as link_lost, and commands live on',
    withGuest(async (world) => {
      const command = world.shell('sleep 60');
      const events = world.guest.exec(command)[Symbol.asyncIterator]();
      await events.next();
      const next = events.next().catch((failure) => failure);
      const other = await world.reconnect();
      try {
        await other.hello();
        expect(await next).toMatchObject({ code: 'link_lost' });
        expect((await other.processes()).map((p) => p.processId)).toContain(command.processId);
        await other.signalProcess(command.processId, 9, 'tree');
      } finally {
        await other.close();
      }
    }),
  );

  test(
    'a stream is taken up again where it was left, by another connection',
    withGuest(async (world) => {
      const command = world.shell('for i in {1..300}; do echo $i; sleep 0.002; done; exit 3');
      const { processId } = command;
      let stdout = '';
      for await (const event of world.guest.exec(command)) {
        if (event.kind === 'output') stdout += `${Buffer.from(event.data)}`;
        if (stdout.length > 100) break;
      }
      const other = await world.reconnect();
      try {
        const ran = await collect(other.attach({ processId, stdoutOffset: stdout.length, stderrOffset: 0 }));
        const lines = Array.from({ length: 300 }, (_, index) => `${index + 1}\n`);
        expect(stdout + ran.stdout).toBe(lines.join(''));
        expect(ran.exit).toEqual({ code: 3 });
      } finally {
        await other.close();
      }
    }),
  );

  test(
    'what nobody read in time is told as lost, and accounted for',
    withGuest(async (world) => {
      const command = world.shell('head -c 4000000 /dev/zero');
      const { processId } = command;
      for await (const event of world.guest.exec(command)) if (event.kind === 'started') break;
      const printed = async () =>
        (await world.guest.processes({ ended: true })).find((process) => process.processId === processId)?.stdoutBytes;
      await eventually(async () => (await printed()) === 4_000_000);
      let at = 0;
      let lostBytes = 0;
      for await (const event of world.guest.attach({ processId, stdoutOffset: 0, stderrOffset: 0 })) {
        if (event.kind !== 'output' && event.kind !== 'lost') continue;
        expect(event.offset).toBe(at);
        if (event.kind === 'lost') lostBytes += event.sizeBytes;
        at += event.kind === 'lost' ? event.sizeBytes : event.data.length;
      }
      expect(at).toBe(4_000_000);
      expect(lostBytes).toBeGreaterThan(0);
    }),
  );

  test(
    'input arrives once, however often it is sent, and its end travels',
    withGuest(async (world) => {
      const command = { ...world.command('cat'), stdin: true };
      const { processId } = command;
      const running = collect(world.guest.exec(command));
      await eventually(async () => (await world.guest.processes()).some((process) => process.processId === processId));
      const write = (offset: number, text: string, eof = false) =>
        world.guest.writeInput({ processId, offset, data: Buffer.from(text), eof });
      expect(await write(0, 'abc')).toEqual({ acceptedBytes: 3 });
      expect(await write(0, 'abcdef')).toEqual({ acceptedBytes: 6 });
      await expect(write(7, 'x')).rejects.toMatchObject({ code: 'bad_request' });
      expect(await write(6, 'g', true)).toEqual({ acceptedBytes: 7 });
      expect(await write(6, 'g', true)).toEqual({ acceptedBytes: 7 });
      expect(await running).toEqual({ stdout: 'abcdefg', stderr: '', exit: { code: 0 } });
      await expect(write(7, 'x')).rejects.toMatchObject({ code: 'input_closed' });
    }),
  );

  test(
    'a terminal has a size, is told of another, and takes input',
    withGuest(async (world) => {
      const command = {
        ...world.shell('stty size; echo $TERM; read line; stty size; echo "[$line]"'),
        pty: { cols: 100, rows: 30, term: 'vt100' },
      };
      const { processId } = command;
      const running = collect(world.guest.exec(command));
      await eventually(async () => (await world.guest.processes()).some(({ stdoutBytes }) => stdoutBytes >= 14));
      await world.guest.resizeTerminal(processId, { cols: 120, rows: 40 });
      await world.guest.writeInput({ processId, data: Buffer.from('typed\r'), eof: false });
      expect((await running).stdout).toBe('30 100\r\nvt100\r\ntyped\r\n40 120\r\n[typed]\r\n');
    }),
  );

  test(
    'a signal can go to the leader alone',
    withGuest(async (world) => {
      const command = world.shell('trap "exit 7" TERM; while :; do sleep 0.02; done');
      const running = collect(world.guest.exec(command));
      await eventually(async () => (await world.guest.processes()).some((p) => p.processId === command.processId));
      await new Promise((resolve) => setTimeout(resolve, 200));
      await world.guest.signalProcess(command.processId, 15, 'leader');
      expect((await running).exit).toEqual({ code: 7 });
    }),
  );

  test.runIf(can.trees)(
    'a time limit kills the whole tree, and says so',
    withGuest(async (world) => {
      const command = { ...world.shell('setsid sleep 60 & sleep 60'), timeoutMs: 200 };
      const events = await Array.fromAsync(world.guest.exec(command));
      expect(events.at(-1)).toEqual({ kind: 'exited', exit: { signal: 9 }, timedOut: true, oom: false });
      expect((await world.guest.processes()).some((p) => p.processId === command.processId)).toBe(false);
      const all = await world.guest.processes({ ended: true });
      expect(all.find((p) => p.processId === command.processId)?.end).toMatchObject({ timedOut: true });
    }),
  );

  test.runIf(can.freeze)(
    'a frozen command makes no progress; a thawed one goes on',
    withGuest(async (world) => {
      const command = world.shell('while :; do echo tick; sleep 0.02; done');
      let ticks = 0;
      const running = (async () => {
        for await (const event of world.guest.exec(command)) if (event.kind === 'output') ticks += 1;
      })();
      await eventually(async () => ticks > 3);
      await world.guest.freeze(2_000);
      await new Promise((resolve) => setTimeout(resolve, 100));
      const frozenAt = ticks;
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(ticks).toBe(frozenAt);
      await world.guest.thaw();
      await eventually(async () => ticks > frozenAt + 3);
      await world.kill(command.processId);
      await running;
    }),
  );
}
