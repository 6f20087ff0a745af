/** What a QEMU runtime is made of. Paths are absolute; digests are of content and end up in every snapshot's manifest. */
import type { VmmUids } from './vmm-uids.ts';

export type Accelerator = 'kvm' | 'tcg';

export interface VmmBuild {
  /** The folder that holds all of it; the only one that the VMM sees, under the same path. */
  readonly root: string;
  /** How the VMM is started: its own loader, the library path, the program and its `-L` folders. */
  readonly argv: readonly string[];
  readonly digest: string;
  readonly version: string;
}

export interface GuestBoot {
  /** The kernel as an ELF file with a PVH entry; started directly. */
  readonly kernel: { readonly vmlinux: string; readonly digest: string };
  readonly initramfs: { readonly path: string; readonly digest: string };
}

export interface JailOptions {
  /** The program that starts a VMM in its jail; needs root. */
  readonly launcher: string;
  readonly uids: VmmUids;
}

export interface QemuRuntimeOptions extends GuestBoot {
  readonly vmm: VmmBuild;
  readonly accelerator: Accelerator;
  /** One folder per life is made in it. Short: socket paths have a limit. Made when it does not exist. */
  readonly runDir: string;
  readonly jail: JailOptions;
  /** How many VMM processes wait, ready to take a restore. Default 1. */
  readonly spares?: number;
  /** Told of failures that nobody waits for, e.g. a spare that did not start. */
  readonly onWarning?: (message: string) => void;
}
