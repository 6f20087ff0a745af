/**
 * Gives a VMM in preconfig its size, memory and disk, and starts it: from its kernel, or from a device state.
 *
 * The commands are sent together and answered in order, so that the round trips overlap. When one fails, those behind it
 * mean nothing, and the VMM must be killed.
 */
import type { Size } from '@space/core';
import { BOOT_FILES } from './command-line.ts';
import { sendDeviceState } from './device-state.ts';
import type { Qmp } from './qmp.ts';

/** As the VMM sees the files of its life: in the folder of its own descriptors. */
export interface InsideFiles {
  readonly disk: string;
  readonly memory: string;
}

/** Loading kernel and initramfs belongs to it, from a cold page cache maybe. */
const SETUP_LIMIT_MS = 30_000;

export async function bootMachine(qmp: Qmp, size: Size, files: InsideFiles, commandLine: string): Promise<void> {
  await Promise.all([
    ...setUp(qmp, size, files),
    setMachine(qmp, 'kernel', BOOT_FILES.kernel),
    setMachine(qmp, 'initrd', BOOT_FILES.initramfs),
    setMachine(qmp, 'append', commandLine),
    qmp.execute('x-exit-preconfig', undefined, SETUP_LIMIT_MS),
    qmp.execute('cont'),
  ]);
}

/** The kernel is in the memory already. Leaves the vCPUs stopped. */
export async function restoreMachine(qmp: Qmp, size: Size, files: InsideFiles, deviceState: Uint8Array): Promise<void> {
  await Promise.all([...setUp(qmp, size, files), qmp.execute('x-exit-preconfig', undefined, SETUP_LIMIT_MS)]);
  await sendDeviceState(qmp, deviceState);
}

function setUp(qmp: Qmp, size: Size, files: InsideFiles): Promise<unknown>[] {
  const memoryBytes = size.memoryMib * 1024 * 1024;
  return [
    setMachine(qmp, 'memory', { size: memoryBytes }),
    setMachine(qmp, 'smp', { cpus: size.vcpus, maxcpus: size.vcpus }),
    qmp.execute('object-add', {
      'qom-type': 'memory-backend-file',
      id: 'ram',
      size: memoryBytes,
      'mem-path': files.memory,
      // The file *is* the memory: what the guest writes is in it.
      share: true,
      merge: false,
      dump: false,
    }),
    setMachine(qmp, 'memory-backend', '/objects/ram'),
    qmp.execute('blockdev-add', {
      'node-name': 'disk',
      driver: 'raw',
      // What the guest discards, or fills with zeros, takes no space.
      discard: 'unmap',
      'detect-zeroes': 'unmap',
      file: {
        driver: 'file',
        filename: files.disk,
        locking: 'on',
        aio: 'threads',
        discard: 'unmap',
        // Else each start after a checkpoint syncs the file and forgets its pages, for a writer on another host.
        'drop-cache': false,
      },
    }),
  ];
}

function setMachine(qmp: Qmp, property: string, value: unknown): Promise<unknown> {
  return qmp.execute('qom-set', { path: '/machine', property, value });
}
