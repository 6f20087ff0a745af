/**
 * What holds one VMM: a uid and cgroups of its own, and the launcher that makes the rest (`jail/`): namespaces, a root
 * with nothing but the VMM's build, no capabilities, limits, a filter of system calls. See docs/adr/0008.
 *
 * Invariant: uid and cgroups are taken for a run folder before the process starts, and are free again once the folder is
 * removed, which follows the proof of death.
 */
import { stat } from 'node:fs/promises';
import { SIZE_LIMITS } from '@space/core';
import { Cgroups, type JailReport, MAX_TASKS } from './cgroups.ts';
import { BOOT_FILES, SOCKETS, vmmArguments } from './command-line.ts';
import type { QemuRuntimeOptions } from './options.ts';
import type { RunFolder } from './run-folder.ts';
import { releaseUid, takeUid, uidOf } from './vmm-uids.ts';

const MIB = 1024 * 1024;
/** Nothing that a VMM writes is longer than the longest disk. */
const MAX_FILE_BYTES = Math.max(SIZE_LIMITS.diskMib.max, SIZE_LIMITS.memoryMib.max) * MIB;

export type JailOptions = Pick<QemuRuntimeOptions, 'jail' | 'vmm' | 'kernel' | 'initramfs' | 'accelerator'>;

/** Of one VMM. */
export interface Cell {
  readonly uid: number;
  readonly argv: readonly string[];
}

export class Jail {
  readonly report: JailReport;
  readonly #options: JailOptions;
  readonly #cgroups: Cgroups;

  private constructor(options: JailOptions, cgroups: Cgroups) {
    this.#options = options;
    this.#cgroups = cgroups;
    this.report = cgroups.report;
  }

  static async open(options: JailOptions): Promise<Jail> {
    return new Jail(options, await Cgroups.open());
  }

  /** Takes what the VMM of this folder needs; `clear` gives it back, also after a failure in here. */
  async prepare(folder: RunFolder, mode: 'boot' | 'restore'): Promise<Cell> {
    const uid = await takeUid(this.#options.jail.uids, folder.path);
    const groups = await this.#cgroups.create(uid);
    return { uid, argv: [...(await this.#launcher(uid, groups, mode)), '--', ...this.#program(mode)] };
  }

  /** Fits the limits to the guest that a VMM is about to run. */
  async fit(uid: number, size: Parameters<Cgroups['fit']>[1]): Promise<void> {
    await this.#cgroups.fit(uid, size);
  }

  /** Removes a run folder and all that was taken for it. Its process must be dead, or never have been. */
  async clear(folder: RunFolder): Promise<void> {
    const uid = await uidOf(folder.path);
    if (uid !== null) await this.#cgroups.remove(uid);
    await folder.remove();
    if (uid !== null) await releaseUid(this.#options.jail.uids.registry, uid);
  }

  async #launcher(uid: number, groups: readonly string[], mode: 'boot' | 'restore'): Promise<string[]> {
    const { jail, vmm, kernel, initramfs, accelerator } = this.#options;
    const kvm = accelerator === 'kvm' ? await kvmArguments() : [];
    const boot = [`${kernel.vmlinux}:${BOOT_FILES.kernel}`, `${initramfs.path}:${BOOT_FILES.initramfs}`];
    return [
      ...[jail.launcher, '--uid', String(uid), '--folder', vmm.root],
      ...['--file-bytes', String(MAX_FILE_BYTES), '--threads', String(MAX_TASKS)],
      ...groups.flatMap((procs) => ['--cgroup', procs]),
      ...SOCKETS.flatMap((name) => ['--listen', name]),
      ...(mode === 'boot' ? boot.flatMap((file) => ['--file', file]) : []),
      ...kvm,
    ];
  }

  #program(mode: 'boot' | 'restore'): string[] {
    const { vmm, accelerator } = this.#options;
    return [...vmm.argv, ...vmmArguments(accelerator, mode)];
  }
}

/** Root's own group would open more than KVM, and it does not open that either when the device is root's alone. */
async function kvmArguments(): Promise<string[]> {
  const { gid } = await stat('/dev/kvm');
  return ['--device', 'kvm', ...(gid === 0 ? [] : ['--group', String(gid)])];
}
