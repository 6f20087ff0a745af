import { containersSuite } from './containers-suite.ts';
import { FakeContainers } from './fake-containers.ts';
import { MemoryStorage } from './fake-storage.ts';
import { Faults } from './faults.ts';

containersSuite('the fake', async () => {
  const containers = new FakeContainers('/vaults', new Faults(), new MemoryStorage());
  return {
    containers,
    afterCrash: async () => containers.successor(),
    dispose: async () => undefined,
  };
});
