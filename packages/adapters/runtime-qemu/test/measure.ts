/**
 * How long each step takes here: `node packages/adapters/runtime-qemu/test/measure.ts [cycles]`, as root, after set-up.
 * Each cycle ends a VM at a checkpoint and goes on from it in a new process, cold and from a spare in turn.
 */
import { loadavg } from 'node:os';
import { openQemuWorld } from './qemu-world.ts';

const cycles = Number(process.argv[2] ?? 40);
const samples = new Map<string, number[]>();

async function timed<T>(step: string, action: () => Promise<T>): Promise<T> {
  const from = performance.now();
  const result = await action();
  samples.set(step, [...(samples.get(step) ?? []), performance.now() - from]);
  return result;
}

const world = await openQemuWorld();
const coldRuntime = await world.reopen();
try {
  let life = await world.newLife();
  let vm = await timed('boot to agent', async () => {
    const booted = await timed('boot, the call', () => world.runtime.boot(life));
    await world.openGuest(booted, (guest) => guest.hello());
    return booted;
  });
  for (let cycle = 0; cycle < cycles; cycle++) {
    await world.remember(vm, `cycle ${cycle}`);
    await timed('stop', () => vm.stop());
    const deviceState = await timed('checkpoint', () => vm.checkpoint());
    const copy = await world.copyLife(life);
    await timed('kill', () => vm.kill());
    life = copy;
    const cold = cycle % 2 === 0;
    await world.runtime.sparesSettled();
    const from = cold ? coldRuntime : world.runtime;
    vm = await timed(cold ? 'restore, cold' : 'restore, spare', () => from.restore(copy, deviceState));
    await timed('run', () => vm.run());
    await timed('first answer', () => world.openGuest(vm, (guest) => guest.hello()));
    const recalled = await world.recall(vm);
    if (recalled !== `cycle ${cycle}`) throw new Error(`The guest remembers ${recalled} in cycle ${cycle}`);
  }
  await vm.kill();
} finally {
  await world.close();
}

process.stdout.write(`load ${loadavg()[0]?.toFixed(1)}; milliseconds\n`);
for (const [step, times] of samples) {
  times.sort((a, b) => a - b);
  const at = (share: number): string => (times[Math.floor((times.length - 1) * share)] ?? 0).toFixed(1).padStart(8);
  process.stdout.write(`${step.padEnd(16)} n ${String(times.length).padStart(3)}  p50 ${at(0.5)}  p95 ${at(0.95)}\n`);
}
