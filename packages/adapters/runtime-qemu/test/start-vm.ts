/** Starts a VM, prints its record and ends, leaving it behind: another process than the test's. */
import { readFile } from 'node:fs/promises';
import type { VmSpec } from '@space/core';
import { connectHelper } from '@space/root-helper';
import { openQemuRuntime, type QemuRuntimeOptions } from '../src/index.ts';

interface Order {
  readonly options: Omit<QemuRuntimeOptions, 'helper'>;
  readonly socketPath: string;
  readonly life: VmSpec;
  readonly deviceState: string;
}

const { options, socketPath, life, deviceState }: Order = JSON.parse(await readFile(process.argv[2] ?? '', 'utf8'));
const runtime = await openQemuRuntime({ ...options, helper: await connectHelper(socketPath) });
const vm = await runtime.restore(life, Buffer.from(deviceState, 'base64'));
await vm.run();
await vm.connect('control');
process.stdout.write(JSON.stringify(vm.record), () => process.kill(process.pid, 'SIGKILL'));
