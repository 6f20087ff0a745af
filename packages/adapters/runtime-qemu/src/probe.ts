/**
 * Whether KVM runs our guest here. Opening the device says nothing: there are hosts on which it opens, makes VMs, and then
 * never executes an instruction. So a VM is booted, and only what it prints counts.
 */
import { access, mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { asAppError, type LifeId, type VaultName, type Vm } from '@space/core';
import { z } from 'zod';
import { endAndClear } from './launch.ts';
import type { QemuRuntimeOptions } from './options.ts';
import { openQemuRuntime } from './runtime.ts';

const DEFAULT_TIMEOUT_MS = 10_000;
const POLL_MS = 25;
const PROBE_LIFE = 'lif_prbe000000000000' as LifeId;
const PROBE_PLACE = 'probe' as VaultName;
const PROBE_SIZE = { vcpus: 1, memoryMib: 256, diskMib: 64 };

export interface ProbeOptions
  extends Pick<QemuRuntimeOptions, 'vmm' | 'kernel' | 'initramfs' | 'helper' | 'launcher' | 'runDir'> {
  /** The folder of the place `probe` of the helper, for the files of the probe's VM. */
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
  const missing = await missingDevice();
  if (missing) return missing;
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

/** Null when the device is there; who may open it, and whether it works, the probe shows. */
async function missingDevice(): Promise<AcceleratorFinding | null> {
  try {
    await access('/dev/kvm');
    return null;
  } catch {
    return withoutKvm(
      'There is no /dev/kvm.',
      'Enable virtualisation in the firmware (or nested virtualisation at the provider) and load kvm_intel or kvm_amd.',
    );
  }
}

function withoutKvm(reason: string, remedy: string): AcceleratorFinding {
  return { name: 'tcg', reason, remedy };
}

/** Whether a VM under KVM printed anything in time. Leaves nothing behind. */
async function bootOnce(options: ProbeOptions): Promise<boolean> {
  const folder = join(options.workDir, 'lives', PROBE_LIFE);
  // An earlier probe may have been interrupted.
  await endAndClear(options.helper, PROBE_LIFE);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const runtime = await openQemuRuntime({ ...options, accelerator: 'kvm', spares: 0 });
  try {
    const files = { disk: join(folder, 'disk.img'), memory: join(folder, 'memory') };
    await makeSparse(files.disk, PROBE_SIZE.diskMib);
    await makeSparse(files.memory, PROBE_SIZE.memoryMib);
    const limit = AbortSignal.timeout(options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    const vm = await runtime.boot({ lifeId: PROBE_LIFE, size: PROBE_SIZE, vault: PROBE_PLACE, files }, limit);
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
