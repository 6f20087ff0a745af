/** The guest kernel, ready to be started directly, and its modules in the order in which they can be loaded. */
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { extractKernel } from './bzimage.ts';
import { unpackPackages } from './debian.ts';
import { digestFile } from './digest.ts';
import { loadOrder, moduleName, readDependencies } from './modules.ts';
import type { KernelRecipe } from './recipe.ts';
import { run } from './run.ts';

const note = z.strictObject({ release: z.string(), digest: z.string() }).readonly();
export type KernelNote = z.infer<typeof note>;
export const parseKernelNote = (value: unknown): KernelNote => note.parse(value);

export const kernelPaths = (dir: string) => ({ vmlinux: join(dir, 'vmlinux'), modules: join(dir, 'modules') });

export async function buildKernel(recipe: KernelRecipe, dir: string, signal: AbortSignal): Promise<KernelNote> {
  const full = join(dir, 'unpacked');
  await unpackPackages({ suite: recipe.suite, packages: [recipe.package] }, full, signal);
  const release = await findRelease(full);
  const { vmlinux, modules } = kernelPaths(dir);
  await writeFile(vmlinux, extractKernel(await readFile(join(full, 'boot', `vmlinuz-${release}`))));
  await pickModules(recipe, join(full, 'lib/modules', release), modules);
  await run(['rm', '-rf', '--one-file-system', full]);
  return { release, digest: await digestFile(vmlinux) };
}

async function findRelease(full: string): Promise<string> {
  const releases = await readdir(join(full, 'lib/modules'));
  const [release] = releases;
  if (release === undefined || releases.length > 1) throw new Error(`One kernel expected, found: ${releases}`);
  return release;
}

/** Copies the modules, and writes their file names to `order`, one a line. */
async function pickModules(recipe: KernelRecipe, from: string, to: string): Promise<void> {
  const files = new Map<string, string>();
  for (const path of await readdir(from, { recursive: true })) {
    if (path.endsWith('.ko')) files.set(moduleName(basename(path)), join(from, path));
  }
  const builtIn = new Set(
    (await readFile(join(from, 'modules.builtin'), 'utf8')).split('\n').map((path) => moduleName(basename(path))),
  );
  const dependencies = new Map<string, readonly string[]>();
  const read = async (name: string): Promise<void> => {
    const file = files.get(name);
    if (file === undefined || dependencies.has(name)) return;
    const needed = readDependencies(await readFile(file)).filter((dependency) => !builtIn.has(dependency));
    dependencies.set(name, needed);
    for (const dependency of needed) await read(dependency);
  };
  for (const name of recipe.modules) await read(name);

  await mkdir(to);
  const order = loadOrder(recipe.modules, (name) => dependencies.get(name));
  for (const name of order) await copyFile(files.get(name) ?? '', join(to, `${name}.ko`));
  await writeFile(join(to, 'order'), order.map((name) => `${name}.ko\n`).join(''));
}
