/** Our programs that run on the host: the helper that has root, and the launcher that starts a VMM in its jail. */
import { join } from 'node:path';
import { z } from 'zod';
import { buildCrate, digestCrate } from './crate.ts';

const note = z.strictObject({ version: z.string(), digest: z.string() }).readonly();
export type HostProgramNote = z.infer<typeof note>;
export const parseHostProgramNote = (value: unknown): HostProgramNote => note.parse(value);

const adapters = join(import.meta.dirname, '../../../packages/adapters');
const crates = {
  jail: { dir: join(adapters, 'runtime-qemu/jail'), program: 'space-jail' },
  helper: { dir: join(adapters, 'root-helper/program'), program: 'space-helper' },
} as const;
export type HostProgram = keyof typeof crates;

export const hostProgramPath = (which: HostProgram, dir: string): string => join(dir, crates[which].program);

export const digestHostProgram = (which: HostProgram): Promise<string> => digestCrate(crates[which].dir);

export const buildHostProgram = (which: HostProgram, dir: string, signal: AbortSignal): Promise<HostProgramNote> =>
  buildCrate(crates[which].dir, hostProgramPath(which, dir), signal);
