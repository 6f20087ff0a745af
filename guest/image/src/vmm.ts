/**
 * The VMM: QEMU with its own libraries and firmware in one folder, run by its own loader and without chroot. It is
 * the same whatever the host has installed, and stays so when the host is upgraded: QEMU state does not cross builds.
 */
import { chmod, copyFile, mkdir, realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { unpackPackages } from './debian.ts';
import { digestTree } from './digest.ts';
import type { VmmRecipe } from './recipe.ts';
import { run } from './run.ts';

const note = z.strictObject({ version: z.string(), digest: z.string() }).readonly();
export type VmmNote = z.infer<typeof note>;
export const parseVmmNote = (value: unknown): VmmNote => note.parse(value);

/** Where things lie below the folder of the artefact. */
export const vmmPaths = (dir: string, recipe: VmmRecipe) => {
  const root = join(dir, 'root');
  return {
    root,
    loader: join(root, recipe.loader),
    libraryPath: recipe.libraryDirs.map((path) => join(root, path)).join(':'),
    binary: join(root, recipe.binary),
    firmwareDirs: Object.keys(recipe.firmware).map((path) => join(root, path)),
  };
};

export async function buildVmm(recipe: VmmRecipe, dir: string, signal: AbortSignal): Promise<VmmNote> {
  const full = join(dir, 'unpacked');
  await unpackPackages({ suite: recipe.suite, packages: [recipe.package] }, full, signal);
  await keepNeeded(recipe, full, join(dir, 'root'));
  await run(['rm', '-rf', '--one-file-system', full]);
  const version = await checkVmm(recipe, dir);
  return { version, digest: await digestTree(join(dir, 'root')) };
}

/** Copies the program, the libraries that its loader names, and the firmware of the recipe. */
async function keepNeeded(recipe: VmmRecipe, from: string, to: string): Promise<void> {
  const libraryPath = recipe.libraryDirs.map((path) => join(from, path)).join(':');
  const loader = await realpath(join(from, recipe.loader));
  const listed = await run([loader, '--library-path', libraryPath, '--list', join(from, recipe.binary)]);
  const libraries = librariesOf(listed).filter((path) => path.startsWith(`${from}/`));
  const firmware = Object.entries(recipe.firmware).flatMap(([folder, names]) =>
    names.map((name) => `${folder}/${name}`),
  );

  await copy(loader, join(to, recipe.loader));
  await copy(join(from, recipe.binary), join(to, recipe.binary));
  for (const path of libraries) await copy(path, join(to, path.slice(from.length + 1)));
  for (const path of firmware) await copy(join(from, path), join(to, path));
}

/** The paths in the loader's list: `libz.so.1 => /path/libz.so.1 (0x…)`. */
export const librariesOf = (listed: string): string[] =>
  [...listed.matchAll(/=> (\/\S+) \(0x/g)].flatMap((match) => match[1] ?? []);

async function copy(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await copyFile(from, to);
  await chmod(to, (await isProgram(from)) ? 0o755 : 0o644);
}

const isProgram = async (path: string): Promise<boolean> => {
  const name = basename(path);
  return name.startsWith('qemu-') || name.startsWith('ld-linux');
};

/** Starts the machine type that is used, stopped, and asks it for its version. */
async function checkVmm(recipe: VmmRecipe, dir: string): Promise<string> {
  const paths = vmmPaths(dir, recipe);
  const qemu = [
    ...[paths.loader, '--library-path', paths.libraryPath, paths.binary],
    ...paths.firmwareDirs.flatMap((path) => ['-L', path]),
    ...['-M', 'microvm', '-accel', 'tcg', '-nodefaults', '-display', 'none', '-S', '-qmp', 'stdio'],
  ];
  const talk = `{ echo '{"execute":"qmp_capabilities"}'; echo '{"execute":"quit"}'; sleep 5; } | exec "$@"`;
  const answer = await run(['timeout', '60', 'sh', '-c', talk, 'sh', ...qemu]);
  const greeting = z
    .object({ QMP: z.object({ version: z.object({ qemu: z.record(z.string(), z.number()), package: z.string() }) }) })
    .parse(JSON.parse(answer.split('\n')[0] ?? ''));
  const { qemu: number, package: build } = greeting.QMP.version;
  return `${number['major']}.${number['minor']}.${number['micro']} (${build})`;
}
