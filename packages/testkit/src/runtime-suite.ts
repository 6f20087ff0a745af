/**
 * What every runtime does, whatever runs the VM and whichever kind its memory is. A world supplies files as a vault would,
 * and a way to put a word into a guest and to read it back.
 */
import { readFile } from 'node:fs/promises';
import { AppError, type Runtime, type Vm, type VmSpec } from '@space/core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

export interface RuntimeWorld {
  readonly runtime: Runtime;
  /** Another runtime over the same VMs, as a node that was restarted opens it. */
  reopen(): Promise<Runtime>;
  /** A new life, its files fit for a boot. */
  newLife(): Promise<VmSpec>;
  /** A new life with copies of another's files: a captured point and a start from it. The VM must stand still. */
  copyLife(of: VmSpec): Promise<VmSpec>;
  /** Keeps a word in the guest. */
  remember(vm: Vm, word: string): Promise<void>;
  recall(vm: Vm): Promise<string>;
  close(): Promise<void>;
}

export interface RuntimeSuiteOptions {
  /** How often a VM goes through restore, run, stop and checkpoint. */
  readonly cycles: number;
  readonly timeoutMs: number;
}

interface Point {
  readonly life: VmSpec;
  readonly deviceState: Uint8Array;
}

export function runtimeSuite(
  name: string,
  makeWorld: () => Promise<RuntimeWorld>,
  options: RuntimeSuiteOptions = { cycles: 20, timeoutMs: 20_000 },
): void {
  describe(`a runtime: ${name}`, { timeout: options.timeoutMs }, () => {
    let world: RuntimeWorld;
    /** A booted guest that remembers `first`. */
    let point: Point;

    beforeAll(async () => {
      world = await makeWorld();
      const life = await world.newLife();
      const vm = await world.runtime.boot(life);
      await world.remember(vm, 'first');
      point = await endAtPoint(world, vm, life);
    }, options.timeoutMs);
    afterAll(async () => {
      await world?.close();
    });

    const started: Vm[] = [];
    const start = async (from = point): Promise<{ vm: Vm; life: VmSpec }> => {
      const life = await world.copyLife(from.life);
      const vm = await world.runtime.restore(life, from.deviceState);
      started.push(vm);
      return { vm, life };
    };
    afterEach(async () => {
      for (const vm of started.splice(0)) await vm.kill();
    });

    it('goes on where the checkpoint was taken', async () => {
      const { vm } = await start();
      await vm.run();
      expect(await world.recall(vm)).toBe('first');
      await vm.kill();
    });

    it('restores with the vCPUs stopped: memory stays as it is', async () => {
      const { vm, life } = await start();
      const before = await readFile(life.files.memory);
      await vm.stop();
      expect(before.equals(await readFile(life.files.memory))).toBe(true);
      await vm.kill();
    });

    it('starts several VMs from one point that do not see each other', async () => {
      const forks = [await start(), await start(), await start()];
      for (const [index, { vm }] of forks.entries()) {
        await vm.run();
        await world.remember(vm, `fork ${index}`);
      }
      expect(await Promise.all(forks.map(({ vm }) => world.recall(vm)))).toEqual(['fork 0', 'fork 1', 'fork 2']);
      await Promise.all(forks.map(({ vm }) => vm.kill()));
      const again = await start();
      await again.vm.run();
      expect(await world.recall(again.vm)).toBe('first');
      await again.vm.kill();
    });

    it(`keeps what changed, ${options.cycles} times over`, async () => {
      let from = point;
      for (let cycle = 0; cycle < options.cycles; cycle++) {
        const { vm, life } = await start(from);
        await vm.run();
        expect(await world.recall(vm)).toBe(cycle === 0 ? 'first' : `cycle ${cycle - 1}`);
        await world.remember(vm, `cycle ${cycle}`);
        from = await endAtPoint(world, vm, life);
      }
    });

    it('runs on after a checkpoint, and takes the next from the same VM', async () => {
      const { vm, life } = await start();
      for (const word of ['one', 'two', 'three']) {
        await vm.run();
        await world.remember(vm, word);
        await vm.stop();
        const deviceState = await vm.checkpoint();
        const fork = await start({ life: await world.copyLife(life), deviceState });
        await fork.vm.run();
        expect(await world.recall(fork.vm)).toBe(word);
        await fork.vm.kill();
      }
      await vm.run();
      expect(await world.recall(vm)).toBe('three');
      await vm.kill();
    });

    it('takes the same checkpoint again while the VM stands still', async () => {
      const { vm } = await start();
      const first = await vm.checkpoint();
      expect(Buffer.compare(await vm.checkpoint(), first)).toBe(0);
      await vm.run();
      await vm.kill();
    });

    it('stops and runs any number of times, also when it already does', async () => {
      const { vm } = await start();
      for (const step of ['stop', 'run', 'run', 'stop', 'stop', 'run'] as const) await vm[step]();
      expect(await world.recall(vm)).toBe('first');
      await vm.kill();
    });

    it('says what it takes, as the host sees it, also while it stands still; of an ended one there is nothing', async () => {
      const { vm } = await start();
      await vm.run();
      await world.recall(vm);
      const before = await vm.usage();
      expect(before.memoryBytes).toBeGreaterThan(0);
      await world.remember(vm, 'again');
      const after = await vm.usage();
      expect(after.cpuMs).toBeGreaterThan(before.cpuMs);
      await vm.stop();
      expect((await vm.usage()).cpuMs).toBeGreaterThanOrEqual(after.cpuMs);
      await vm.kill();
      expect(await codeOf(vm.usage())).toBe('vm_lost');
    });

    it('is dead when kill returns, and says so to whoever asks for more', async () => {
      const { vm } = await start();
      await vm.run();
      await vm.kill();
      expect((await vm.ended).cause).toBe('killed');
      await vm.kill();
      expect(await codeOf(vm.run())).toBe('vm_lost');
      expect(await codeOf(vm.checkpoint())).toBe('vm_lost');
      expect(await world.runtime.survivors()).toEqual([]);
      expect(await world.runtime.adopt(vm.record)).toBeNull();
    });

    it('adopts a VM that an earlier runtime let go of, running or stopped', async () => {
      for (const running of [true, false]) {
        const { vm } = await start();
        if (running) await vm.run();
        await vm.release();
        const second = await world.reopen();
        expect(await second.survivors()).toEqual([vm.record]);
        const adopted = await second.adopt(vm.record);
        await adopted?.run();
        expect(adopted && (await world.recall(adopted))).toBe('first');
        await adopted?.kill();
        expect((await adopted?.ended)?.cause).toBe('killed');
        expect(await second.survivors()).toEqual([]);
        await second.close();
      }
    });

    it('refuses a device state that is none, leaves nothing behind, and then takes the right one', async () => {
      const life = await world.copyLife(point.life);
      const garbage = Buffer.alloc(1000, 'garbage');
      expect(await codeOf(world.runtime.restore(life, garbage))).toBe('restore_failed');
      expect(await world.runtime.survivors()).toEqual([]);
      const vm = await world.runtime.restore(life, point.deviceState);
      await vm.run();
      expect(await world.recall(vm)).toBe('first');
      await vm.kill();
    });
  });
}

async function endAtPoint(world: RuntimeWorld, vm: Vm, life: VmSpec): Promise<Point> {
  await vm.stop();
  const deviceState = await vm.checkpoint();
  const copy = await world.copyLife(life);
  await vm.kill();
  return { life: copy, deviceState };
}

async function codeOf(outcome: Promise<unknown>): Promise<string> {
  const thrown = await outcome.then(
    () => 'nothing was thrown',
    (reason: unknown) => reason,
  );
  return thrown instanceof AppError ? thrown.code : String(thrown);
}
