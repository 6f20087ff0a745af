/** What a QEMU runtime is made of. Paths are absolute; digests are of content and end up in every snapshot's manifest. */
import type { RootHelper } from '@space/root-helper';

export type Accelerator = 'kvm' | 'tcg';

export interface VmmBuild {
  /** The folder that holds all of it; the only one that the VMM sees, under the same path. */
  readonly root: string;
  /** How the VMM is started: its own loader, the library path, the program and its `-L` folders. */
  readonly argv: readonly string[];
  readonly digest: string;
  readonly version: string;
}

/** As the helper calls it. */
export function nameOfBuild({ digest }: Pick<VmmBuild, 'digest'>): string {
  return digest.slice(0, 32);
}

export interface GuestBoot {
  /** The kernel as an ELF file with a PVH entry; started directly. */
  readonly kernel: { readonly vmlinux: string; readonly digest: string };
  readonly initramfs: { readonly path: string; readonly digest: string };
}

export interface QemuRuntimeOptions extends GuestBoot {
  /** Of new VMs. */
  readonly vmm: VmmBuild;
  /** For checkpoints that they saved. */
  readonly earlier?: readonly VmmBuild[];
  readonly accelerator: Accelerator;
  /** What starts VMMs in their jails, and ends them; it was started with `vmmSettings` of these builds. */
  readonly helper: RootHelper;
  /** That of the jail; here only to measure the rate of the TSC. */
  readonly launcher: string;
  /** The helper's folder of run folders. */
  readonly runDir: string;
  /** How many VMM processes wait, ready to take a restore. Default 1. */
  readonly spares?: number;
  /** Told of failures that nobody waits for, e.g. a spare that did not start. */
  readonly onWarning?: (message: string) => void;
}
