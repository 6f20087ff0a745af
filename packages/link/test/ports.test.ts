import { DEFAULT_VAULT } from '@space/core';
/** Connections to ports over the link are as those of the node itself. */
import { FakeNode } from '@space/testkit';
import { portCases } from '@space/testkit/port-cases';
import { makeWorld, start } from './world.ts';

portCases((run) => async () => {
  const node = new FakeNode();
  await using world = await makeWorld(node);
  const sandboxId = await start(world.remote);
  await run({
    openPort: (port, signal) => world.remote.openPort(sandboxId, port, signal),
    othersGoOn: async () => void (await world.remote.inspect(DEFAULT_VAULT, sandboxId)),
    close: () => world.cut(),
  });
});
