/** Starts a VM, prints its record and ends, leaving it behind: another process than the test's. */
import { readFile } from 'node:fs/promises';
import type { VmSpec } from '@space/core';
import { openQemuRuntime, type QemuRuntimeOptions } from '../src/index.ts';

interface Order {
  readonly options: QemuRuntimeOptions;
  readonly life: VmSpec;
  readonly deviceState: string;
}

const { options, life, deviceState }: Order = JSON.parse(await readFile(process.argv[2] ?? '', 'utf8'));
const runtime = await openQemuRuntime(options);
const vm = await runtime.restore(life, Buffer.from(deviceState, 'base64'));
await vm.run();
await vm.connect('control');
process.stdout.write(JSON.stringify(vm.record), () => process.kill(process.pid, 'SIGKILL'));
