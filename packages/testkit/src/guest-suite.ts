/**
 * What every guest does, as test cases: the fake guest, the agent as an ordinary process, and the agent in a VM all pass
 * them. A guest that lacks something says so in `GuestAbilities`; what it can do, it does like the others.
 */
import { describe, expect } from 'vitest';
import { changeCases, FilesWorld, watchCases, xattrCases } from './guest-suite/changes.ts';
import { commandCases, shellCases } from './guest-suite/commands.ts';
import { fileCases, fileSystemCases } from './guest-suite/files.ts';
import { machineCases } from './guest-suite/machine.ts';
import { portCases, type WithPorts } from './guest-suite/ports.ts';
import { processCases } from './guest-suite/processes.ts';
import { type GuestAbilities, type MakeGuest, type WithGuest, World } from './guest-suite/world.ts';

export type { GuestAbilities, GuestUnderTest, MakeGuest } from './guest-suite/world.ts';

export function guestSuite(makeGuest: MakeGuest, can: GuestAbilities): void {
  const withGuest: WithGuest = (run) => async () => {
    const world = new World(await makeGuest());
    try {
      await run(world);
    } finally {
      await world.guest.close();
    }
  };
  describe('machine', () => machineCases(withGuest, can));
  describe('commands', () => commandCases(withGuest));
  describe.runIf(can.shell)('commands of a shell', () => shellCases(withGuest));
  describe.runIf(can.shell)('processes', () => processCases(withGuest, can));
  const withPorts: WithPorts = (run) =>
    withGuest(async (world) => {
      const { guest } = world;
      const othersGoOn = async () => {
        await world.write('file', 'goes on');
        expect(String(await world.read('file'))).toBe('goes on');
        expect((await guest.hello()).frozen).toBe(false);
      };
      await run({ othersGoOn, openPort: (port, signal) => guest.openPort(port, signal), close: () => guest.close() });
    });
  describe('ports', () => portCases(withPorts));
  describe('files', () => fileCases(withGuest));
  describe.runIf(can.fileSystem)('the file system', () => fileSystemCases(withGuest));
  const withFiles = (run: (world: FilesWorld) => Promise<void>) =>
    withGuest(({ guest, user, directory }) => run(new FilesWorld({ files: guest, user, directory })));
  describe.runIf(can.fileSystem)('changes of files', () => changeCases(withFiles));
  describe.runIf(can.xattrs)('extended attributes', () => xattrCases(withFiles));
  describe.runIf(can.fileSystem)('watches', () => watchCases(withFiles));
}
