import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { kernelCommandLine, machineFacts, machinesOf, vmmArguments } from './command-line.ts';

const OPTIONS = {
  vmm: { root: '/', argv: ['/vmm'], digest: 'v', version: '10' },
  kernel: { vmlinux: '/vmlinux', digest: 'k' },
  initramfs: { path: '/initramfs', digest: 'i' },
  accelerator: 'tcg',
} as const;

it('says nothing of size, memory, disk or kernel: one process serves every VM', () => {
  const words = vmmArguments('tcg', 'restore');
  expect(words).toContain('--preconfig');
  expect(words.filter((word) => /^-(m|kernel|initrd|append|blockdev|object)$/.test(word))).toEqual([]);
});

it('gives the VM no network, no default device, no reboot, and denies the VMM to spawn', () => {
  const text = vmmArguments('tcg', 'boot').join(' ');
  for (const part of ['-nodefaults', '-no-user-config', '-no-reboot', 'spawn=deny']) expect(text).toContain(part);
  expect(text).not.toMatch(/net|nic/);
  expect(text).not.toContain('-incoming');
});

it('tells the kernel the rate of the TSC under TCG only', () => {
  expect(kernelCommandLine('tcg', 2_600_000)).toContain('tsc_early_khz=2600000 lpj=10400000');
  expect(kernelCommandLine('kvm', 2_600_000)).not.toMatch(/tsc|lpj|mitigations/);
});

it('has the same machine facts on every host under TCG', () => {
  const elsewhere = { ...OPTIONS, kernel: { ...OPTIONS.kernel, vmlinux: '/elsewhere' } };
  expect(machineFacts(OPTIONS)).toEqual(machineFacts(elsewhere));
  expect(machineFacts(OPTIONS)).toMatchObject({ vmmBuild: 'v', kernelDigest: 'k', initramfsDigest: 'i' });
  expect(machineFacts(OPTIONS).machine).not.toMatch(/khz|lpj/);
});

/** Device state fits the machine that saved it and no other: a release with another one has to offer the earlier ones too. */
it('offers every machine that snapshots were ever taken on', () => {
  const golden = join(import.meta.dirname, '../golden/machines.json');
  const machines: { readonly accelerator: 'tcg' | 'kvm' }[] = JSON.parse(readFileSync(golden, 'utf8'));
  expect(machines).not.toEqual([]);
  for (const machine of machines) {
    const offered = machinesOf({ ...OPTIONS, accelerator: machine.accelerator });
    expect(offered).toContainEqual(expect.objectContaining(machine));
  }
  // A new one is to be written down with the release that brings it.
  const present = machineFacts(OPTIONS);
  expect(machines).toContainEqual({
    runtime: present.runtime,
    accelerator: present.accelerator,
    machine: present.machine,
    cpuModel: present.cpuModel,
  });
  expect(machinesOf(OPTIONS)[0]).toEqual(present);
});

/** The kernel looks at the features of its processor once: one that was taken away would be used all the same. */
it('takes nothing away from a processor that a point was taken on', () => {
  const features = ({ cpuModel }: { readonly cpuModel: string }) => cpuModel.split(',');
  const [present, ...earlier] = machinesOf(OPTIONS).map(features);
  expect(earlier).not.toEqual([]);
  for (const model of earlier) expect(present).toEqual(expect.arrayContaining(model));
});
