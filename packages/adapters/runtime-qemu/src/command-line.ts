/**
 * How QEMU is started and what the guest's machine is: pure text. One command line serves every VM and every size. QEMU
 * starts in its preconfig state, in which size, memory and disk are still open and are given over QMP (`machine-setup.ts`);
 * that is what lets a process be started before anybody knows for whom.
 *
 * Invariant: whatever shapes device state is in `machineFacts`, or in the digest of the VMM.
 */
import { cpus } from 'node:os';
import type { MachineFacts } from '@space/core';
import type { Accelerator, GuestBoot, VmmBuild } from './options.ts';

/** The sockets on which QEMU listens. They are made for it: it gets them from this descriptor on, in this order. */
export const SOCKETS = ['qmp', 'console', 'control', 'traffic'] as const;
export type SocketName = (typeof SOCKETS)[number];
const FIRST_SOCKET = 3;

/** What a VM boots from, as the VMM sees it. */
export const BOOT_FILES = { kernel: '/boot/kernel', initramfs: '/boot/initramfs' };

/** TCG sizes its translation buffers for so many vCPUs when it starts; the VM's own number comes later. */
const MAX_TCG_VCPUS = 8;

/** Of translated code, for all vCPUs together. */
const TRANSLATION_MIB = 256;

/**
 * Option ROMs are off and qboot is the firmware: it hands over to the kernel's PVH entry at once. ACPI tells the kernel
 * where the virtio devices are (Debian's cannot be told on its command line). Without PIT and PIC it hangs.
 */
const MACHINE =
  'microvm,x-option-roms=off,acpi=on,pit=on,pic=on,rtc=on,isa-serial=on,pcie=off,usb=off,auto-kernel-cmdline=off,' +
  'dump-guest-core=off,mem-merge=off';

/**
 * Under TCG the model is explicit, so that it is the same on every host: x86-64-v2 with what speeds up cryptography.
 * The vendor is AMD: for an Intel one the kernel isolates its page tables, which makes emulated system calls twenty times
 * slower. AVX is left out: emulated, it makes the C library's memcpy five times slower.
 */
const FIRST_TCG_CPU =
  'qemu64,-svm,+ssse3,+sse4.1,+sse4.2,+popcnt,+movbe,+abm,+bmi1,+bmi2,+fsgsbase,+rdtscp,+aes,+pclmulqdq,+sha-ni,' +
  '+rdrand,+rdseed';

/**
 * And a timer that goes on while the processor rests. The kernel would not set one that may stop for single moments, and tick
 * 250 times a second instead, for ever: an emulated guest that rests would work all the time, and wake late.
 */
const TCG_CPU = `${FIRST_TCG_CPU},+arat`;

/** The machine and its processor, whatever it boots from. */
export function hardware(accelerator: Accelerator): string[] {
  return [
    ...['-M', MACHINE, '-bios', 'qboot.rom', '-accel', acceleration(accelerator), '-cpu', cpuOption(accelerator)],
    ...['-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot'],
    ...['-global', 'virtio-mmio.force-legacy=false'],
  ];
}

