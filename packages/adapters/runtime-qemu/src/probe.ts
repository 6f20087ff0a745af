/**
 * Whether KVM runs our guest here. Opening the device says nothing: there are hosts on which it opens, makes VMs, and then
 * never executes an instruction. So a VM is booted, and only what it prints counts.
 */
import { mkdir, mkdtemp, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { asAppError, type LifeId, type Vm } from '@space/core';
import { z } from 'zod';
import type { QemuRuntimeOptions } from './options.ts';
import { isErrno } from './process-identity.ts';
import { openQemuRuntime } from './runtime.ts';

const DEFAULT_TIMEOUT_MS = 10_000;
const POLL_MS = 25;
const PROBE_SIZE = { vcpus: 1, memoryMib: 256, diskMib: 64 };

export interface ProbeOptions extends Pick<QemuRuntimeOptions, 'vmm' | 'kernel' | 'initramfs' | 'jail'> {
  /** A folder for the probe's VM; short path. */
  readonly workDir: string;
  /** Where the result is kept, for as long as host boot, VMM and kernel are the same. */
  readonly cacheFile: string;
  readonly timeoutMs?: number;
}

const findingSchema = z.strictObject({
  name: z.enum(['kvm', 'tcg']),
  reason: z.string(),
  remedy: z.string().nullable(),
});
const cacheSchema = z.strictObject({ key: z.string(), finding: findingSchema });

export type AcceleratorFinding = Readonly<z.infer<typeof findingSchema>>;

/** Throws only when the result cannot be kept. */
export async function probeAccelerator(options: ProbeOptions): Promise<AcceleratorFinding> {
  const bootId = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
  const key = [bootId, options.vmm.digest, options.kernel.digest].join(' ');
  const known = await readCache(options.cacheFile);
  if (known?.key === key) return known.finding;
  const finding = await probe(options);
  const draft = `${options.cacheFile}.${process.pid}`;
  await writeFile(draft, JSON.stringify({ key, finding }));
  await rename(draft, options.cacheFile);
  return finding;
}

async function readCache(path: string): Promise<z.infer<typeof cacheSchema> | null> {
  try {
    return cacheSchema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    // Missing, cut short or of another format: probing again is always right.
    return null;
  }
}

async function probe(options: ProbeOptions): Promise<AcceleratorFinding> {
  const device = await openDevice();
  if (device) return device;
  try {
    const printed = await bootOnce(options);
    if (printed) return { name: 'kvm', reason: 'A probe VM ran under KVM.', remedy: null };
    return withoutKvm(
      'KVM opens, but a probe VM executed nothing within its time: this host cannot run a stock guest kernel under KVM.',
      'Run on bare metal, or on a machine whose provider offers full nested virtualisation.',
    );
  } catch (thrown) {
    return withoutKvm(
      `A probe VM could not be started under KVM: ${asAppError(thrown).message}`,
      'Make /dev/kvm accessible to the user of the VMMs, and check that nested virtualisation is complete.',
    );
  }
}

/** Null when the device is there for us; whether it works is another question. */
async function openDevice(): Promise<AcceleratorFinding | null> {
  try {
    await (await open('/dev/kvm', 'r+')).close();
    return null;
  } catch (thrown) {
    if (isErrno(thrown, 'ENOENT')) {
      return withoutKvm(
        'There is no /dev/kvm.',
        'Enable virtualisation in the firmware (or nested virtualisation at the provider) and load kvm_intel or kvm_amd.',
      );
    }
    return withoutKvm(`/dev/kvm does not open: ${asAppError(thrown).message}`, 'Grant this user access to /dev/kvm.');
  }
}

function withoutKvm(reason: string, remedy: string): AcceleratorFinding {
  return { name: 'tcg', reason, remedy };
}

/** Whether a VM under KVM printed anything in time. Leaves nothing behind. */
async function bootOnce(options: ProbeOptions): Promise<boolean> {
  await mkdir(options.workDir, { recursive: true, mode: 0o700 });
  const folder = await mkdtemp(join(options.workDir, 'p-'));
  const runtime = await openQemuRuntime({ ...options, accelerator: 'kvm', runDir: join(folder, 'r'), spares: 0 });
  try {
    const files = { disk: join(folder, 'disk'), memory: join(folder, 'memory') };
    await makeSparse(files.disk, PROBE_SIZE.diskMib);
    await makeSparse(files.memory, PROBE_SIZE.memoryMib);
    const limit = AbortSignal.timeout(options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    const vm = await runtime.boot({ lifeId: 'lif_prbe000000000000' as LifeId, size: PROBE_SIZE, files }, limit);
    return await printsBefore(vm, limit).finally(() => vm.kill());
  } finally {
    await runtime.close();
    await rm(folder, { recursive: true, force: true });
  }
}

async function printsBefore(vm: Vm, limit: AbortSignal): Promise<boolean> {
  while (!limit.aborted) {
    if (vm.console() !== '') return true;
    await sleep(POLL_MS);
  }
  return false;
}

async function makeSparse(path: string, mib: number): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  await file.truncate(mib * 1024 * 1024).finally(() => file.close());
}
