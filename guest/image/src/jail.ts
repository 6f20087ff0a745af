/** The launcher that starts a VMM in its jail; it runs on the host. */
import { join } from 'node:path';
import { z } from 'zod';
import { buildCrate, digestCrate } from './crate.ts';

const note = z.strictObject({ version: z.string(), digest: z.string() }).readonly();
export type JailNote = z.infer<typeof note>;
export const parseJailNote = (value: unknown): JailNote => note.parse(value);

export const jailPath = (dir: string): string => join(dir, 'space-jail');

const crateDir = join(import.meta.dirname, '../../../packages/adapters/runtime-qemu/jail');

export const digestJailSources = (): Promise<string> => digestCrate(crateDir);

export const buildJail = (dir: string, signal: AbortSignal): Promise<JailNote> =>
  buildCrate(crateDir, jailPath(dir), signal);
