/** The initramfs: the agent as `/init`, and the kernel modules that it loads in the order of `/modules/order`. */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { writeCpio } from './cpio.ts';
import { digestFile } from './digest.ts';

const note = z.strictObject({ digest: z.string(), agentVersion: z.string() }).readonly();
export type InitramfsNote = z.infer<typeof note>;
export const parseInitramfsNote = (value: unknown): InitramfsNote => note.parse(value);

export const initramfsPath = (dir: string): string => join(dir, 'initramfs.cpio');

export interface InitramfsParts {
  readonly agent: string;
  readonly agentVersion: string;
  readonly modules: string;
}

export async function buildInitramfs(parts: InitramfsParts, dir: string): Promise<InitramfsNote> {
  const modules: { path: string; mode: number; content: Buffer }[] = [];
  for (const name of (await readdir(parts.modules)).sort()) {
    modules.push({ path: `modules/${name}`, mode: 0o644, content: await readFile(join(parts.modules, name)) });
  }
  const init = { path: 'init', mode: 0o755, content: await readFile(parts.agent) };
  await writeFile(initramfsPath(dir), writeCpio([init, ...modules], ['dev', 'proc', 'sys']));
  return { digest: await digestFile(initramfsPath(dir)), agentVersion: parts.agentVersion };
}
