import { newId } from '@space/core';
import { expect, test } from 'vitest';
import { chance, collect, eventually, type GuestAbilities, type WithGuest } from './world.ts';

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
      await world.guest.signalTree(command.processId, 9);
      await eventually(async () => !(await world.guest.processes()).some((p) => p.processId === command.processId));
    }),
  );

  test(
    'a running command is listed as it was asked for',
    withGuest(async (world) => {
      const command = world.command('sleep', '60');
      const events = world.guest.exec(command)[Symbol.asyncIterator]();
      const first = await events.next();
      const pid = first.value?.kind === 'started' ? first.value.pid : 0;
      const listed = (await world.guest.processes()).find((process) => process.processId === command.processId);
      expect(listed).toEqual({ processId: command.processId, pid, argv: ['sleep', '60'], leaderAlive: true });
      await world.guest.signalTree(command.processId, 9);
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
      await world.guest.signalTree(command.processId, 9);
      expect(await mine()).toEqual([]);
    }),
  );

  test.runIf(can.trees)(
    'SIGKILL of a tree returns when the tree is gone, however it hides',
    withGuest(async (world) => {
      const command = world.shell('setsid sleep 60 & (setsid bash -c "trap : TERM; sleep 60; sleep 60" &) ; sleep 60');
      const events = world.guest.exec(command)[Symbol.asyncIterator]();
      await events.next();
      await world.guest.signalTree(command.processId, 9);
      expect((await world.guest.processes()).some((p) => p.processId === command.processId)).toBe(false);
      expect((await events.next()).value).toEqual({ kind: 'exited', exit: { signal: 9 } });
    }),
  );

  test(
    'a signal to a process that is not there is not_found',
    withGuest(async ({ guest }) => {
      await expect(guest.signalTree(newId('process', chance), 15)).rejects.toMatchObject({ code: 'not_found' });
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
        await other.signalTree(command.processId, 9);
      } finally {
        await other.close();
      }
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
      await world.guest.signalTree(command.processId, 9);
      await running;
    }),
  );
}
