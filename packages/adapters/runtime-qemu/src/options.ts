/** What a QEMU runtime is made of. Paths are absolute; digests are of content and end up in every snapshot's manifest. */

export type Accelerator = 'kvm' | 'tcg';

export interface VmmBuild {
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

export interface VmmUser {
  readonly uid: number;
  readonly gid: number;
}

export interface QemuRuntimeOptions extends GuestBoot {
  readonly vmm: VmmBuild;
  readonly accelerator: Accelerator;
  /** One folder per life is made in it. Short: socket paths have a limit. Made when it does not exist. */
  readonly runDir: string;
  /** Whom VMMs run as, without network and privileges; needs root. Undefined: as this process. */
  readonly vmmUser?: VmmUser;
  /** How many VMM processes wait, ready to take a restore. Default 1. */
  readonly spares?: number;
  /** Told of failures that nobody waits for, e.g. a spare that did not start. */
  readonly onWarning?: (message: string) => void;
}
