/** Connections into a fake guest are as those into the real agent. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_VAULT, newId } from '@space/core';
import { connectFakeGuest } from './fake-guest.ts';
import { FakeRuntime } from './fake-runtime.ts';
import { portCases } from './guest-suite/ports.ts';
import { seededChance } from './ports.ts';

portCases((run) => async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fake-guest-'));
  const files = { disk: join(folder, 'disk'), memory: join(folder, 'memory') };
  await Promise.all([writeFile(files.disk, ''), writeFile(files.memory, '')]);
  const size = { vcpus: 1, memoryMib: 256, diskMib: 2048 };
  const vm = await new FakeRuntime('in_place').boot({
    lifeId: newId('life', seededChance(1)),
    vault: DEFAULT_VAULT,
    size,
    files,
  });
  const guest = await connectFakeGuest(vm);
  try {
    const openPort = guest.openPort.bind(guest);
    await run({ openPort, othersGoOn: async () => void (await guest.hello()), close: () => guest.close() });
  } finally {
    await guest.close();
    await vm.kill();
    await rm(folder, { recursive: true });
  }
});
