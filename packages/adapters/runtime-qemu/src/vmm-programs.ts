/**
 * How VMMs are started, as the helper is told once, at its start: whoever asks for one later chooses among these, and says
 * nothing of programs, paths or arguments. Device state is only ever loaded by the build that saved it, so earlier builds are
 * there too, for restores alone.
 */
import { SIZE_LIMITS } from '@space/core';
import type { HelperConfig } from '@space/root-helper';
import { BOOT_FILES, SOCKETS, vmmArguments } from './command-line.ts';
import { type GuestBoot, nameOfBuild, type VmmBuild } from './options.ts';

const MIB = 1024 * 1024;
/** Nothing that a VMM writes is longer than the longest disk. */
const MAX_FILE_BYTES = Math.max(SIZE_LIMITS.diskMib.max, SIZE_LIMITS.memoryMib.max) * MIB;

type VmmSettings = Pick<HelperConfig, 'vmmBuilds' | 'vmmSockets' | 'vmmPrograms' | 'bootFiles' | 'fileBytes'>;

/** A build as set-up made it. */
export interface UnpackedVmm extends Pick<VmmBuild, 'root' | 'digest' | 'version'> {
  /** Put in front of `binary`: the VMM's own loader and where its libraries lie. */
  readonly loaderArgv: readonly string[];
  readonly binary: string;
  readonly firmwareDirs: readonly string[];
}

export function vmmBuildOf({ root, digest, version, loaderArgv, binary, firmwareDirs }: UnpackedVmm): VmmBuild {
  return { root, digest, version, argv: [...loaderArgv, binary, ...firmwareDirs.flatMap((folder) => ['-L', folder])] };
}

export function vmmSettings(
  vmm: VmmBuild,
  { kernel, initramfs }: GuestBoot,
  earlier: readonly VmmBuild[] = [],
): VmmSettings {
  const programs = (build: VmmBuild, modes: readonly ('boot' | 'restore')[]) =>
    modes.flatMap((mode) =>
      (['tcg', 'kvm'] as const).map((accelerator) => ({
        kind: { build: nameOfBuild(build), mode, accelerator },
        argv: [...build.argv, ...vmmArguments(accelerator, mode)],
      })),
    );
  return {
    vmmBuilds: Object.fromEntries([vmm, ...earlier].map((build) => [nameOfBuild(build), build.root])),
    vmmSockets: SOCKETS,
    vmmPrograms: [...programs(vmm, ['boot', 'restore']), ...earlier.flatMap((build) => programs(build, ['restore']))],
    bootFiles: { [BOOT_FILES.kernel]: kernel.vmlinux, [BOOT_FILES.initramfs]: initramfs.path },
    fileBytes: MAX_FILE_BYTES,
  };
}