export function vmmArguments(accelerator: Accelerator, mode: 'boot' | 'restore'): string[] {
  return [
    ...hardware(accelerator),
    ...(accelerator === 'tcg' ? ['-smp', `1,maxcpus=${MAX_TCG_VCPUS}`] : []),
    ...['-S', '--preconfig'],
    ...['-sandbox', 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny'],
    ...socketServer('qmp'),
    ...['-mon', 'chardev=qmp,mode=control'],
    ...socketServer('console'),
    ...['-serial', 'chardev:console'],
    ...['-device', 'virtio-blk-device,drive=disk'],
    ...['-device', 'virtio-serial-device,max_ports=3'],
    ...guestPort('control', 1),
    ...guestPort('traffic', 2),
    ...(mode === 'restore' ? ['-incoming', 'defer'] : []),
  ];
}

/** QEMU listens, goes on when nobody is connected, and takes the next client when one leaves. */
function socketServer(name: SocketName): string[] {
  const descriptor = FIRST_SOCKET + SOCKETS.indexOf(name);
  return ['-chardev', `socket,id=${name},fd=${descriptor},server=on,wait=off`];
}

function guestPort(name: SocketName, number: number): string[] {
  return [...socketServer(name), '-device', `virtserialport,chardev=${name},name=${name},nr=${number}`];
}

/** What the kernel of every VM gets; it outlives the boot inside snapshots. */
const KERNEL_ARGUMENTS = 'console=ttyS0 quiet panic=-1 reboot=triple';

/**
 * Under TCG the TSC is the host's, and right; but the kernel's watchdog compares it with timer interrupts, which a busy
 * host delivers late, and would then keep time by those, off by seconds. Retpolines and the like guard against speculation,
 * which an emulated CPU does not do.
 */
const FIRST_TCG_KERNEL_ARGUMENTS = 'mitigations=off no_timer_check tsc=reliable';

/**
 * And of Debian's security modules those that do something here. The others wait for rules, which no sandbox has, and are asked
 * all the same at each system call that names a file or starts a program (ADR 45).
 */
const TCG_KERNEL_ARGUMENTS = `${FIRST_TCG_KERNEL_ARGUMENTS} lsm=landlock,lockdown,yama,safesetid`;

/** Under TCG on a busy host the calibration of the TSC fails and the boot hangs: the kernel is told the rate. */
export function kernelCommandLine(accelerator: Accelerator, tscKhz: number): string {
  if (accelerator === 'kvm') return KERNEL_ARGUMENTS;
  const loopsPerJiffy = Math.floor((tscKhz * 1000) / 250);
  return `${KERNEL_ARGUMENTS} ${TCG_KERNEL_ARGUMENTS} tsc_early_khz=${tscKhz} lpj=${loopsPerJiffy}`;
}

/**
 * Of earlier releases, under TCG, of which points may still be there. Such a machine can become the present one between two
 * instructions: that one has all that it had, the kernel looks at the rest only when it boots, and none of it is in device state.
 */
const EARLIER_TCG = [
  { cpuModel: TCG_CPU, kernelArguments: FIRST_TCG_KERNEL_ARGUMENTS },
  { cpuModel: FIRST_TCG_CPU, kernelArguments: FIRST_TCG_KERNEL_ARGUMENTS },
];

type Machinery = GuestBoot & { readonly vmm: VmmBuild; readonly accelerator: Accelerator };

export function machineFacts(options: Machinery): MachineFacts {
  return {
    runtime: 'qemu',
    vmmBuild: options.vmm.digest,
    machine: machineOf(options.accelerator === 'tcg' ? TCG_KERNEL_ARGUMENTS : ''),
    cpuModel: options.accelerator === 'tcg' ? TCG_CPU : hostCpu(),
    accelerator: options.accelerator,
    kernelDigest: options.kernel.digest,
    initramfsDigest: options.initramfs.digest,
  };
}

/** The machines whose device state this build takes, the one of new VMs first. */
export function machinesOf(options: Machinery): MachineFacts[] {
  const present = machineFacts(options);
  const earlier = options.accelerator === 'tcg' ? EARLIER_TCG : [];
  return [
    present,
    ...earlier.map(({ cpuModel, kernelArguments }) => ({ ...present, cpuModel, machine: machineOf(kernelArguments) })),
  ];
}

function machineOf(kernelArguments: string): string {
  return `${MACHINE} qboot virtio-mmio(serial-isa,blk,serial[control,traffic]) ${KERNEL_ARGUMENTS} ${kernelArguments}`.trimEnd();
}

/** Translated code is the VMM's own memory, which its limit counts: by default it could grow to a gigabyte. */
function acceleration(accelerator: Accelerator): string {
  return accelerator === 'tcg' ? `tcg,tb-size=${TRANSLATION_MIB}` : accelerator;
}

function cpuOption(accelerator: Accelerator): string {
  return accelerator === 'tcg' ? TCG_CPU : 'host,migratable=on';
}

/** Under KVM the guest sees the host's CPU, so a snapshot needs the same one. */
function hostCpu(): string {
  return `host: ${cpus()[0]?.model ?? 'unknown'}`;
}
