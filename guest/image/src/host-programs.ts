/**
 * Our programs that run on the host: the helper that has root, the launcher that starts a VMM in its jail, and the server that shows
 * what is in an encrypted vault.
 */
import { join } from 'node:path';
import { z } from 'zod';
import { buildCrate, digestCrate } from './crate.ts';

const note = z.strictObject({ version: z.string(), digest: z.string() }).readonly();
export type HostProgramNote = z.infer<typeof note>;
export const parseHostProgramNote = (value: unknown): HostProgramNote => note.parse(value);

const adapters = join(import.meta.dirname, '../../../packages/adapters');
interface Crate {
  readonly dir: string;
  readonly program: string;
  /** With all in itself, unless that is false. */
  readonly isStatic?: boolean;
}

const crates = {
  jail: { dir: join(adapters, 'runtime-qemu/jail'), program: 'space-jail' },
  helper: { dir: join(adapters, 'root-helper/program'), program: 'space-helper' },
  'vault-server': {
    dir: join(adapters, 'root-helper/vault-server'),
    program: 'space-vault-server',
    // Debian's OpenSSL gets Debian's updates.
    isStatic: false,
  },
} as const satisfies Record<string, Crate>;
export type HostProgram = keyof typeof crates;

export const hostProgramPath = (which: HostProgram, dir: string): string => join(dir, crates[which].program);

export const digestHostProgram = (which: HostProgram): Promise<string> => digestCrate(crates[which].dir);

export const buildHostProgram = (which: HostProgram, dir: string, signal: AbortSignal): Promise<HostProgramNote> => {
  const { dir: sources, isStatic }: Crate = crates[which];
  return buildCrate(sources, hostProgramPath(which, dir), signal, isStatic);
};
