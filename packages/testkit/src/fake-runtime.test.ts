import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_VAULT, newId, type Vm, type VmSpec } from '@space/core';
import { FakeRuntime, FakeVm } from './fake-runtime.ts';
import { seededChance } from './ports.ts';
import { type RuntimeWorld, runtimeSuite } from './runtime-suite.ts';

for (const memory of ['in_place', 'written'] as const) runtimeSuite(`fake, memory ${memory}`, () => fakeWorld(memory));

async function fakeWorld(memory: 'in_place' | 'written'): Promise<RuntimeWorld> {
  const runtime = new FakeRuntime(memory);
  const folder = await mkdtemp(join(tmpdir(), 'fake-runtime-'));
  const chance = seededChance(1);
  const nameLife = (): VmSpec => {
    const lifeId = newId('life', chance);
    const files = { disk: join(folder, `${lifeId}.disk`), memory: join(folder, `${lifeId}.memory`) };
    return { lifeId, size: { vcpus: 1, memoryMib: 256, diskMib: 2048 }, vault: DEFAULT_VAULT, files };
  };
  return {
    runtime,
    reopen: async () => new FakeRuntime(memory, runtime.faults, runtime.alive),
    async newLife() {
      const life = nameLife();
      await Promise.all([writeFile(life.files.disk, ''), writeFile(life.files.memory, '')]);
      return life;
    },
    async copyLife(of) {
      const life = nameLife();
      await copyFile(of.files.disk, life.files.disk);
      await copyFile(of.files.memory, life.files.memory);
      return life;
    },
    async remember(vm, word) {
      stateOf(vm)['word'] = word;
    },
    recall: async (vm) => stateOf(vm)['word'] ?? '',
    close: () => rm(folder, { recursive: true }),
  };
}

function stateOf(vm: Vm): Record<string, string> {
  if (!(vm instanceof FakeVm)) throw new Error('not a fake VM');
  return vm.state.variables;
}
