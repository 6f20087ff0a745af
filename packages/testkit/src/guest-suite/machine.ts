import { type GuestIdentity, hostnameOf, newId, type OutputPosition } from '@space/core';
import { expect, test } from 'vitest';
import { chance, type GuestAbilities, type WithGuest, type World } from './world.ts';

export function machineCases(withGuest: WithGuest, can: GuestAbilities): void {
  test(
    'hello names the agent',
    withGuest(async ({ guest }) => {
      const { agentVersion, frozen } = await guest.hello();
      expect(agentVersion).not.toBe('');
      expect(frozen).toBe(false);
    }),
  );

  test(
    'takes an identity, again and again',
    withGuest(async ({ guest }) => {
      for (const generation of [1, 2]) {
        expect(await guest.assumeIdentity(identity(generation))).toEqual({ hasMachineId: true });
      }
    }),
  );

  test(
    'forgets the commands that have ended when it gets its first owner, and keeps them for all later ones',
    withGuest(async (world) => {
      const { guest } = world;
      const first = await ended(world);
      await guest.assumeIdentity(identity(1));
      expect((await Array.fromAsync(guest.attach(first))).at(-1)).toMatchObject({ kind: 'exited' });
      await guest.assumeIdentity({ ...identity(1), isFresh: true });
      await expect(Array.fromAsync(guest.attach(first))).rejects.toMatchObject({ code: 'not_found' });
      const second = await ended(world);
      expect((await Array.fromAsync(guest.attach(second))).at(-1)).toMatchObject({ kind: 'exited' });
    }),
  );

  test.runIf(can.freeze)(
    'freezes and thaws, each as often as asked',
    withGuest(async ({ guest }) => {
      for (let round = 0; round < 3; round += 1) {
        await guest.freeze(2_000);
        await guest.freeze(2_000);
        expect((await guest.hello()).frozen).toBe(true);
        await guest.thaw();
        await guest.thaw();
        expect((await guest.hello()).frozen).toBe(false);
      }
    }),
  );

  test(
    'a closed guest says why and fails every call as link_lost',
    withGuest(async (world) => {
      const { guest } = world;
      await guest.close();
      await guest.close();
      expect(await guest.closed).not.toBe('');
      await expect(guest.hello()).rejects.toMatchObject({ code: 'link_lost' });
      await expect(guest.stat(world.path('f'))).rejects.toMatchObject({ code: 'link_lost' });
      await expect(world.run('true')).rejects.toMatchObject({ code: 'link_lost' });
    }),
  );
}

/** Where the output of a command begins that has ended. */
async function ended(world: World): Promise<OutputPosition> {
  const command = world.shell('true');
  await Array.fromAsync(world.guest.exec(command));
  return { processId: command.processId, stdoutOffset: 0, stderrOffset: 0 };
}

function identity(generation: number): GuestIdentity {
  const sandboxId = newId('sandbox', chance);
  return {
    sandboxId,
    lifeId: newId('life', chance),
    generation,
    hostname: hostnameOf(sandboxId),
    machineId: Buffer.from(chance.bytes(16)).toString('hex'),
    entropy: chance.bytes(32),
    isFresh: false,
  };
}
