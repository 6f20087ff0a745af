/**
 * @space/runtime-qemu: microVMs on QEMU, with or without KVM. A VM's memory is a file that QEMU maps shared, so that a
 * snapshot of the file system is a snapshot of the memory; this package adds the device state, processes and sockets.
 */
export { findBuilds } from './kept-builds.ts';
export { type Accelerator, type GuestBoot, nameOfBuild, type QemuRuntimeOptions, type VmmBuild } from './options.ts';
export { type AcceleratorFinding, type ProbeOptions, probeAccelerator } from './probe.ts';
export { openQemuRuntime, type QemuRuntime } from './runtime.ts';
export { vmmSettings } from './vmm-programs.ts';
