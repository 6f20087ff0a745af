/**
 * What the helper is told at its start, in the form that it reads: one setting a line, a word and its values, and a path
 * always last. Whoever writes it is root.
 */
import { join } from 'node:path';
import type { VmmKind } from './client.ts';

export interface HelperVault {
  readonly name: string;
  /** The vault's own folder. */
  readonly folder: string;
  readonly backing: /** A sparse file in that folder; it grows to `sizeBytes` as it is written, and is enlarged when that is raised. */
  { readonly kind: 'loop'; readonly sizeBytes: number } | { readonly kind: 'device'; readonly path: string };
}

/** How a VMM of one kind is started, inside its jail. */
export interface VmmProgram {
  readonly kind: VmmKind;
  readonly argv: readonly string[];
}

export interface HelperConfig {
  /** Who is served, and owns what lies in vaults. */
  readonly node: { readonly uid: number; readonly gid: number };
  /** Of the helper itself: its configuration and its socket. Made when it is missing. */
  readonly folder: string;
  /** The folder of run folders; made when it is missing. Short: socket paths have a limit. */
  readonly runDir: string;
  /** User ids for VMMs (all but the last, which the vault servers run as), and the folder, on the file system of `runDir`, in which it is noted which are taken. */
  readonly uids: { readonly first: number; readonly count: number; readonly registry: string };
  /** The program that starts a VMM in its jail. */
  readonly launcher: string;
  /** The folder of each build of the VMM, by its name; a VMM sees nothing else. */
  readonly vmmBuilds: Readonly<Record<string, string>>;
  readonly vmmSockets: readonly string[];
  readonly vmmPrograms: readonly VmmProgram[];
  /** What a VM boots from: where it is, by its path inside the jail. */
  readonly bootFiles: Readonly<Record<string, string>>;
  /** Nothing that a VMM writes is longer. */
  readonly fileBytes: number;
  readonly vaults: readonly HelperVault[];
  /** Where further vaults are made, each in a folder of its name; those above may lie there too. */
  readonly vaultsFolder?: string;
  /** The program that shows what is in an encrypted vault, where the kernel has no dm-crypt. */
  readonly vaultServer?: string;
  /** Other folders in which lives can lie, by name. */
  readonly places: Readonly<Record<string, string>>;
}

/** Where a helper whose folder that is listens. */
export function helperSocket(folder: string): string {
  return join(folder, 'socket');
}

/** Throws when a value cannot be said on one line. */
export function configText(config: HelperConfig): string {
  const { node, uids } = config;
  const lines = [
    `node ${node.uid} ${node.gid}`,
    `socket ${helperSocket(config.folder)}`,
    `run-dir ${config.runDir}`,
    `uids ${uids.first} ${uids.count}`,
    `uid-registry ${uids.registry}`,
    `launcher ${config.launcher}`,
    ...Object.entries(config.vmmBuilds).map(([name, root]) => `vmm-build ${name} ${root}`),
    `file-bytes ${config.fileBytes}`,
    ...config.vmmSockets.map((name) => `vmm-socket ${name}`),
    ...Object.entries(config.bootFiles).map(([inside, outside]) => `boot-file ${inside} ${outside}`),
    ...config.vaults.flatMap(vaultLines),
    ...(config.vaultsFolder === undefined ? [] : [`vaults-folder ${config.vaultsFolder}`]),
    ...(config.vaultServer === undefined ? [] : [`vault-server ${config.vaultServer}`]),
    ...Object.entries(config.places).map(([name, path]) => `place ${name} ${path}`),
    ...config.vmmPrograms.flatMap(({ kind, argv }) => [
      `program ${kind.build} ${kind.mode} ${kind.accelerator}`,
      ...argv.map((argument) => `argument ${argument}`),
    ]),
  ];
  const broken = lines.find((line) => /[\r\n]/.test(line));
  if (broken !== undefined) throw new Error(`${JSON.stringify(broken)} cannot be a setting of the helper`);
  return `${lines.join('\n')}\n`;
}

function vaultLines({ name, folder, backing }: HelperVault): string[] {
  if (backing.kind === 'loop') return [`loop-vault ${name} ${backing.sizeBytes} ${folder}`];
  return [`device-vault ${name} ${folder}`, `device ${backing.path}`];
}
